package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/wall"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/netns-lab/livefs"
	"github.com/weftlab/weft/nicemu/uverbs"
)

// verbsServer lets the programs of a host use its NICs.
type verbsServer struct {
	host     string
	node     int                // of the plan
	do       func(func()) error // on the host's engine
	server   *uverbs.Server
	counters *livefs.FS    // of the NICs, in the host's /sys; nil if the machine has no FUSE for them
	changed  chan struct{} // a port has changed: its files are to be written again
	over     chan struct{} // closed at the end
}

// resolveTime is about the time that ARP takes on a real network. It is real time,
// because some programs rely on that delay for others to become ready.
const resolveTime = 3 * time.Millisecond

// offerVerbs creates the servers of all real hosts with NICs. The hosts' engines
// poll them.
func (l *Lab) offerVerbs() error {
	for n := range l.plan.Nodes {
		node := &l.plan.Nodes[n]
		if !isReal(node) || node.NIC == nil {
			continue
		}
		var devices []uverbs.Device
		for i := range node.Ports {
			if d := l.fabric.Device(n, i); d != nil {
				devices = append(devices, uverbs.Device{Device: d, Netdev: node.Ports[i].Name})
			}
		}
		driver := l.engines[l.fabric.ShardOf(n).Number].driver
		s, err := uverbs.New(devices, driver.Do)
		if err != nil {
			return fmt.Errorf("host %s: %w", node.Name, err)
		}
		s.ResolveTime = resolveTime
		s.Start = func() time.Time { return l.clock.Start() }
		changed := make(chan struct{}, 1)
		s.PortChanged = func() {
			select {
			case changed <- struct{}{}:
			default: // the files are not written yet
			}
		}
		l.verbs = append(l.verbs, verbsServer{host: node.Name, node: n, do: driver.Do, server: s, changed: changed, over: make(chan struct{})})
		if err := driver.AttachDevice(s); err != nil {
			return fmt.Errorf("host %s: %w", node.Name, err)
		}
	}
	return nil
}

// librariesEnv names the directory of the libraries for RDMA programs, if it is not
// the one beside weft.
const librariesEnv = "WEFT_VERBS"

// VerbsLibrary is the library that verbs require.
const VerbsLibrary = "libibverbs.so.1"

// FindLibraries finds the directory with the libraries for RDMA programs.
func FindLibraries() (string, error) {
	dir := os.Getenv(librariesEnv)
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(filepath.Dir(self), "verbs")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, VerbsLibrary)); err != nil {
		return "", fmt.Errorf("the libraries for that are not in %s: scripts/verbs.sh builds them into bin/verbs; $%s can name another directory; then restart the lab", dir, librariesEnv)
	}
	return dir, nil
}

// librariesLink exists in a lab's state directory if the hosts with NICs have the
// libraries.
const librariesLink = "libraries"

// HasLibraries reports whether the hosts with NICs of the running lab with
// state directory dir have the libraries for RDMA programs.
func HasLibraries(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, librariesLink))
	return err == nil
}

// listenVerbs creates the servers' sockets and gives the hosts all that programs need.
// If the libraries have not been built, that is an error only for programs that use
// them.
func (l *Lab) listenVerbs() error {
	if len(l.verbs) == 0 {
		return nil
	}
	dir := l.hosts.Dir()
	libraries, missing := FindLibraries()
	for i := range l.verbs {
		v := &l.verbs[i]
		if err := v.server.WriteSys(netnslab.VerbsSys(dir, v.host), v.host); err != nil {
			return fmt.Errorf("RDMA devices of host %s: %w", v.host, err)
		}
		if err := v.server.Listen(netnslab.VerbsSocket(dir, v.host)); err != nil {
			return fmt.Errorf("socket for RDMA programs of host %s: %w", v.host, err)
		}
		if missing != nil {
			continue
		}
		if err := l.showVerbs(v, libraries); err != nil {
			return err
		}
	}
	if missing != nil {
		return nil
	}
	if err := os.Symlink(libraries, filepath.Join(dir, librariesLink)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// showVerbs gives a host its NICs, with their counters if the machine supports that:
// programs seldom look there, and doctor says what is missing.
func (l *Lab) showVerbs(v *verbsServer, libraries string) error {
	counters, device, err := livefs.MountFS("weft")
	switch {
	case errors.Is(err, livefs.ErrUnavailable):
		counters = -1
	case err != nil:
		return err
	default:
		defer unix.Close(counters)
		v.counters = livefs.ServeFiles(device, v.server.Counters())
	}
	return l.hosts.ShowVerbs(v.host, libraries, counters)
}

func (l *Lab) serveVerbs(warn func(error)) {
	dir := l.hosts.Dir()
	for _, v := range l.verbs {
		go v.server.Serve(func(err error) { warn(fmt.Errorf("host %s: %w", v.host, err)) })
		go v.updateSys(netnslab.VerbsSys(dir, v.host), warn)
		go l.followAddresses(v, warn)
	}
}

// followAddresses makes the addresses of a host's interfaces the GIDs of its NICs, until the end.
func (l *Lab) followAddresses(v verbsServer, warn func(error)) {
	ports := l.plan.Nodes[v.node].Ports
	err := l.hosts.WatchAddresses(v.host, v.over, func(c netnslab.AddressChange) {
		index := slices.IndexFunc(ports, func(p plan.Port) bool { return p.Name == c.Interface })
		if index < 0 {
			return // loopback, or made by a program
		}
		change := l.fabric.AddAddress
		if c.Removed {
			change = l.fabric.RemoveAddress
		}
		_ = v.do(func() { change(v.node, index, c.Address) }) // else the lab has ended
	})
	if err != nil {
		warn(fmt.Errorf("the GIDs of host %s do not follow its addresses: %w", v.host, err))
	}
}

// updateSys keeps the files of a host's NICs in /sys up to date until the end.
func (v *verbsServer) updateSys(dir string, warn func(error)) {
	for {
		select {
		case <-v.changed:
		case <-v.over:
			return
		}
		if err := v.server.UpdateSys(dir); err != nil && !errors.Is(err, wall.ErrStopped) {
			warn(fmt.Errorf("RDMA devices of host %s: %w", v.host, err))
		}
	}
}

func (l *Lab) closeVerbs() {
	for _, v := range l.verbs {
		if v.counters != nil {
			v.counters.Close()
		}
		v.server.Close()
		close(v.over)
	}
}
