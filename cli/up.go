package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/sim/units"
)

type upFlags struct {
	detach   bool
	length   units.Time
	json     bool
	workload bool
	dilation dilationFlag
	workers  int
	ready    int    // fd on which a detached lab reports that it is up
	rootless string // the user's state directory: this process is inside the namespaces
	terminal string // of the process that has started this one: see origin
	series   seriesFlags
	flows    flowRecordFlags

	metrics   string // address for Prometheus
	metricsFD int    // its socket, opened by the process that started this one
	listener  *net.TCPListener
}

func newUp() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up FILE",
		Short: "Start a lab with real hosts, in wall-clock time",
		Long: `Start a lab: make its hosts (network namespaces), join them through the fabric,
and run until Ctrl-C, "weft down" or the end of --for; then print the report and
remove everything.

FILE may be - for standard input.

Programs run inside hosts with "weft exec h1 -- iperf3 -s" or, as root,
"ip netns exec weft-LAB-h1 iperf3 -s". Without root the lab is made in a user
namespace; then use weft exec.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := loadWallClock(c.Context(), args[0])
			if err != nil {
				return err
			}
			if p.Engine.Workers = f.workers; f.workers > 0 {
				if err := fabric.CheckWorkers(p); err != nil {
					return badInput(fmt.Errorf("--workers: %w", err))
				}
			}
			if f.dilation > 0 {
				p.Dilation = int(f.dilation)
			}
			first := f.ready < 0 && f.rootless == "" // else another process started this one
			if first {
				for _, note := range p.Unreached() {
					fmt.Fprintln(os.Stderr, "weft:", note)
				}
			}
			if n := len(p.Flows) + len(p.Transfers) + len(p.Traffic); !f.workload && n > 0 {
				if first && !c.Flags().Changed("workload") {
					fmt.Fprintf(os.Stderr, "weft: the workload of %s (%d modelled flows, transfers and patterns) does not send while real programs run: add --workload, or --workload=false if that is meant\n", p.File, n)
				}
				if f.flows.file != "" {
					return badInput(fmt.Errorf("--flow-records %s: the file's workload does not send: add --workload", f.flows.file))
				}
				p.Flows, p.Transfers, p.Traffic = nil, nil, nil
			}
			if err := f.flows.checkPlan(p); err != nil {
				return err
			}
			if f.detach && f.json {
				return badInput(errors.New("--json prints the final report: for a detached lab use weft down --json"))
			}
			samples, err := f.series.planSamples(p, f.length, true)
			if err != nil {
				return err
			}
			if err := f.listenForMetrics(); err != nil {
				return err
			}
			if first {
				f.series.warnUnrecorded(p)
			}
			if f.detach {
				return startDetached(c.Context(), p, args[0], f)
			}
			if f.rootless != "" {
				if err := netnslab.EnterRootless(f.rootless); err != nil {
					return err
				}
			} else if netnslab.IsUnprivileged() {
				return upRootless(c.Context(), p, args[0], f)
			}
			return runLab(c.Context(), p, f, samples)
		},
	}
	c.Flags().BoolVarP(&f.detach, "detach", "d", false, "return when the lab is up and leave it running")
	spanFlag(c, &f.length, "for", "end the lab after this emulated time, such as 10s; 0s runs until it is ended")
	c.Flags().Var(&f.dilation, "dilation", "seconds of real time per second of the lab, in place of the file's, such as 100")
	numberFlag(c, &f.workers, "workers", "", "threads that run the lab, with an engine each, if the machine has cores to spare; 0 means one")
	c.Flags().BoolVar(&f.workload, "workload", false, "let the file's modelled traffic send as well, alongside real programs; --workload=false silences the note that it does not")
	c.Flags().BoolVar(&f.json, "json", false, "print the final report as JSON")
	c.Flags().StringVar(&f.metrics, "metrics", "", "serve metrics to Prometheus at this address, such as 127.0.0.1:9464; without a host, on the loopback address")
	c.Flags().IntVar(&f.metricsFD, "metrics-fd", -1, "")
	c.Flags().IntVar(&f.ready, "ready-fd", -1, "")
	c.Flags().StringVar(&f.rootless, "rootless", "", "")
	f.series.addFlags(c)
	f.flows.addFlags(c)
	c.Flags().StringVar(&f.terminal, "terminal", "", "")
	_ = c.Flags().MarkHidden("terminal")
	_ = c.Flags().MarkHidden("ready-fd")
	_ = c.Flags().MarkHidden("metrics-fd")
	_ = c.Flags().MarkHidden("rootless")
	return c
}

// runLab runs a lab in this process.
func runLab(ctx context.Context, p *plan.Plan, f upFlags, samples samples) error {
	if f.ready >= 0 {
		unix.CloseOnExec(f.ready) // the hosts' programs would keep it open
	}
	begin, discard, err := f.series.openFiles(samples)
	if err != nil {
		return err
	}
	records, discardRecords, err := f.flows.openFile(p)
	if err != nil {
		discard()
		return err
	}
	l, err := lab.New(p)
	if err != nil {
		discard()
		discardRecords()
		return err
	}
	if err := f.flows.recordLab(l, p, records); err != nil {
		return err
	}
	if f.listener != nil {
		l.ServeMetrics(f.listener)
	}
	begin(l)
	l.RunPrograms(lab.Programs{Output: f.programOutput(l), Enter: hostCommand(p.Name)})
	limit := units.Never
	if f.length > 0 {
		limit = f.length
	}
	warn := func(err error) {
		if isTerminal(os.Stdout) {
			printText(clearLine) // of the status
		}
		fmt.Fprintln(os.Stderr, "weft:", err)
	}
	if err := writeOrigin(l.Dir(), f.terminal); err != nil {
		warn(err)
	}
	status := func() {}
	if f.ready < 0 {
		printText(bootingNote(p))
	}
	r, err := l.Run(ctx, limit, func() {
		if f.ready >= 0 {
			announceUp(f.ready, l.Dir())
			return
		}
		printGreeting(p)
		printText(f.metricsAt())
		status = watchStatus(l)
	}, warn)
	status()
	if err != nil {
		return err
	}
	if err := f.series.writeEvents(r); err != nil {
		warn(err)
	}
	return finishReport(r, f.json && f.ready < 0)
}

// hostCommand returns a function that makes commands for programs inside hosts of a lab.
func hostCommand(lab string) func(host string, argv []string, dilated bool) *exec.Cmd {
	return func(host string, argv []string, dilated bool) *exec.Cmd {
		args := []string{"exec", "--lab", lab}
		if dilated {
			args = append(args, "--dilated")
		}
		return exec.Command("/proc/self/exe", append(append(args, host, "--"), argv...)...)
	}
}

// programOutput returns the function that writes the output of the hosts' programs: to the
// lab's log if it is detached, otherwise to standard error.
func (f *upFlags) programOutput(l *lab.Lab) func(host, line string) {
	to := os.Stderr
	if f.ready >= 0 {
		if log, err := openLog(l.Dir()); err == nil {
			to = log // until this process ends
		}
	}
	return func(host, line string) {
		if f.ready < 0 && isTerminal(os.Stdout) {
			printText(clearLine) // of the status
		}
		fmt.Fprintf(to, "%s: %s\n", host, line)
	}
}

// finishReport prints a final report and returns its verdict.
func finishReport(r *report.Report, asJSON bool) error {
	if asJSON {
		if err := r.WriteJSON(stdout); err != nil {
			return err
		}
	} else {
		r.Write(stdout)
	}
	return runVerdict(r)
}

// runVerdict returns an error if what a run recorded is incomplete, if strict fidelity was not
// kept, or if modelled traffic failed.
func runVerdict(r *report.Report) error {
	for _, s := range []*report.Series{r.Series, r.FlowSeries} {
		if s != nil && s.Error != "" {
			return fmt.Errorf("the series is incomplete: %s: %s", s.File, s.Error)
		}
	}
	if r.Failed() {
		return &exitError{exitStrict, errors.New("the strict run failed: " + r.Timing.Reason())}
	}
	if failed := r.TrafficFailures(); failed != "" {
		return &exitError{exitTraffic, errors.New("modelled traffic failed: " + failed)}
	}
	return nil
}

func printJSON(v any) error {
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printGreeting prints what is up and what to type next.
func printGreeting(p *plan.Plan) {
	hosts, switches, first := 0, 0, ""
	for i := range p.Nodes {
		if p.Nodes[i].Kind == plan.Switch {
			switches++
			continue
		}
		hosts++
		if first == "" && p.Nodes[i].Attach != plan.NoDevice {
			first = p.Nodes[i].Name
		}
	}
	printf("lab %s is up: %d hosts, %d switches, %d links. Ctrl-C ends it.\n", p.Name, hosts, switches, len(p.Links))
	printText(slowMotion(p))
	if first != "" {
		printf("try: weft exec %s -- ping -c 3 %s\n", first, peerOf(p, first))
	}
}

// slowMotion returns a note that a lab is dilated, "" if it is not.
func slowMotion(p *plan.Plan) string {
	if p.Dilation <= 1 {
		return ""
	}
	return fmt.Sprintf("dilation %d: %ds of real time are 1s of the lab; programs see the lab's clock with weft exec --dilated\n", p.Dilation, p.Dilation)
}

// bootingNote returns a note that a lab's virtual machines are booting, which takes seconds.
func bootingNote(p *plan.Plan) string {
	machines := 0
	for i := range p.Nodes {
		if p.Nodes[i].VM != nil {
			machines++
		}
	}
	if machines == 0 {
		return ""
	}
	return fmt.Sprintf("virtual machines: %d, starting now\n", machines)
}

// peerOf returns the name of another real host, for an example.
func peerOf(p *plan.Plan, than string) string {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Kind == plan.Host && n.Attach != plan.NoDevice && n.Name != than {
			return n.Name
		}
	}
	return than
}

// clearLine erases a line of a terminal.
const clearLine = "\r\x1b[K"

// watchStatus prints the status of the running lab: one line updated in place
// on a terminal, a line every ten seconds elsewhere. stop ends it.
func watchStatus(l *lab.Lab) (stop func()) {
	every, before, after := time.Second, clearLine, ""
	if !isTerminal(os.Stdout) {
		every, before, after = 10*time.Second, "", "\n"
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		last := &report.Sample{}
		for {
			select {
			case <-quit:
				if before != "" {
					printText(before)
				}
				return
			case <-tick.C:
				now, err := l.Sample()
				if err != nil {
					return // the lab has ended
				}
				printText(before + statusLine(last, now) + after)
				last = now
			}
		}
	}()
	return func() { close(quit); <-done }
}

// statusLine summarizes in 80 columns what happened between two samples: the
// receive rate of the hosts, marks, drops; and how late the run is so far.
func statusLine(last, now *report.Sample) string {
	var before, bytes uint64
	for _, p := range last.Ports {
		if p.Kind == "host" {
			before += p.RxBytes
		}
	}
	for _, p := range now.Ports {
		if p.Kind == "host" {
			bytes += p.RxBytes
		}
	}
	rate := 0.0
	if dt := (now.Emulated - last.Emulated).Seconds(); dt > 0 {
		rate = float64(bytes-before) * 8 / dt
	}
	a, b := &now.Accounts, &last.Accounts
	l := &now.Timing.Lateness
	elapsed := fmt.Sprintf("%4.0fs", now.Emulated.Seconds())
	if now.Dilation > 1 {
		elapsed = fmt.Sprintf("%ss (dilation %d)", units.FormatDigits(now.Emulated.Seconds(), 3), now.Dilation)
	}
	return fmt.Sprintf("%s %9s  marked %d  dropped %d  late p99 %s, %s>%v  cpu %.2f", elapsed, report.Rate(rate),
		a.Marked-b.Marked, a.Dropped-b.Dropped, report.Span(l.P99), units.FormatPercent(float64(l.Share), 2), l.Limit, now.Timing.CPU)
}
