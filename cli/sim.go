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

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
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
			return sim(c.Context(), p, f)
		},
	}
	spanFlag(c, &f.length, "for", "length of the run in emulated time; 0s means the file's duration")
	numberFlag(c, &f.seed, "seed", "", "seed in place of the file's")
	numberFlag(c, &f.workers, "workers", "", "maximum number of threads that run the lab; 0 means as many as suit the lab and the cores that weft may use; fewer run if these are busy; results do not depend on it")
	goneFlag(c, "shards")
	c.Flags().BoolVar(&f.json, "json", false, "print the report as JSON")
	f.records.add(c)
	f.flows.add(c)
	c.Flags().StringVarP(&f.write, "write", "w", "", "write a capture of --port to this file, - for standard output")
	c.Flags().StringSliceVarP(&f.ports, "port", "p", nil, "port to capture, such as s1:3; may be repeated")
	numberFlag(c, &f.snap, "snaplen", "s", "bytes to keep of each captured packet; 0 keeps all")
	c.Flags().StringVarP(&f.filter, "filter", "f", "", "capture only packets that match this tcpdump expression")
	c.Flags().StringSliceVar(&f.pauses, "why-no-pause", nil, "explain after the run why this port of a switch did or did not pause its peer; may be repeated")
	c.Flags().BoolVar(&f.pairs, "qp", false, "show the queue pairs after the run; with --json they are in the report")
	c.Flags().BoolVar(&f.edges, "edge", false, "show the flows of edge services after the run; with --json they are in the report")
	f.series.add(c)
	c.Flags().StringVar(&f.stops, "pause-records", "", "write a record of each pause (PFC, PAUSE) of each port to this file: .csv")
	return c
}

// sim runs a plan in virtual time.
func sim(ctx context.Context, p *plan.Plan, f simFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if len(p.Flows)+len(p.Transfers)+len(p.Traffic) == 0 {
		return badInput(fmt.Errorf("%s has no workload, and in virtual time nothing else sends: add for example\nworkload:\n  - {cbr: {from: h1, to: h2, rate: 10Mbps, size: 1000B, for: 1s}}", p.File))
	}
	if err := f.flows.check(p); err != nil {
		return err
	}
	until := units.Never // all flows of the plan end
	if p.Duration > 0 {
		until = p.Duration
	}
	samples, err := f.series.plan(p, p.Duration, false)
	if err != nil {
		return err
	}
	f.series.remind(p)
	if slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return len(n.Exec) > 0 }) {
		fmt.Fprintln(os.Stderr, "weft: the file's exec has no effect in virtual time, which has no programs: use weft up")
	}
	if p.Dilation > 1 {
		fmt.Fprintf(os.Stderr, "weft: the file's dilation %d has no effect in virtual time\n", p.Dilation)
	}
	fb, err := f.build(p)
	if err != nil {
		return badInput(err)
	}
	var failure error
	fb.Failed = func(err error) { failure = errors.Join(failure, err) }
	if _, err := checkPauses(fb, f.pauses); err != nil {
		return err // fail before the run, not after it
	}
	if err := f.records.find(p.File, len(fb.Records), len(fb.Transfers())); err != nil {
		return err
	}
	finishFlows, err := f.recordFlows(p, fb)
	if err != nil {
		return err
	}
	var pauseLog *recording.PauseLog
	if f.stops != "" {
		pauseLog = recording.LogPauses(fb)
	}
	finishCapture, err := f.capture(p, fb)
	if err != nil {
		return err
	}
	finishSeries, err := f.series.record(samples, fb)
	if err != nil {
		return errors.Join(err, finishCapture())
	}
	stop := showProgress(fb, until)
	err = fb.Run(ctx, until)
	stop()
	// Free the run's memory before the report is built.
	fb.Shrink()
	runtime.GC()
	var interrupted *interruption
	if err != nil && errors.As(context.Cause(ctx), &interrupted) {
		err = nil // the report covers what has been run
		nextSignalKills()
	}
	cerr := finishCapture()
	r := &report.Report{}
	serr := finishSeries(r)
	patterns, ferr := finishFlows()
	if err = errors.Join(err, cerr, serr, ferr, failure); err != nil {
		return err
	}
	*r = report.Report{
		Lab: p.Name, File: p.File, Clock: "virtual", Seed: p.Seed, Emulated: fb.Now(), Events: fb.Events(),
		Trace: fmt.Sprintf("%016x", fb.Trace()), Accounts: fb.Accounts(), Ports: fb.Status(), NICs: fb.NICs(), Flows: fb.Results(),
		Timeline: recording.Timeline(fb), Outages: fb.Outages(), Deadlocks: fb.Deadlocks(), Series: r.Series, FlowSeries: r.FlowSeries,
	}
	if interrupted != nil {
		// The point of interruption differs between runs, so no other run would
		// have the same hash.
		r.Partial, r.Trace = &report.Partial{Why: interrupted.Error(), Until: p.Duration}, ""
	}
	r.SetTransfers(fb.Transfers())
	r.Patterns = patterns
	checks, err := checkPauses(fb, f.pauses)
	if err != nil {
		return err
	}
	r.Pauses = checks
	if f.pairs {
		if r.QPs, err = fb.QPsOf(""); err != nil {
			return err
		}
	}
	if err := f.series.events(r); err != nil {
		return err
	}
	if f.edges {
		if r.EdgeFlows, err = fb.EdgeFlowsOf(""); err != nil {
			return err
		}
	}
	if err := f.records.write(r); err != nil {
		return err
	}
	if pauseLog != nil {
		if err := writePauses(f.stops, pauseLog.Records()); err != nil {
			return err
		}
	}
	if f.write != "-" { // otherwise the capture uses standard output
		runtime.GC() // the fabric is not needed any more, and encoding needs memory
		if err := f.print(r); err != nil {
			return err
		}
	}
	if interrupted != nil {
		return interrupted.exit("%s: the report and the files cover the run so far", r.Partial.Place(r.Emulated))
	}
	return nil
}

// build builds the fabric. With a capture it has one engine, so that the packets of
// all ports are in the file in order of time.
func (f *simFlags) build(p *plan.Plan) (*fabric.Fabric, error) {
	if f.write != "" {
		return fabric.NewSharded(p, 1)
	}
	return fabric.NewParallel(p, f.workers)
}

// recordFlows starts the records of pattern flows. finish completes them and sums them
// up; without patterns its result is nil.
func (f *simFlags) recordFlows(p *plan.Plan, fb *fabric.Fabric) (finish func() (*report.Patterns, error), err error) {
	if len(p.Traffic) == 0 {
		return func() (*report.Patterns, error) { return nil, nil }, nil
	}
	var file *os.File
	if f.flows.file != "" {
		if file, err = os.Create(f.flows.file); err != nil {
			return nil, fmt.Errorf("--flow-records: %w", err)
		}
	}
	r, err := f.flows.begin(fb.FlowNames(), file)
	if err != nil {
		return nil, err
	}
	fb.SetFlowSink(r.sink, file != nil)
	return func() (*report.Patterns, error) {
		err := errors.Join(fb.EndFlows(), r.close())
		return r.tally.Patterns(f.flows.file, fb.TCP(), fb.NDP()), err
	}, nil
}

// print prints the report and the further output that the flags ask for.
func (f *simFlags) print(r *report.Report) error {
	if err := finish(r, f.json); err != nil || f.json {
		return err
	}
	for i := range r.Pauses {
		fmt.Println()
		report.WritePause(os.Stdout, &r.Pauses[i])
	}
	if f.pairs {
		fmt.Println()
		report.WriteQPs(os.Stdout, r.QPs, maxPairs)
	}
	if f.edges {
		fmt.Println()
		report.WriteEdgeFlows(os.Stdout, r.EdgeFlows, maxPairs)
	}
	return nil
}

// checkPauses explains the pauses of the named ports.
func checkPauses(fb *fabric.Fabric, ports []string) (out []status.PauseCheck, err error) {
	for _, name := range ports {
		node, index, err := fb.Plan.Endpoint(name)
		if err != nil {
			return nil, badInput(err)
		}
		c, err := fb.CheckPause(node, index)
		if err != nil {
			return nil, badInput(err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (f *simFlags) check() error {
	if (f.write == "") != (len(f.ports) == 0) {
		return badInput(errors.New("a capture needs both --write and --port"))
	}
	if f.write == "" && (f.snap != 0 || f.filter != "") {
		return badInput(errors.New("--snaplen and --filter are for a capture: add --write and --port"))
	}
	if f.stops != "" && filepath.Ext(f.stops) != ".csv" {
		return badInput(fmt.Errorf("--pause-records %s: end the name in .csv", f.stops))
	}
	return f.records.check()
}

// writePauses writes the pauses of a run.
func writePauses(name string, all []pauses.Record) error {
	var b bytes.Buffer
	if err := pauses.WriteCSV(&b, all); err != nil {
		return err
	}
	return renameio.WriteFile(name, b.Bytes(), 0o666)
}

// capture starts the capture that the flags ask for. finish completes it.
func (f *simFlags) capture(p *plan.Plan, fb *fabric.Fabric) (finish func() error, err error) {
	if f.write == "" {
		return func() error { return nil }, nil
	}
	var ports []fabric.Watched
	for _, name := range f.ports {
		node, index, err := p.Endpoint(name)
		if err != nil {
			return nil, badInput(err)
		}
		ports = append(ports, fabric.Watched{Node: node, Port: index, In: true, Out: true})
	}
	c, err := fb.NewCapture(ports, capture.Options{
		SnapLen: f.snap, Filter: f.filter, Wait: true, Comment: fmt.Sprintf("weft sim %s, virtual time, seed %d", p.Name, p.Seed),
	})
	if err != nil {
		return nil, badInput(err)
	}
	if err := checkCaptureFile(f.write); err != nil {
		return nil, err
	}
	w := &captureFile{name: f.write}
	stop := fb.Watch(ports, c)
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), w)
		done <- err
	}()
	return func() error {
		stop()
		err := <-done
		if cerr := w.Close(); err == nil {
			err = cerr
		}
		return err
	}, nil
}
