package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
)

// flowRecordFlags say where the records of pattern flows go and how the report
// summarizes them.
type flowRecordFlags struct {
	file string // "" means none
	bins []string
}

func (f *flowRecordFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "flow-records", "", "write a record of each flow of patterns (arrivals, requests, collective, ...) to this file as it ends: .csv or .parquet")
	c.Flags().StringSliceVar(&f.bins, "size-bins", []string{"10KB", "100KB", "1MB"}, "upper bounds of the flow sizes by which the report groups flows of patterns")
}

// toArguments returns the flags as command-line arguments for another process.
func (f *flowRecordFlags) toArguments() (args []string) {
	if f.file != "" {
		args = append(args, "--flow-records", f.file)
	}
	return append(args, "--size-bins", strings.Join(f.bins, ","))
}

// checkPlan validates the flags for the run of a plan.
func (f *flowRecordFlags) checkPlan(p *plan.Plan) error {
	if e := filepath.Ext(f.file); f.file != "" && e != ".csv" && e != ".parquet" {
		return badInput(fmt.Errorf("--flow-records %s: end the name in .csv or .parquet", f.file))
	}
	if f.file != "" && len(p.Traffic) == 0 {
		return badInput(fmt.Errorf("--flow-records %s: the workload of %s has no patterns of flows, such as arrivals", f.file, p.File))
	}
	_, err := f.newTally(records.Names{})
	return err
}

// newTally returns the FlowTally that sums flows up for the report.
func (f *flowRecordFlags) newTally(n records.Names) (*report.FlowTally, error) {
	var bins []units.Bytes
	for _, text := range f.bins {
		b, err := units.ParseBytes(text)
		if err != nil {
			return nil, badInput(fmt.Errorf("--size-bins: %w", err))
		}
		bins = append(bins, b)
	}
	t, err := report.NewFlowTally(n, bins...)
	if err != nil {
		return nil, badInput(fmt.Errorf("--size-bins: %w", err))
	}
	return t, nil
}

// flowRecording is the sink of the flow records of a run.
type flowRecording struct {
	name  string
	file  *os.File // nil for none
	tally *report.FlowTally
	sink  records.Sink
}

// beginRecording starts the recording of a run. The records go to file, which may be nil.
func (f *flowRecordFlags) beginRecording(n records.Names, file *os.File) (*flowRecording, error) {
	t, err := f.newTally(n)
	if err != nil {
		return nil, err
	}
	r := &flowRecording{name: f.file, file: file, tally: t, sink: t}
	if file == nil {
		return r, nil
	}
	var s records.Sink
	if filepath.Ext(f.file) == ".parquet" {
		s = records.NewParquet(file, n)
	} else {
		s = records.NewCSV(file, n)
	}
	r.sink = records.Tee(t, records.NewBehind(s))
	return r, nil
}

// PutRecord implements records.Sink.
func (r *flowRecording) PutRecord(x *records.Record) error { return r.sink.PutRecord(x) }

// Close writes the remaining records and closes the file. No record may follow.
func (r *flowRecording) Close() error {
	err := r.sink.Close()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	if err != nil {
		return fmt.Errorf("--flow-records %s: %w", r.name, err)
	}
	return nil
}

// openFile opens the file for the records of a lab, nil if there is none. discard undoes it.
func (f *flowRecordFlags) openFile(p *plan.Plan) (file *os.File, discard func(), err error) {
	if f.file == "" || len(p.Traffic) == 0 {
		return nil, func() {}, nil
	}
	return openSeries("--flow-records", f.file)
}

// recordLab makes a lab write its flow records and sum them up.
func (f *flowRecordFlags) recordLab(l *lab.Lab, p *plan.Plan, file *os.File) error {
	if len(p.Traffic) == 0 {
		return nil
	}
	if file != nil {
		if err := file.Truncate(0); err != nil && !errors.Is(err, unix.EINVAL) { // not a regular file
			return fmt.Errorf("--flow-records: %w", err)
		}
	}
	r, err := f.beginRecording(l.Fabric().FlowNames(), file)
	if err != nil {
		return err
	}
	l.SinkFlows(r, file != nil, r.Close, func(x *report.Report) { x.Patterns = r.tally.Patterns(f.file, l.Fabric().TCP(), l.Fabric().NDP()) })
	return nil
}
