package fabric

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// addClasses sets up the queues of the ports of a node with traffic classes,
// and the node's buffer. The buffer of a host has no limit.
func (f *Fabric) addClasses(n int) {
	node, ports := &f.Plan.Nodes[n], f.ports[n]
	if node.QoS == nil {
		return
	}
	shard := f.ShardOf(n)
	config := buffer.Config{Size: node.QoS.Buffer, Ports: make([]buffer.Port, len(ports)), Pause: node.QoS.Pause}
	for i := range ports {
		config.Ports[i] = buffer.Port{Classes: node.Ports[i].Classes, Headroom: node.Ports[i].Headroom}
	}
	c := &port.Chassis{Map: node.QoS.Map, Buffer: buffer.New(config), Ports: ports, Pause: node.QoS.Pause, CutThrough: node.QoS.CutThrough}
	if sw := f.Switches[n]; sw != nil {
		sw.SetChassis(c)
		if forward := c.Forward; f.topology.Routed() {
			c.Forward = func(now units.Time, p *packet.Packet) {
				f.topology.TurnRound(p)
				forward(now, p)
			}
		}
	}
	for _, iface := range f.interfaces[n] {
		if iface != nil {
			iface.SetChassis(c)
		}
	}
	for i, p := range ports {
		p.SetClasses(c, node.Ports[i].Classes, port.ClassEnv{
			Engine: f.engineOf(n),
			Rand:   sim.NewRand(f.Plan.Seed, "trim "+p.Name),
			Point: func(k class.Class, wake func(units.Time)) congestion.Point {
				return newPoint(k.Mark, f.pointEnv(n, i, k.Name, wake))
			},
			MAC: f.controlMAC(n, i), Obeys: node.Ports[i].Obeys, Peer: f.peerCredits(n, i),
			Storm: f.logStorms(shard, n, i), Paused: reportPauses(shard, n, i),
		})
	}
}

// peerCredits returns the credits that the classes of the port at the other end of a link
// offer.
func (f *Fabric) peerCredits(node, port int) (peer credit.Configs) {
	p := &f.Plan.Nodes[node].Ports[port]
	if p.Link < 0 {
		return peer
	}
	end := f.Plan.Links[p.Link].Ends[1-p.End]
	for _, c := range f.Plan.Nodes[end.Node].Ports[end.Port].Classes {
		peer[c.Priority] = c.Credits
	}
	return peer
}

// controlMAC returns the source address of a port's MAC control frames: a
// router's port uses its MAC; other ports use a locally administered address
// with the numbers of the node and the port.
func (f *Fabric) controlMAC(node, port int) wire.MAC {
	if f.Plan.Nodes[node].Router != nil {
		return f.topology.MAC(plan.End{Node: node, Port: port})
	}
	return 0x06<<40 | wire.MAC(node)<<16 | wire.MAC(port)
}
