package fabric

import (
	"fmt"
	"strings"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/wire"
)

// queueScript carries out one event of the plan that changes a queue. It belongs to the engine
// of the port's node, and touches nothing else.
type queueScript struct {
	fabric *Fabric
	event  *plan.QueueEvent
}

func (f *Fabric) addQueueEvents() {
	for i := range f.Plan.QueueEvents {
		s := &queueScript{fabric: f, event: &f.Plan.QueueEvents[i]}
		var timer sim.Timer = f.engineOf(s.event.Port.Node).NewTimer(s)
		timer.Arm(s.event.At)
	}
}

// Fire carries out the event.
func (s *queueScript) Fire(now units.Time) {
	f, e := s.fabric, s.event
	if err := f.setQueue(now, e.Port, e.Class, e.Set, status.ByEvent); err != nil && f.Failed != nil {
		f.Failed(fmt.Errorf("event at %v on the queue of %s: %w", e.At, f.Plan.PortName(e.Port.Node, e.Port.Port), err))
	}
}

// SetQueue changes the queue of a port, and for a class number, not -1, also how the port pauses
// its peer. No engine may run meanwhile. After an error nothing has changed.
func (f *Fabric) SetQueue(at plan.End, class int, patch change.QueuePatch) error {
	return f.setQueue(f.Now(), at, class, patch, status.BySet)
}

func (f *Fabric) setQueue(now units.Time, at plan.End, class int, patch change.QueuePatch, by string) error {
	was := f.queueAt(at, class)
	next, err := patch.Apply(was)
	if err != nil {
		return err
	}
	f.logQueueChange(f.ShardOf(at.Node), now, by, at, was.Name, &patch)
	p := f.ports[at.Node][at.Port]
	if class < 0 {
		p.SetLimit(next.Limit)
	} else {
		c := p.ClassSettings(class)
		c.Limit, c.Alpha, c.Weight = next.Limit, next.Alpha, next.Weight
		p.SetClass(class, c)
		if was.Pauses {
			p.SetPauseThreshold(class, next.Xoff, next.PauseAlpha, next.Offset)
		}
	}
	if a, ok := p.Point(class).(congestion.Adjuster); ok && next.Mark != nil {
		a.Adjust(next.Mark)
	}
	return nil
}

// queueAt returns the current settings of a queue.
func (f *Fabric) queueAt(at plan.End, class int) change.Queue {
	n, p := &f.Plan.Nodes[at.Node], f.ports[at.Node][at.Port]
	q := change.Queue{Name: f.Plan.PortName(at.Node, at.Port)}
	if l := p.Link(); l != nil {
		q.Frame = l.Settings().MTU + wire.EthernetHeader
	}
	if class < 0 {
		q.Limit = p.Limit()
	} else {
		c := p.ClassSettings(class)
		q.Name = "class " + c.Name + " of " + q.Name
		q.Class, q.Buffer, q.Limit, q.Alpha, q.Weight = true, n.QoS.Buffer, c.Limit, c.Alpha, c.Weight
		q.Pauses = c.PFC != nil || n.QoS.Pause != nil
		q.Xoff, q.PauseAlpha, q.Offset = p.PauseThreshold(class)
	}
	if a, ok := p.Point(class).(congestion.Adjuster); ok {
		q.Mark, q.Adjusts = a.Adjusted(), true
	}
	return q
}

// logQueueChange logs a change that is about to be made to a queue, in the shard of its node.
func (f *Fabric) logQueueChange(s *Shard, now units.Time, by string, at plan.End, name string, p *change.QueuePatch) {
	m := LogEntry{At: now, Event: status.QueueSet, By: by, Link: -1, Node: at.Node, Port: at.Port, Text: p.String()}
	if m.Text == "" {
		return
	}
	if port := f.Plan.PortName(at.Node, at.Port); name != port {
		m.Text = strings.TrimSuffix(name, " of "+port) + ": " + m.Text
	}
	for i := len(s.log) - 1; i >= 0 && s.log[i].At == now; i-- {
		if e := &s.log[i]; e.Event == m.Event && e.Node == m.Node && e.Port == m.Port {
			m.Nth++
		}
	}
	s.log = append(s.log, m)
}
