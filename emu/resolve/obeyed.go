package resolve

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/switches/pfc"
)

// resolveObeyed resolves which pauses of their peers ports obey. At a switch it is what the port
// itself asks for. A host takes over what its switch has, as with DCBX (IEEE 802.1Q-2022 §38);
// its own classes can differ.
func (v *qos) resolveObeyed() {
	for i, d := range v.qosFiles {
		if d == nil {
			continue
		}
		n := &v.plan.Nodes[i]
		for p := range n.Ports {
			port := &n.Ports[p]
			if n.Kind == plan.Switch {
				port.Obeys = requestablePauses(n, port)
			} else {
				port.Obeys = v.obeyedByHost(d, port)
			}
		}
	}
}

// requestablePauses returns the pauses that a port of a switch may ask for.
func requestablePauses(n *plan.Node, port *plan.Port) (o pfc.Obeyed) {
	o.Pause = n.QoS != nil && n.QoS.Pause != nil
	for _, c := range port.Classes {
		if c.PFC != nil {
			o.Classes |= 1 << c.Priority
		}
	}
	return o
}

// obeyedByHost returns the pauses that a port of a host with these classes obeys.
func (v *qos) obeyedByHost(d *qosFile, port *plan.Port) (o pfc.Obeyed) {
	if port.Link >= 0 {
		end := v.plan.Links[port.Link].Ends[1-port.End]
		if far := &v.plan.Nodes[end.Node]; far.Kind == plan.Switch {
			o = requestablePauses(far, &far.Ports[end.Port])
		}
	}
	var known uint8
	for _, c := range d.classes {
		bit := uint8(1) << c.priority
		known |= bit
		switch {
		case c.PFC == nil:
		case c.PFC.Settings() == nil:
			o.Classes &^= bit
		case !o.Pause:
			o.Classes |= bit
		}
	}
	o.Classes &= known
	return o
}
