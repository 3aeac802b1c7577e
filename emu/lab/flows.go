package lab

import (
	"context"
	"errors"
	"time"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/observe/records"
)

// collectEvery is the interval, in real time, at which the records of pattern flows go
// to their sink. Until then they are kept in memory.
const collectEvery = 200 * time.Millisecond

// flowSink receives the records of pattern flows.
type flowSink struct {
	sink records.Sink
	end  func() error
	put  func(*report.Report)
}

// SinkFlows makes Run put the records of pattern flows into a sink, on the engines'
// threads. With paths, each record has the path of its flow. end is called after the last
// record, and put fills in a report; both may be called while no engine runs. SinkFlows is
// called before Run, once.
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
		if l.doStopped(func() { err = l.fabric.CollectFlows() }) != nil {
			return // the lab has stopped
		}
		if err != nil {
			warn(err)
			return // no further records are put
		}
	}
}

// endFlows passes on the remaining records after the engines have stopped.
func (l *Lab) endFlows() error {
	err := l.fabric.EndFlows()
	if l.flows != nil && l.flows.end != nil {
		err = errors.Join(err, l.flows.end())
	}
	return err
}
