package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/run"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/observe/pauses"
	"github.com/weftlab/weft/sim/units"
)

type simFlags struct {
	length  units.Time
	seed    uint64
	workers int
	json    bool
	records recordFlags
	write   string
	ports   []string
	snap    int
	filter  string
	pauses  []string
	pairs   bool
	edges   bool
	series  seriesFlags
	stops   string // file of pauses
	flows   flowRecordFlags
}

func newSim() *cobra.Command {
	f := simFlags{}
	c := &cobra.Command{
		Use:   "sim FILE",
		Short: "Run a lab file in virtual time with its modelled traffic",
		Long: `Run a lab file in virtual time: as fast as the processor allows, without root,
with the same bytes for the same file and seed. All hosts are modelled; only the
file's workload sends. FILE may be - for standard input.

Ctrl-C ends a run early, with the report and the files so far.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var seed *uint64
			if c.Flags().Changed("seed") {
				seed = &f.seed // the switches' ECMP seeds depend on it too
			}
			p, err := loadSeed(c.Context(), args[0], seed)
			if err != nil {
				return err
			}
			if f.length > 0 {
				p.Duration = f.length
			}
			return simulate(c.Context(), p, f)
		},
	}
	spanFlag(c, &f.length, "for", "length of the run in emulated time; 0s means the file's duration")
	numberFlag(c, &f.seed, "seed", "", "seed in place of the file's")
	numberFlag(c, &f.workers, "workers", "", "maximum number of threads that run the lab; 0 means as many as suit the lab and the cores that weft may use; fewer run if these are busy; results do not depend on it")
	goneFlag(c, "shards")
	c.Flags().BoolVar(&f.json, "json", false, "print the report as JSON")
	f.records.addFlags(c)
	f.flows.addFlags(c)
	c.Flags().StringVarP(&f.write, "write", "w", "", "write a capture of --port to this file, - for standard output")
	c.Flags().StringSliceVarP(&f.ports, "port", "p", nil, "port to capture, such as s1:3; may be repeated")
	numberFlag(c, &f.snap, "snaplen", "s", "bytes to keep of each captured packet; 0 keeps all")
	c.Flags().StringVarP(&f.filter, "filter", "f", "", "capture only packets that match this tcpdump expression")
	c.Flags().StringSliceVar(&f.pauses, "why-no-pause", nil, "explain after the run why this port of a switch did or did not pause its peer; may be repeated")
	c.Flags().BoolVar(&f.pairs, "qp", false, "show the queue pairs after the run; with --json they are in the report")
	c.Flags().BoolVar(&f.edges, "edge", false, "show the flows of edge services after the run; with --json they are in the report")
	f.series.addFlags(c)
	c.Flags().StringVar(&f.stops, "pause-records", "", "write a record of each pause (PFC, PAUSE) of each port to this file: .csv")
	return c
}

// simulate runs a plan in virtual time.
func simulate(ctx context.Context, p *plan.Plan, f simFlags) error {
	if err := f.checkPlan(p); err != nil {
		return err
	}
	samples, err := f.series.planSamples(p, p.Duration, false)
	if err != nil {
		return err
	}
	f.series.warnUnrecorded(p)
	warnUnused(p)
	// With a capture the fabric is Ordered, so that the packets of all ports are in the file in
	// order of time.
	options := run.Options{Workers: f.workers, Ordered: f.write != ""}
	var interrupted *interruption
	options.Interrupt = func(cause error) bool {
		if !errors.As(cause, &interrupted) {
			return false
		}
		nextSignalKills()
		return true
	}
	line := newProgressLine(run.HorizonOf(p))
	if line != nil {
		options.Progress = line.showProgress
	}
	x, err := run.New(p, options)
	if err != nil {
		return badInput(err)
	}
	if _, err := x.CheckPauses(f.pauses); err != nil {
		return badInput(err) // fail before the run, not after it
	}
	flows, err := f.recordRun(x, samples)
	if err != nil {
		return errors.Join(err, x.Close())
	}
	err = x.Do(ctx)
	line.eraseLine()
	if err != nil {
		return err
	}
	r, err := f.reportOf(x, flows)
	if err != nil {
		return err
	}
	if err := f.writeFiles(x, r); err != nil {
		return err
	}
	if f.write != "-" { // otherwise the capture uses standard output
		runtime.GC() // the fabric is not needed any more, and encoding needs memory
		if err := f.printReport(r); err != nil {
			return err
		}
	}
	if interrupted != nil {
		return interrupted.exitError("%s: the report and the files cover the run so far", r.Partial.Place(r.Emulated))
	}
	return runVerdict(r)
}

// warnUnused warns about what a lab file says and virtual time does not have.
func warnUnused(p *plan.Plan) {
	if slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return len(n.Exec) > 0 }) {
		fmt.Fprintln(os.Stderr, "weft: the file's exec has no effect in virtual time, which has no programs: use weft up")
	}
	if p.Dilation > 1 {
		fmt.Fprintf(os.Stderr, "weft: the file's dilation %d has no effect in virtual time\n", p.Dilation)
	}
}

// recordRun asks a run for what the flags ask for. flows is nil if the plan has no patterns.
func (f *simFlags) recordRun(x *run.Run, s samples) (flows *flowRecording, err error) {
	if err := f.startCapture(x); err != nil {
		return nil, err
	}
	if err := f.series.recordRun(s, x); err != nil {
		return nil, err
	}
	if f.stops != "" {
		x.RecordPauses()
	}
	if len(x.Fabric.Plan.Traffic) == 0 {
		return nil, nil
	}
	var file *os.File
	if f.flows.file != "" {
		if file, err = os.Create(f.flows.file); err != nil {
			return nil, fmt.Errorf("--flow-records: %w", err)
		}
	}
	if flows, err = f.flows.beginRecording(x.Fabric.FlowNames(), file); err != nil {
		return nil, err
	}
	x.RecordPatterns(flows, file != nil)
	return flows, nil
}

// reportOf returns the report of a run, with what the flags ask for.
func (f *simFlags) reportOf(x *run.Run, flows *flowRecording) (*report.Report, error) {
	r := x.Report()
	if flows != nil {
		r.Patterns = flows.tally.Patterns(f.flows.file, x.Fabric.TCP(), x.Fabric.NDP())
	}
	var err error
	if r.Pauses, err = x.CheckPauses(f.pauses); err != nil {
		return nil, err
	}
	if f.pairs {
		if r.QPs, err = x.Fabric.QPsOf(""); err != nil {
			return nil, err
		}
	}
	if f.edges {
		if r.EdgeFlows, err = x.Fabric.EdgeFlowsOf(""); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// writeFiles writes the files that are written when a run is over.
func (f *simFlags) writeFiles(x *run.Run, r *report.Report) error {
	if err := f.series.writeEvents(r); err != nil {
		return err
	}
	if err := f.records.writeRecords(r); err != nil {
		return err
	}
	if f.stops == "" {
		return nil
	}
	return writePauses(f.stops, x.Pauses())
}

// printReport prints the report and the further output that the flags ask for.
func (f *simFlags) printReport(r *report.Report) error {
	if f.json {
		return r.WriteJSON(stdout)
	}
	r.Write(stdout)
	for i := range r.Pauses {
		printLine()
		report.WritePause(stdout, &r.Pauses[i])
	}
	if f.pairs {
		printLine()
		report.WriteQPs(stdout, r.QPs, maxPairs)
	}
	if f.edges {
		printLine()
		report.WriteEdgeFlows(stdout, r.EdgeFlows, maxPairs)
	}
	return nil
}

// checkPlan validates the flags for the run of a plan.
func (f *simFlags) checkPlan(p *plan.Plan) error {
	if (f.write == "") != (len(f.ports) == 0) {
		return badInput(errors.New("a capture needs both --write and --port"))
	}
	if f.write == "" && (f.snap != 0 || f.filter != "") {
		return badInput(errors.New("--snaplen and --filter are for a capture: add --write and --port"))
	}
	if f.stops != "" && filepath.Ext(f.stops) != ".csv" {
		return badInput(fmt.Errorf("--pause-records %s: end the name in .csv", f.stops))
	}
	if err := f.records.checkFiles(); err != nil {
		return err
	}
	if len(p.Flows)+len(p.Transfers)+len(p.Traffic) == 0 {
		return badInput(fmt.Errorf("%s has no workload, and in virtual time nothing else sends: add for example\nworkload:\n  - {cbr: {from: h1, to: h2, rate: 10Mbps, size: 1000B, for: 1s}}", p.File))
	}
	if err := f.flows.checkPlan(p); err != nil {
		return err
	}
	return f.records.refuseMissing(p.File, len(p.Flows), len(p.Transfers))
}

// writePauses writes the pauses of a run.
func writePauses(name string, all []pauses.Record) error {
	var b bytes.Buffer
	if err := pauses.WriteCSV(&b, all); err != nil {
		return err
	}
	return renameio.WriteFile(name, b.Bytes(), 0o666)
}

// startCapture starts the capture that the flags ask for.
func (f *simFlags) startCapture(x *run.Run) error {
	if f.write == "" {
		return nil
	}
	p := x.Fabric.Plan
	c, err := x.NewCapture(f.ports, capture.Options{
		SnapLen: f.snap, Filter: f.filter, Comment: fmt.Sprintf("weft sim %s, virtual time, seed %d", p.Name, p.Seed),
	})
	if err != nil {
		return badInput(err)
	}
	if err := checkCaptureFile(f.write); err != nil {
		return err
	}
	w := &captureFile{name: f.write}
	if err := w.createFile(); err != nil {
		return err
	}
	c.Begin(w)
	return nil
}
