package lab

import (
	"context"
	"errors"
	"time"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/traces/records"
)

// collectEvery is how often records of flows of patterns go to their sink, in real time:
// until then they wait in memory.
const collectEvery = 200 * time.Millisecond

// flowSink is where records of flows of patterns go.
type flowSink struct {
	sink records.Sink
	end  func() error
	put  func(*report.Report)
}

// SinkFlows has Run put the records of flows of patterns into a sink, on the threads of
// engines; with paths they have the way of each. End is called after the last one, and put
// fills in a report; both may be called while no engine runs. It is called before Run,
// once.
func (l *Lab) SinkFlows(s records.Sink, paths bool, end func() error, put func(*report.Report)) {
	l.fabric.SetFlowSink(s, paths)
	l.flows = &flowSink{s, end, put}
}

// collectFlows passes records on until ctx ends.
func (l *Lab) collectFlows(ctx context.Context, warn func(error)) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		if l.do(func() { err = l.fabric.CollectFlows() }) != nil {
			return // the lab has stopped
		}
		if err != nil {
			warn(err)
			return // nothing more is put
		}
	}
}

// endFlows passes on what is left after the engines have stopped.
func (l *Lab) endFlows() error {
	err := l.fabric.EndFlows()
	if l.flows != nil && l.flows.end != nil {
		err = errors.Join(err, l.flows.end())
	}
	return err
}
