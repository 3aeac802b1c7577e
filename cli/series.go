package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/run"
	"github.com/weftlab/weft/sim/units"
)

// seriesFlags request recordings of queues and of flows over time.
type seriesFlags struct {
	file  string // of queues
	every units.Time
	ports []string

	flowFile string
	flows    []string
}

// samples are the recordings of a run; nil means none.
type samples struct {
	queues *recording.Series
	flows  *recording.FlowSeries
}

func (f *seriesFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "series", "", "write queues and rates over time to this file: .csv")
	spanFlag(c, &f.every, "every", "emulated time between two samples of the series, such as 10us; 0s means the file's, or 1ms")
	c.Flags().StringSliceVar(&f.ports, "series-port", nil, "port to sample, such as s1:3 or 'leaf*:*', in place of the file's; may be repeated. Default all ports of switches")
	c.Flags().StringVar(&f.flowFile, "flow-series", "", "write rates, windows, RTTs and goodput of queue pairs, flows of edge services and TCP and NDP flows over time to this file: .csv")
	c.Flags().StringSliceVar(&f.flows, "flow", nil, "flow of --flow-series: a transfer, modelled flow, TCP or NDP pattern, host, interface or queue pair, such as h1-h2, 'h*', h1:eth0 or 'h1:eth0#17'; may be repeated. Default all queue pairs that send, all flows of edge services and all TCP flows")
}

// toArguments returns the flags as command-line arguments for another process.
func (f *seriesFlags) toArguments() (args []string) {
	if f.file != "" {
		args = append(args, "--series", f.file)
	}
	if f.flowFile != "" {
		args = append(args, "--flow-series", f.flowFile)
	}
	if f.every > 0 {
		args = append(args, "--every", f.every.String())
	}
	for _, p := range f.ports {
		args = append(args, "--series-port", p)
	}
	for _, p := range f.flows {
		args = append(args, "--flow", p)
	}
	return args
}

// planSamples works out what to record in a run of the given length, 0 if it is not known.
func (f *seriesFlags) planSamples(p *plan.Plan, length units.Time, wall bool) (all samples, err error) {
	switch {
	case f.file == "" && len(f.ports) > 0:
		return all, badInput(errors.New("--series-port is for a series: add --series FILE.csv"))
	case f.flowFile == "" && len(f.flows) > 0:
		return all, badInput(errors.New("--flow is for a series of flows: add --flow-series FILE.csv"))
	case f.file == "" && f.flowFile == "" && f.every != 0:
		return all, badInput(errors.New("--every is for a series: add --series FILE.csv or --flow-series FILE.csv"))
	case f.file != "" && f.file == f.flowFile:
		return all, badInput(fmt.Errorf("--series and --flow-series are both %s: name two files", f.file))
	}
	every := plan.DefaultSeries
	if p.Series != nil {
		every = p.Series.Every
	}
	if f.every != 0 {
		every = f.every
	}
	if f.file != "" {
		if all.queues, err = f.planQueues(p, every, length, wall); err != nil {
			return samples{}, err
		}
	}
	if f.flowFile != "" {
		if filepath.Ext(f.flowFile) != ".csv" {
			return samples{}, badInput(fmt.Errorf("--flow-series %s: end the name in .csv", f.flowFile))
		}
		all.flows = &recording.FlowSeries{Flows: f.flows, Every: every, Length: length, Wall: wall}
		if err := all.flows.Check(p); err != nil {
			return samples{}, badInput(fmt.Errorf("--flow-series: %w (--every, --flow)", err))
		}
	}
	return all, nil
}

func (f *seriesFlags) planQueues(p *plan.Plan, every, length units.Time, wall bool) (*recording.Series, error) {
	if filepath.Ext(f.file) != ".csv" {
		return nil, badInput(fmt.Errorf("--series %s: end the name in .csv", f.file))
	}
	s := &recording.Series{Every: every, Length: length, Wall: wall}
	if p.Series != nil {
		s.Ports = p.Series.Ports
	}
	if len(f.ports) > 0 || s.Ports == nil {
		var err error
		if s.Ports, err = p.MatchPorts(f.ports); err != nil {
			return nil, badInput(fmt.Errorf("--series-port: %w", err))
		}
	}
	if err := s.Check(p); err != nil {
		return nil, badInput(fmt.Errorf("--series: %w (--every, --series-port, or series: in the file)", err))
	}
	return s, nil
}

// warnUnrecorded warns if the series in the lab file is not recorded.
func (f *seriesFlags) warnUnrecorded(p *plan.Plan) {
	if f.file == "" && p.Series != nil {
		fmt.Fprintln(os.Stderr, "weft: the file's series is not recorded: add --series FILE.csv")
	}
}

// openSeries opens the file of a series. Its old contents stay until new data is
// written. discard undoes the opening.
func openSeries(flag, name string) (file *os.File, discard func(), err error) {
	_, err = os.Lstat(name)
	made := errors.Is(err, os.ErrNotExist)
	if file, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", flag, err)
	}
	return file, func() {
		file.Close()
		if made {
			os.Remove(name)
		}
	}, nil
}

// openFiles opens the files of the series of a lab. begin makes the lab write them, discard
// undoes open.
func (f *seriesFlags) openFiles(s samples) (begin func(*lab.Lab), discard func(), err error) {
	begin, discard = func(*lab.Lab) {}, func() {}
	if s.queues != nil {
		file, undo, err := openSeries("--series", f.file)
		if err != nil {
			return nil, nil, err
		}
		begin, discard = func(l *lab.Lab) { l.Record(*s.queues, f.file, file) }, undo
	}
	if s.flows != nil {
		file, undo, err := openSeries("--flow-series", f.flowFile)
		if err != nil {
			discard()
			return nil, nil, err
		}
		first, firstUndo := begin, discard
		begin = func(l *lab.Lab) { first(l); l.RecordFlows(*s.flows, f.flowFile, file) }
		discard = func() { firstUndo(); undo() }
	}
	return begin, discard, nil
}

// writeEvents writes the events of a run to files beside its series.
func (f *seriesFlags) writeEvents(r *report.Report) error {
	for _, s := range []struct{ flag, file string }{{"--series", f.file}, {"--flow-series", f.flowFile}} {
		if s.file == "" {
			continue
		}
		if err := report.WriteEvents(s.file, r.Timeline); err != nil {
			return fmt.Errorf("%s: its events: %w", s.flag, err)
		}
	}
	return nil
}

// recordRun makes a run in virtual time write its series.
func (f *seriesFlags) recordRun(s samples, x *run.Run) error {
	create := func(flag, name string) (run.Output, error) {
		file, err := os.Create(name)
		if err != nil {
			return run.Output{}, fmt.Errorf("%s: %w", flag, err)
		}
		return run.Output{Name: name, What: flag + " " + name, To: file}, nil
	}
	if s.queues != nil {
		to, err := create("--series", f.file)
		if err != nil {
			return err
		}
		x.RecordQueues(*s.queues, to)
	}
	if s.flows != nil {
		to, err := create("--flow-series", f.flowFile)
		if err != nil {
			return err
		}
		x.RecordFlows(*s.flows, to)
	}
	return nil
}
