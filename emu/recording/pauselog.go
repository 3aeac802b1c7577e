package recording

import (
	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/observe/pauses"
	"github.com/weftlab/weft/sim/units"
)

// PauseLog records the pauses of a fabric's ports.
type PauseLog struct {
	fabric *fabric.Fabric
	shards []pauses.Log
}

// LogPauses records each pause of the ports of a fabric from now on. No engine may run
// meanwhile.
func LogPauses(f *fabric.Fabric) *PauseLog {
	l := &PauseLog{fabric: f, shards: make([]pauses.Log, len(f.Shards))}
	f.ObservePauses(func(shard int) fabric.PauseObserver {
		log := &l.shards[shard]
		return func(now units.Time, node, port int, prio uint8, paused bool) {
			log.AddEvent(pauses.Event{At: now, Node: node, Port: port, Priority: prio, Paused: paused})
		}
	})
	return l
}

// Records returns the pauses so far, in order of their beginnings. No engine may run
// meanwhile.
func (l *PauseLog) Records() []pauses.Record {
	f := l.fabric
	logs := make([]*pauses.Log, len(l.shards))
	for i := range l.shards {
		logs[i] = &l.shards[i]
	}
	joined := pauses.JoinPauses(logs, f.Now())
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
