package lab

import (
	"errors"
	"fmt"
	"net"
	"time"

	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/netns-lab/livefs"
	"github.com/weftlab/weft/nicemu/uverbs"
)

// verbsServer is what lets the programs of a host use its NICs.
type verbsServer struct {
	host     string
	server   *uverbs.Server
	counters *net.UnixListener // who shows the NICs' counters in /sys comes here
}

// resolveTime is about what ARP takes on a real network.
const resolveTime = 3 * time.Millisecond

// offerVerbs makes the servers of all real hosts with NICs, which the hosts' engines
// poll.
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
		l.verbs = append(l.verbs, verbsServer{host: node.Name, server: s})
		if err := driver.Attach(s); err != nil {
			return fmt.Errorf("host %s: %w", node.Name, err)
		}
	}
	return nil
}

// listenVerbs makes the servers' sockets, and what programs look for in /sys.
func (l *Lab) listenVerbs() error {
	for i := range l.verbs {
		v := &l.verbs[i]
		if err := v.server.WriteClass(netnslab.VerbsClass(l.hosts.Dir(), v.host), v.host); err != nil {
			return fmt.Errorf("RDMA devices of host %s: %w", v.host, err)
		}
		if err := v.server.Listen(netnslab.VerbsSocket(l.hosts.Dir(), v.host)); err != nil {
			return fmt.Errorf("socket for RDMA programs of host %s: %w", v.host, err)
		}
		var err error
		if v.counters, err = livefs.Listen(netnslab.VerbsCounters(l.hosts.Dir(), v.host)); err != nil {
			return fmt.Errorf("socket for counters of host %s: %w", v.host, err)
		}
	}
	return nil
}

func (l *Lab) serveVerbs(warn func(error)) {
	for _, v := range l.verbs {
		go v.server.Serve(func(err error) { warn(fmt.Errorf("host %s: %w", v.host, err)) })
		go v.serveCounters()
	}
}

// takeAgain is how long to wait where there are no descriptors for instance.
const takeAgain = 100 * time.Millisecond

// serveCounters serves the NICs' counters to each who asks for that. They end with the
// mounts, which the host's programs have.
func (v *verbsServer) serveCounters() {
	for {
		device, err := livefs.Take(v.counters)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(takeAgain)
		default:
			livefs.Serve(device, v.server.Counters())
		}
	}
}

func (l *Lab) closeVerbs() {
	for _, v := range l.verbs {
		if v.counters != nil {
			v.counters.Close()
		}
		v.server.Close()
	}
}
