// Package netnslab makes the hosts of a lab out of Linux network namespaces,
// and removes them again without residue.
//
// A host is a named namespace, seen by `ip netns` as weft-<lab>-<host>, with
// TUN or TAP devices whose other side is a file descriptor in the hands of the
// caller. What programs inside the host send is read from that descriptor as
// raw frames (TAP) or IP packets (TUN); what is written to it arrives at them.
//
// Everything that Create makes is written down first, in a journal under
// /run/weft/<lab>, and the owner holds a lock on that directory for as long as
// it lives. So a lab whose owner was killed, at whatever moment, is known as
// such and is removed by Sweep or by the next Create of the same name.
//
// It needs CAP_NET_ADMIN and CAP_SYS_ADMIN, /dev/net/tun, and write access to
// /run and /etc; CheckPrivileges says what is missing. An ordinary user gets all
// but /dev/net/tun in namespaces of their own: see PrepareRootless.
package netnslab

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// buildWorkers is how many hosts are made or taken down at the same time. The
// kernel makes and ends devices under one lock, much of it waiting for grace
// periods, so that more than the number of processors pays.
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

// Create makes the hosts of the lab called name: all of them or, on any error,
// none. A lab of that name whose owner is dead is removed first; one whose
// owner lives is an error that wraps ErrRunning.
//
// Of info only File, Names and Dilation are read. The devices are up and carry a carrier when Create
// returns; frames that hosts send from then on wait in the devices' rings.
func Create(name string, info Info, hosts []Host) (*Lab, error) {
	if err := CheckPrivileges(); err != nil {
		return nil, err
	}
	if err := validate(name, hosts); err != nil {
		return nil, err
	}
	info = Info{Name: name, File: info.File, Names: info.Names, Dilation: info.Dilation, PID: os.Getpid(), Started: time.Now(), Hosts: describe(name, hosts), Rootless: inRootless()}
	st, err := claim(info)
	if err != nil {
		return nil, err
	}
	info.Dir, info.Running = st.dir(), true
	l := &Lab{info: info, state: st}
	if err := l.build(hosts); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for i, ns := range l.hosts {
		if ns.init != nil {
			l.info.Hosts[i].Init = ns.init.pid
		}
	}
	if err := writeJournal(l.info.Dir, l.info); err != nil { // for Exec
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// build makes every host of the lab. What was made before an error is left in
// l for Close.
func (l *Lab) build(hosts []Host) error {
	if err := shareNetnsMounts(); err != nil {
		return err
	}
	life, err := newLifeline()
	if err != nil {
		return err
	}
	l.life = life
	names := hostsFile(l.info.Hosts, l.info.Names)
	l.hosts = make([]*namespace, len(hosts))
	devices := make([][]*Device, len(hosts))

	work, ctx := errgroup.WithContext(context.Background())
	work.SetLimit(buildWorkers)
	for i, h := range hosts {
		work.Go(func() (err error) {
			if ctx.Err() != nil {
				return nil // another host failed, and its error is the one to report
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

// Devices lists the lab's devices in the order of the hosts and, within a host,
// of its interfaces.
func (l *Lab) Devices() []*Device { return l.devices }

// Dir is the lab's state directory, where a control socket may live. Close
// removes it with all it holds.
func (l *Lab) Dir() string { return l.info.Dir }

// Info describes the lab.
func (l *Lab) Info() Info { return l.info }

// Close ends the processes inside the hosts and removes all that Create made.
// The devices' descriptors are invalid from the moment it is called:
// readers must have stopped. Where a part cannot be removed the rest still
// is, and the journal stays for Sweep. Further calls return the same result.
func (l *Lab) Close() error {
	l.close.Do(func() { l.closeErr = l.remove() })
	return l.closeErr
}

func (l *Lab) remove() error {
	defer l.state.unlock()
	inodes := l.info.inodes()
	// Programs are asked to end before the inits take them along.
	ended := endProcesses(inodes, l.inits())
	if ended == nil { // else the names stay, or the process could not be found again
		ended = l.endInits()
	}
	var named error
	if ended == nil {
		named = removeHosts(l.info)
		// A program that was on its way in while the others ended is there now.
		// Until l.hosts are closed no other namespace is given these numbers.
		ended = endProcesses(inodes, nil)
	}
	for _, ns := range l.hosts { // first, so that no method of a device uses a closed descriptor
		if ns != nil {
			ns.close()
		}
	}
	var work errgroup.Group
	work.SetLimit(buildWorkers)
	for _, d := range l.devices {
		work.Go(d.close)
	}
	if err := errors.Join(ended, named, work.Wait()); err != nil {
		return err
	}
	return l.state.remove()
}

// inits are the hosts' first processes, by their numbers.
func (l *Lab) inits() map[int]bool {
	pids := map[int]bool{}
	for _, ns := range l.hosts {
		if ns != nil && ns.init != nil {
			pids[ns.init.pid] = true
		}
	}
	return pids
}

// endInits ends the hosts' first processes, and whatever else is left in their PID
// namespaces.
func (l *Lab) endInits() error {
	var work errgroup.Group
	work.SetLimit(buildWorkers)
	for _, ns := range l.hosts {
		if ns != nil && ns.init != nil {
			work.Go(ns.init.kill)
		}
	}
	err := work.Wait()
	if l.life != nil {
		l.life.close()
	}
	return err
}
