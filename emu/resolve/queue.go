package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// Default limits of queues.
const (
	switchQueue = units.MB
	hostQueue   = 10 * units.MB
)

// portClasses sets the queues of every port of a node with classes, except for
// what depends on links and buffer.
func (v *qos) portClasses() {
	for i, d := range v.qosFiles {
		if d == nil {
			continue
		}
		n := &v.plan.Nodes[i]
		for p := range n.Ports {
			port, queue := &n.Ports[p], v.queues[plan.End{Node: i, Port: p}]
			port.Classes = make([]class.Class, 0, len(d.classes))
			for _, file := range d.classes {
				c := file.commonPart()
				if file.Limit != nil || n.Kind == plan.Host || !d.isLossless(file) && (queue.Limit != nil || d.Buffer.Settings() == nil) {
					c.Limit = port.Queue.Limit
					setFrom(&c.Limit, file.Limit)
				}
				c.Mark = port.Queue.Mark
				if file.Mark != nil {
					c.Mark = v.resolveMarking(file.Mark, v.rateOf(port))
					if n.Kind == plan.Host {
						v.checkMark(n, c.Mark, c.Limit, file.Mark)
					}
				}
				port.Classes = append(port.Classes, c)
			}
		}
	}
}

// checkClassLimits reports queues of a port that cannot hold a frame. Place is
// the setting that determines the frame's size.
func (v *qos) checkClassLimits(at plan.End, frame units.Bytes, place any) {
	d := v.qosFiles[at.Node]
	for i, c := range v.plan.Nodes[at.Node].Ports[at.Port].Classes {
		file, queue := d.classes[i], v.queues[at]
		limited := c.Limit > 0 || file.Limit != nil || !d.isLossless(file) && queue.Limit != nil
		if limited && c.Limit < frame {
			v.ReportFault(v.FirstSet(file.Limit, queue.Limit, place), "",
				"the queue of the class %s at %s holds %v, less than one packet of the MTU (%dB with its Ethernet header)",
				c.Name, v.plan.PortName(at.Node, at.Port), c.Limit, frame)
		}
	}
}

// portSettings resolves queues, and the settings of single ports and
// interfaces. The most specific setting wins, in this order: the link's
// direction, the port, the node, the kind.
func (v *qos) portSettings() {
	kinds := v.kinds
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		queue, limit := file.Queue.MergeOver(v.hostQueue(n)), hostQueue
		single := make([]labfile.Queue, len(n.Ports))
		if n.Kind == plan.Switch {
			queue, limit = file.Queue.MergeOver(kinds.Switch.Queue), switchQueue
			for j := range file.Ports {
				if port, ok := v.findPort(i, &file.Ports[j].Name); ok {
					single[port] = file.Ports[j].Value.Queue
				}
			}
		} else {
			for j := range file.Interfaces {
				if port, ok := v.findPort(i, &file.Interfaces[j].Name); ok {
					single[port] = file.Interfaces[j].Value.Queue
				}
			}
		}
		for p := range n.Ports {
			at := plan.End{Node: i, Port: p}
			q := v.queues[at].MergeOver(single[p]).MergeOver(queue)
			v.queues[at] = q
			n.Ports[p].Queue.Limit = limit
			setFrom(&n.Ports[p].Queue.Limit, q.Limit)
			if q.Mark != nil {
				mark := v.resolveMarking(q.Mark, v.rateOf(&n.Ports[p]))
				n.Ports[p].Queue.Mark = mark
				if v.qosFiles[i] == nil || n.Kind == plan.Host {
					v.checkMark(n, mark, n.Ports[p].Queue.Limit, q.Mark)
				}
			}
		}
	}
}

// hostQueue returns the queue that the kind of a host or virtual machine gives
// it.
func (v *qos) hostQueue(n *plan.Node) labfile.Queue {
	if n.VM != nil {
		return v.kinds.VM.Queue
	}
	return v.kinds.Host.Queue
}
