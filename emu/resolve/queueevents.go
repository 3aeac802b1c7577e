package resolve

import (
	"cmp"
	"errors"
	"slices"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/wire"
)

// resolveQueueEvents resolves the changes to queues and applies them in order of time, so that each is
// checked against the state that the earlier ones left.
func (v *qos) resolveQueueEvents(files []labfile.Event) {
	type located struct {
		plan.QueueEvent
		file *labfile.Event
	}
	var events []located
	for i := range files {
		f := &files[i]
		if f.Port == nil && f.Queue == nil && f.Class == nil {
			continue
		}
		switch {
		case f.Port == nil || f.Link != nil || f.From != nil:
			v.ReportFault(f, "write port: with the port whose queue changes, such as port: s1:3", "an event needs exactly one of link, from and port")
			continue
		case f.Set != nil:
			v.ReportFault(f.Set, "write queue: for settings of the queue, and another event for the link", "set changes a link, and the event has a port")
			continue
		case f.Queue == nil || *f.Queue == (change.QueuePatch{}):
			v.ReportFault(v.FirstSet(f.Queue, f), "write for example queue: {limit: 200KB}", "the event sets nothing")
			continue
		}
		end, ok := v.findEnd(f.Port)
		if !ok {
			continue
		}
		if v.plan.Nodes[end.Node].Ports[end.Port].Link < 0 {
			v.ReportFault(f.Port, "", "%s has no link", *f.Port)
			continue
		}
		name := ""
		setFrom(&name, f.Class)
		class, err := v.plan.ClassIndex(end.Node, end.Port, name)
		var bad *plan.NameError
		if errors.As(err, &bad) {
			v.ReportFault(v.FirstSet(f.Class, f.Port), bad.Hint, "%s", bad.Msg)
			continue
		}
		events = append(events, located{plan.QueueEvent{At: f.At, Port: end, Class: class, Set: *f.Queue}, f})
	}
	slices.SortStableFunc(events, func(a, b located) int { return cmp.Compare(a.At, b.At) })

	type queue struct {
		at    plan.End
		class int
	}
	now := map[queue]change.Queue{}
	for _, e := range events {
		v.plan.QueueEvents = append(v.plan.QueueEvents, e.QueueEvent)
		id := queue{e.Port, e.Class}
		if _, ok := now[id]; !ok {
			now[id] = v.queueAt(e.Port, e.Class)
		}
		changed, err := e.Set.Apply(now[id])
		if err != nil {
			v.checkPatch(err, e.file.Queue)
			continue
		}
		now[id] = changed
	}
}

// queueAt returns the settings of a queue at the start of the run.
func (v *qos) queueAt(at plan.End, class int) change.Queue {
	n := &v.plan.Nodes[at.Node]
	port := &n.Ports[at.Port]
	q := change.Queue{Name: v.plan.PortName(at.Node, at.Port), Frame: v.settingsOf(port, 0).MTU + wire.EthernetHeader}
	if class < 0 {
		q.Limit, q.Mark = port.Queue.Limit, port.Queue.Mark.Settings
	} else {
		c := &port.Classes[class]
		q.Name = "class " + c.Name + " of " + q.Name
		q.Class, q.Buffer, q.Limit, q.Alpha, q.Weight, q.Mark = true, n.QoS.Buffer, c.Limit, c.Alpha, c.Weight, c.Mark.Settings
		pauses := c.PFC
		if n.QoS.Pause != nil {
			pauses = n.QoS.Pause
		}
		if pauses != nil {
			q.Pauses, q.Xoff, q.PauseAlpha, q.Offset = true, pauses.Xoff, pauses.Alpha, pauses.Offset
		}
	}
	switch q.Mark.(type) {
	case *congestion.RED, *congestion.Step:
		q.Adjusts = true
	}
	return q
}
