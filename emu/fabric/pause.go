package fabric

import (
	"fmt"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
)

func highWatermark(a buffer.HighWatermark, threshold units.Bytes) status.HighWatermark {
	return status.HighWatermark{Threshold: threshold, Known: a.Known, Used: a.Used, Of: max(a.Threshold, 0), At: a.At}
}

// CheckPause explains the pauses of a port of a switch. It returns an error for
// a port of a host.
func (f *Fabric) CheckPause(node, index int) (status.PauseCheck, error) {
	name, n := f.Plan.PortName(node, index), &f.Plan.Nodes[node]
	sw := f.Switches[node]
	if sw == nil {
		return status.PauseCheck{}, fmt.Errorf("%s is a port of a host, and hosts do not pause their switch: name a port of a switch", name)
	}
	p := f.ports[node][index]
	c := status.PauseCheck{Port: name, Now: f.nowAt(node)}
	if l := n.Ports[index]; l.Link >= 0 {
		far := f.Plan.Links[l.Link].Ends[1-l.End]
		c.Peer = f.Plan.PortName(far.Node, far.Port)
	}
	if n.QoS == nil {
		c.Reason = fmt.Sprintf("%s has plain ports: give it classes with pfc, or pause", n.Name)
		return c, nil
	}
	c.Global = n.QoS.Pause != nil
	need, known := f.headroomNeeded(node, index)
	chassis := sw.Chassis()
	c.Buffer, c.Held = chassis.Buffer.Size(), chassis.Buffer.HeldBytes()
	any, credits := c.Global, false
	for i, k := range p.Classes(c.Now) {
		s := &n.Ports[index].Classes[i]
		row := status.PauseClass{
			Name: k.Name, Priority: k.Priority, Lossless: k.Ingress.Lossless, RxPackets: k.RxPackets,
			Pauses: k.Sent.Pauses, PauseFrames: k.Sent.PauseFrames, PausingTime: k.Sent.Time, Xoff: highWatermark(k.Ingress.Nearest, k.Ingress.Threshold),
			Reserve: k.Ingress.ReserveSize, Headroom: k.Ingress.HeadroomSize, HeadroomMax: k.Ingress.HeadroomPeak, Refused: k.Ingress.Refused, IngressMax: k.Ingress.Peak,
			Queues: f.pauseQueues(node, i, c.Now), Credits: s.Credits != nil,
		}
		if c.Global || s.PFC != nil {
			_, row.Dynamic, _ = p.PauseThreshold(i)
		}
		if row.Lossless && !row.Credits && known {
			row.Needed, row.Follows = need.Bytes(), need.String()
		}
		any, credits = any || row.Lossless && !row.Credits, credits || row.Credits
		c.Rows = append(c.Rows, row)
	}
	if !any {
		c.Reason = fmt.Sprintf("no class of %s has pfc", n.Name)
		if credits {
			c.Reason += ", and classes with credits give fewer credits instead of pauses"
		}
	}
	return c, nil
}

// headroomNeeded returns the headroom that a port needs for its link, with the worst settings
// of the file, of its events and of now. It returns false for a link without a rate.
func (f *Fabric) headroomNeeded(node, index int) (h plan.Headroom, ok bool) {
	port := &f.Plan.Nodes[node].Ports[index]
	if port.Link < 0 {
		return h, false
	}
	reach := f.Plan.Extremes()[port.Link]
	for d := range reach {
		reach[d].Widen(plan.ExtremeOf(f.Links[port.Link][d].Settings(), reach[d].Clock))
		if reach[d].Slowest == 0 {
			return h, false
		}
	}
	return plan.HeadroomFor(reach[1-port.End], reach[port.End]), true
}

// pauseQueues returns the queues of class number i at the switch in which
// something has waited.
func (f *Fabric) pauseQueues(node, i int, now units.Time) (out []status.PauseQueue) {
	for j, p := range f.ports[node] {
		k := p.Class(now, i)
		if k.MaxQueue == 0 && k.Dropped == 0 {
			continue
		}
		out = append(out, status.PauseQueue{
			Port: p.Name, Max: k.MaxQueue, Limit: highWatermark(k.Egress.Nearest, k.Egress.Threshold),
			Marking: markingFrom(&f.Plan.Nodes[node].Ports[j].Classes[i]), Marked: k.Marked, Dropped: k.Dropped, Trimmed: k.Trimmed,
		})
	}
	return out
}

// markingFrom returns the queue length from which a class marks, 0 if marking
// does not depend on the length.
func markingFrom(c *class.Class) units.Bytes {
	if m, ok := c.Mark.Settings.(congestion.MarksFrom); ok {
		return m.MarksFrom()
	}
	return 0
}

// PauseObserver is told that the peer of a port pauses the port's packets of a priority, or
// ends that pause. Frames that repeat a pause extend it, and it is not told of them. node and
// port are indices in the plan.
type PauseObserver func(now units.Time, node, port int, prio uint8, paused bool)

// ObservePauses makes the fabric tell observers of each pause from now on. newObserver returns
// the observer of a shard, which the goroutine that runs the shard calls. No engine may run
// meanwhile.
func (f *Fabric) ObservePauses(newObserver func(shard int) PauseObserver) {
	for i, s := range f.Shards {
		s.pauseObservers = append(s.pauseObservers, newObserver(i))
	}
}

// reportPauses returns a function that tells the observers of a shard of a port's pauses.
func reportPauses(s *Shard, node, port int) func(now units.Time, prio uint8, paused bool) {
	return func(now units.Time, prio uint8, paused bool) {
		for _, observe := range s.pauseObservers {
			observe(now, node, port, prio, paused)
		}
	}
}
