package lab

import (
	"bytes"
	"errors"
	"net"
	"time"

	"github.com/weftlab/weft/emu/report"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/netns-lab/vm/agent"
)

// countSockets adds what the hosts' sockets have lost, which no counter of the fabric
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
		} else if g := l.guestNamed(n.Name); g == nil || !g.answers() {
			continue // an image of one's own need not have the agent
		} else {
			c, err = g.sockets()
		}
		s := report.Sockets{Host: n.Name, Full: c.Full, Unopened: c.Unopened, Checksum: c.Checksum}
		if err != nil {
			s.Error = err.Error()
		}
		r.Sockets = append(r.Sockets, s)
	}
}

// answers tells whether programs can be run in the guest.
func (g *guest) answers() bool {
	select {
	case <-g.machine.Over():
		return false
	default:
		return g.machine.Link().IsReady()
	}
}

// countPatience is how long a guest is waited for that is to tell its counters.
const countPatience = 2 * time.Second

// sockets reads the counters of the guest's kernel.
func (g *guest) sockets() (netnslab.Sockets, error) {
	var v4, v6 bytes.Buffer
	for file, text := range map[string]*bytes.Buffer{"snmp": &v4, "snmp6": &v6} {
		ours, its := net.Pipe()
		go g.machine.Link().Relay(its)
		limit := time.AfterFunc(countPatience, func() { ours.Close() })
		res, err := agent.Run(ours, agent.Command{Argv: []string{"cat", "/proc/net/" + file}, Stdout: text})
		if !limit.Stop() && err != nil {
			err = errors.New("the guest does not answer")
		}
		if err == nil && res.Error != "" {
			err = errors.New(res.Error)
		}
		if err != nil {
			return netnslab.Sockets{}, err
		}
	}
	return netnslab.ParseSockets(v4.String(), v6.String()), nil
}
