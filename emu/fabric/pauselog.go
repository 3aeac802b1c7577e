package fabric

import (
	"github.com/weftlab/weft/observe/pauses"
	"github.com/weftlab/weft/sim/units"
)

// LogPauses makes the fabric record each pause of its ports from now on. No engine may
// run meanwhile.
func (f *Fabric) LogPauses() {
	for _, s := range f.Shards {
		s.pauses.On = true
	}
}

// notePause returns a function that records a port's pauses in the log of its shard.
func notePause(s *Shard, node, port int) func(now units.Time, prio uint8, paused bool) {
	return func(now units.Time, prio uint8, paused bool) {
		s.pauses.Add(pauses.Event{At: now, Node: node, Port: port, Priority: prio, Paused: paused})
	}
}

// PauseLog returns the pauses of the ports since LogPauses, in order of their beginnings.
// No engine may run meanwhile.
func (f *Fabric) PauseLog() []pauses.Record {
	logs := make([]*pauses.Log, len(f.Shards))
	for i, s := range f.Shards {
		logs[i] = &s.pauses
	}
	joined := pauses.Join(logs, f.Now())
	all := make([]pauses.Record, len(joined))
	for i := range joined {
		p := &joined[i]
		r := &all[i]
		*r = pauses.Record{
			Port: f.Plan.PortName(p.Node, p.Port), Node: f.Plan.Nodes[p.Node].Name, Priority: p.Priority,
			Start: p.At.Seconds(), End: p.End.Seconds(), Ended: p.Ended,
		}
		port := &f.Plan.Nodes[p.Node].Ports[p.Port]
		far := f.Plan.Links[port.Link].Ends[port.End^1]
		r.Peer = f.Plan.PortName(far.Node, far.Port)
		for _, c := range port.Classes {
			if c.Priority == p.Priority {
				r.Class = c.Name
			}
		}
	}
	return all
}
