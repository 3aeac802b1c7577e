package lab

import (
	"context"
	"time"

	"github.com/weftlab/weft/emu/report"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// countSockets adds the losses of the hosts' sockets, which no counter of the fabric
// or of a device shows.
func (l *Lab) countSockets(r *report.Report) {
	for i := range l.plan.Nodes {
		n := &l.plan.Nodes[i]
		if !isReal(n) {
			continue
		}
		var c netnslab.Sockets
		var err error
		if n.VM == nil {
			c, err = l.hosts.Sockets(n.Name)
		} else if g := l.guestNamed(n.Name); g == nil || !g.isReachable() {
			continue // a custom image need not have the agent
		} else {
			c, err = g.readSockets()
		}
		s := report.Sockets{Host: n.Name, Full: c.Full, Memory: c.Memory, Unopened: c.Unopened, Checksum: c.Checksum}
		if err != nil {
			s.Error = err.Error()
		}
		r.Sockets = append(r.Sockets, s)
	}
}

// isReachable reports whether programs can be run in the guest.
func (g *guest) isReachable() bool {
	select {
	case <-g.machine.Over():
		return false
	default:
		return g.machine.Link().IsReady()
	}
}

// countTimeout is how long to wait for the counters of a guest, which may be slow.
const countTimeout = 20 * time.Second

// readSockets reads the counters of the guest's kernel.
func (g *guest) readSockets() (netnslab.Sockets, error) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	// A guest without IPv6 has no snmp6.
	_, text, err := g.runInGuest(ctx, "cat", "/proc/net/snmp", "/proc/net/snmp6")
	return netnslab.ParseSockets(text, text), err
}
