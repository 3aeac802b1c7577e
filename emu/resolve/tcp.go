package resolve

import (
	"reflect"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// byTCP resolves the settings of flows that use TCP.
func (e *patternEntry) byTCP(p pattern.Pattern) *carrier.TCP {
	hosts := p.Hosts()
	f := e.file.By.Value.TCP
	c := &carrier.TCP{Config: tcp.Default(), DSCP: uint8(f.DSCP), Control: e.tcpControl(f, hosts)}
	ipv6, used := e.checkPaths(p, f.IP, true)
	c.IPv6 = ipv6
	c.ECN = carrier.ECNOf(c.Control)
	c.MTU = e.packetMTU(used, f.MTU, c.IPv6)
	setFrom(&c.Window, f.Window)
	setFrom(&c.Timestamps, f.Timestamps)
	setFrom(&c.InitialRTO, f.InitialRTO)
	setFrom(&c.MinRTO, f.MinRTO)
	setFrom(&c.MaxRTO, f.MaxRTO)
	setFrom(&c.Retries, f.Retries)
	setFrom(&c.TailProbes, f.TailProbes)
	setFrom(&c.AckEvery, f.AckEvery)
	setFrom(&c.QuickAcks, f.QuickAcks)
	setFrom(&c.DelayedAck, f.DelayedAck)
	setFrom(&c.SACKDelay, f.SACKDelay)
	labfile.ReportSettings(e.Reader, "tcp", f, c.Config.Check(), e.carrierPlace())
	return c
}

// tcpControl resolves the rate control of flows, which is the same for all hosts.
func (e *patternEntry) tcpControl(f *labfile.TCPFlows, hosts []int) (control cc.Choice) {
	file := f.Control
	if file == nil {
		file = &labfile.Control{Name: defaultTCPControl}
	}
	if file.Name == "" {
		e.ReportFault(f.Control, "leave it out for cubic", "TCP flows need a rate control")
		return cc.Choice{}
	}
	for i, h := range hosts {
		c := e.resolveControl(&e.plan.Nodes[h], file, e.carrierPlace())
		switch {
		case c.Settings == nil:
			return cc.Choice{}
		case i == 0:
			control = c
		case !reflect.DeepEqual(c, control):
			e.FailOnce(e.FirstSet(f.Control, e.carrierPlace()), "write an entry for each group of hosts",
				"the parameters of %s depend on the rate of a host's link, and the links of %s and %s differ", c, e.plan.Nodes[hosts[0]].Name, e.plan.Nodes[h].Name)
			return cc.Choice{}
		}
	}
	if err := carrier.CheckControl(control); err != nil {
		e.ReportFault(e.FirstSet(f.Control, e.carrierPlace()), "choose one that works with acknowledgements: cubic, reno, dctcp, bbr", "%v", err)
	}
	for _, h := range hosts {
		s, ok := e.plan.Nodes[h].Edge.Settings.(edge.MessageReceiver)
		if m := cc.Methods.Kind(control.Name).Feedback; ok && m != nil && m == s.MessageProtocol() {
			e.FailOnce(e.FirstSet(f.Control, e.carrierPlace()), "leave out cc here, as the edge also limits these flows, or leave out edge",
				"TCP flows have %s, and so has the edge service of %s: both would send messages about the same flows", control, e.plan.Nodes[h].Name)
			break
		}
	}
	return control
}

// defaultTCPControl is the rate control of TCP flows if the file names none.
const defaultTCPControl = "cubic"
