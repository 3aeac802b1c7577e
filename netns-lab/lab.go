// Package netnslab builds the hosts of a lab from Linux network namespaces, and
// removes them without residue.
//
// A host is a named namespace, weft-<lab>-<host> in `ip netns`, with TUN or TAP
// devices whose other side is a file descriptor held by the caller. Packets sent by
// programs inside the host are read from that descriptor as raw frames (TAP) or IP
// packets (TUN); packets written to it reach those programs.
//
// Create first records everything it makes in a journal under /run/weft/<lab>, and
// the owner holds a lock on that directory as long as it lives. So a lab whose owner
// was killed, at whatever moment, is recognised and is removed by SweepLab or by the
// next Create of the same name.
//
// It needs CAP_NET_ADMIN and CAP_SYS_ADMIN, /dev/net/tun, and write access to /run
// and /etc; CheckPrivileges says what is missing. An ordinary user gets everything
// except /dev/net/tun in their own namespaces: see PrepareRootless.
//
// # A host's processes
//
// A host is a set of namespaces that its own first process holds (init.go). Create
// executes its own program again for each host, in new PID, mount, UTS and IPC namespaces.
// That process sets up the host's view of the machine (view.go), answers, and becomes
// cat(1), which is much smaller and reads from a pipe that closes with the owner. So the
// processes of a host end with the owner, however it ends. For RDMA a thread of the owner
// enters the host's mounts (verbs.go, libraries.go).
//
// A program is started by a process that finds the host in the journal (program.go). One
// of its threads joins the namespaces and starts the program's process, because a process
// cannot move to another PID namespace; only its children are there. The outer process
// represents the program to the shell and passes on signals (job.go). The owner takes no
// part. In a rootless lab that thread enters through nsenter(1), because a process with
// threads cannot change its user namespace.
//
// # Devices
//
// Devices are opened inside the namespace through songgao/water, and their descriptors are
// kept out of Go's poller; those with offload have an opener of their own (offload.go),
// because water has no IFF_VNET_HDR. They are not persistent, so they disappear with the
// process, and a process that waits for the lock on the directory waits until the kernel
// has closed them.
//
// What a host sends waits in its own qdisc, a tbf at exactly the rate of the link
// (shaper.go). Without offload, packets leave one at a time and the tbf counts preamble,
// FCS and gap. With offload a size table gives each super-packet the wire size of its
// packets (sizetable.go). So the ring of the device never fills, which matters because a
// full ring drops silently.
//
// A host with traffic classes has a queue of the device for each, each with its own tbf
// under mq (queues.go); a BPF program sorts packets by DSCP or PCP (steering.go). Holding
// a queue sets its tbf to a minimal rate. Releasing it restores the rate and sends a
// marked frame that makes the kernel check the queue again (kick.go). Without permission
// to load BPF the whole host is held.
//
// # Rootless labs
//
// The lab lives in a user, mount and network namespace of its own (rootless.go). There a
// private /run covers the machine's, with the user's state directory as /run/weft, so
// everything else works as for root. Other commands stay outside and reach journal, lock
// and control socket through the file system. Programs that a killed lab leaves behind are
// found by the names in their mount namespaces.
package netnslab

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// buildWorkers is how many hosts are built or removed at the same time. The kernel
// creates and removes devices under one lock and spends much of that time waiting
// for grace periods, so more workers than processors are worthwhile.
const buildWorkers = 16

// Lab is a set of running hosts, owned by this process.
type Lab struct {
	info    Info
	state   *state
	hosts   []*namespace
	devices []*Device
	life    *lifeline // of the hosts' inits
	cache   linkerCache

	close    sync.Once
	closeErr error
}

// Create makes the hosts of the lab called name: all of them or, on any error, none.
// A lab of that name whose owner is dead is removed first; if its owner is alive,
// the error wraps ErrRunning.
//
// Only File, Names and Dilation of info are used. The devices are up and have a carrier when Create
// returns; frames that hosts send from then on wait in the devices' rings.
func Create(name string, info Info, hosts []Host) (*Lab, error) {
	if err := CheckPrivileges(); err != nil {
		return nil, err
	}
	if err := validateHosts(name, hosts); err != nil {
		return nil, err
	}
	info = Info{Name: name, File: info.File, Names: info.Names, Dilation: info.Dilation, PID: os.Getpid(), Started: time.Now(), Hosts: describeHosts(name, hosts), Rootless: inRootless()}
	st, err := claimLab(info)
	if err != nil {
		return nil, err
	}
	info.Dir, info.Running = st.directory(), true
	l := &Lab{info: info, state: st}
	if err := l.buildHosts(hosts); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for i, ns := range l.hosts {
		if ns.init != nil {
			l.info.Hosts[i].Init = ns.init.pid
		}
	}
	if err := writeJournal(l.info.Dir, l.info); err != nil { // for ExecProgram
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// buildHosts makes every host of the lab. After an error, what was made before it is left
// in l for Close.
func (l *Lab) buildHosts(hosts []Host) error {
	if err := shareNetnsMounts(); err != nil {
		return err
	}
	life, err := newLifeline()
	if err != nil {
		return err
	}
	l.life = life
	common := hostsFile(l.info.Hosts, l.info.Names, nil)
	l.hosts = make([]*namespace, len(hosts))
	devices := make([][]*Device, len(hosts))

	work, ctx := errgroup.WithContext(context.Background())
	work.SetLimit(buildWorkers)
	for i, h := range hosts {
		work.Go(func() (err error) {
			if ctx.Err() != nil {
				return nil // another host failed, and its error is the one to report
			}
			names := common
			if len(h.Prefer) > 0 {
				names = hostsFile(l.info.Hosts, l.info.Names, h.Prefer)
			}
			l.hosts[i], devices[i], err = l.buildHost(l.info.Hosts[i], h, names)
			return err
		})
	}
	err = work.Wait()
	for _, d := range devices {
		l.devices = append(l.devices, d...)
	}
	return err
}

// Devices returns the lab's devices in the order of the hosts and, within a host, of
// its interfaces.
func (l *Lab) Devices() []*Device { return l.devices }

// Dir returns the lab's state directory, where a control socket may live. Close
// removes it with its contents.
func (l *Lab) Dir() string { return l.info.Dir }

// Info returns the description of the lab.
func (l *Lab) Info() Info { return l.info }

// Close ends the processes inside the hosts and removes all that Create made.
// The devices' descriptors are invalid from the moment it is called: readers must
// have stopped. If a part cannot be removed, the rest still is, and the journal
// stays for SweepLab. Further calls return the same result.
func (l *Lab) Close() error {
	l.close.Do(func() { l.closeErr = l.removeHosts() })
	return l.closeErr
}

func (l *Lab) removeHosts() error {
	defer l.state.unlockState()
	inodes := l.info.findInodes()
	// Programs are asked to end before their inits are killed.
	ended := endProcesses(inodes, l.initPIDs())
	if ended == nil { // otherwise the names stay, or the processes could not be found again
		ended = l.endInits()
	}
	var named error
	if ended == nil {
		named = removeHosts(l.info)
		// A program that was entering while the others ended is there now. Until
		// l.hosts are closed, no other namespace gets these numbers.
		ended = endProcesses(inodes, nil)
	}
	for _, ns := range l.hosts { // first, so that no method of a device uses a closed descriptor
		if ns != nil {
			ns.closeNamespace()
		}
	}
	var work errgroup.Group
	work.SetLimit(buildWorkers)
	for _, d := range l.devices {
		work.Go(d.closeQueues)
	}
	if err := errors.Join(ended, named, work.Wait()); err != nil {
		return err
	}
	return l.state.removeState()
}

// initPIDs returns the PIDs of the hosts' first processes.
func (l *Lab) initPIDs() map[int]bool {
	pids := map[int]bool{}
	for _, ns := range l.hosts {
		if ns != nil && ns.init != nil {
			pids[ns.init.pid] = true
		}
	}
	return pids
}

// endInits ends the hosts' first processes, and any others left in their PID namespaces.
func (l *Lab) endInits() error {
	var work errgroup.Group
	work.SetLimit(buildWorkers)
	for _, ns := range l.hosts {
		if ns != nil && ns.init != nil {
			work.Go(ns.init.killInit)
		}
	}
	err := work.Wait()
	if l.life != nil {
		l.life.closeLifeline()
	}
	return err
}
