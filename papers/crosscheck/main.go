// Command crosscheck runs the flows of peer.csv, which HPCC's simulator has run under HPCC, DCQCN
// and TIMELY, through the labs beside it, and compares the completion times flow by flow:
//
//	go run ./papers/crosscheck             # the table of README.md; a minute on two cores
//	go run ./papers/crosscheck -variants   # also the table of changed labs
//	go run ./papers/crosscheck -write      # writes labs/*.flows, the flows with sizes for our headers
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/run"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

func main() {
	switch err := start(os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "crosscheck:", err)
		os.Exit(1)
	}
}

func start(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crosscheck", flag.ContinueOnError)
	dir := flags.String("dir", "papers/crosscheck", "directory of peer.csv and labs")
	seeds := flags.Int("seeds", 8, "number of runs of each lab, 2 or more")
	changed := flags.Bool("variants", false, "also run the changed labs")
	write := flags.Bool("write", false, "write labs/*.flows instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *seeds < 2 {
		return fmt.Errorf("-seeds %d: give 2 or more, since runs are compared with each other", *seeds)
	}
	flows, err := readPeer(filepath.Join(*dir, "peer.csv"))
	if err != nil {
		return err
	}
	if *write {
		return writeLists(*dir, flows)
	}
	fmt.Fprint(out, head)
	for i := range controls {
		if err := printRows(out, *dir, flows, &controls[i], variant{}, *seeds); err != nil {
			return err
		}
	}
	for i := range variants {
		if !*changed {
			break
		}
		v := &variants[i]
		fmt.Fprintf(out, "\n%s:\n\n%s", v.what, head)
		if err := printRows(out, *dir, flows, controlOf(v.lab), *v, *seeds); err != nil {
			return err
		}
	}
	return nil
}

// printRows runs a lab with several seeds and prints a row for each range of sizes.
func printRows(out io.Writer, dir string, flows []flow, c *control, v variant, seeds int) error {
	runs, err := runSeeds(dir, flows, c, v, seeds)
	if err != nil {
		return err
	}
	for _, r := range compareRuns(flows, c, runs) {
		fmt.Fprintln(out, r.markdown(c.name))
	}
	return nil
}

// variant is a lab with a changed piece of text; the zero variant is the lab itself.
type variant struct {
	what, lab  string
	old, other string
	unscaled   bool // flows have the peer's sizes
}

// variants each undo one thing that makes a lab like the peer.
var variants = []variant{
	{what: "HPCC, sizes as in the peer", lab: "hpcc", unscaled: true},
	{what: "HPCC, T of each path", lab: "hpcc", old: "base_rtt: 4.162us", other: "base_rtt: 0"},
	{what: "HPCC, room for telemetry of five hops", lab: "hpcc", old: ", int_hops: 1", other: ""},
	{what: "DCQCN, sizes as in the peer", lab: "dcqcn", unscaled: true},
	{what: "DCQCN, marks at enqueue", lab: "dcqcn", old: ", at-dequeue: true", other: ""},
	{what: "DCQCN, acknowledgements in a class of their own", lab: "dcqcn", old: "ack-every: 2", other: "ack-every: 2, ack-dscp: 48"},
	{what: "DCQCN, CNPs in a class of their own", lab: "dcqcn", old: "np_cnp_dscp: 26", other: "np_cnp_dscp: 48"},
	{what: "DCQCN, every packet acknowledged", lab: "dcqcn", old: "ack-every: 2", other: "ack-every: 1"},
	{what: "TIMELY, sizes as in the peer", lab: "timely", unscaled: true},
	{what: "TIMELY, no hyper-active increases below t_low", lab: "timely", old: "preset: hpcc", other: "preset: hpcc, hai_always: false, hai_after: 5"},
	{what: "TIMELY, acknowledgements in a class of their own", lab: "timely", old: "ack-every: 1", other: "ack-every: 1, ack-dscp: 48"},
}

// changeLab returns the text of a lab with the variant's change, and with a class for DSCP 48 if the
// variant uses it.
func (v *variant) changeLab(text string) (string, error) {
	if v.old != "" {
		if !strings.Contains(text, v.old) {
			return "", fmt.Errorf("the lab has no %q to change", v.old)
		}
		text = strings.Replace(text, v.old, v.other, 1)
	}
	if strings.Contains(v.other, "dscp: 48") {
		text = strings.Replace(text, "        roce:", "        control: {dscp: 48, priority: 6}\n        roce:", 1)
	}
	return text, nil
}

// runSeeds runs a control's lab with the seeds 1, 2, ...; see shiftStarts.
func runSeeds(dir string, flows []flow, c *control, v variant, seeds int) (runs [][]float64, err error) {
	name := filepath.Join(dir, "labs", c.name+".yaml")
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	text, err := v.changeLab(string(src))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.what, err)
	}
	scale := c
	if v.unscaled {
		scale = nil
	}
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		fct, err := runLab(name, c.inlineList(text, formatList(shiftStarts(flows, seed), scale)), seed, len(flows))
		if err != nil {
			return nil, err
		}
		runs = append(runs, fct)
	}
	return runs, nil
}

// inlineList puts a list of flows in place of the name of the lab's.
func (c *control) inlineList(lab, list string) string {
	indented := strings.ReplaceAll(strings.TrimSpace(list), "\n", "\n        ")
	return strings.Replace(lab, "{flow-list: {hpcc: "+c.name+".flows, by: {rdma: {verb: send}}}}",
		"flow-list:\n      by: {rdma: {verb: send}}\n      hpcc: |\n        "+indented+"\n", 1)
}

// shiftStarts returns the flows with starts that are later by 0 or 1 ns, at random, so that runs
// differ also where nothing else is random. Seed 1 leaves them as they are.
func shiftStarts(flows []flow, seed uint64) []flow {
	flows = slices.Clone(flows)
	rand := sim.NewRand(seed, "crosscheck starts")
	for i := range flows {
		if seed > 1 {
			flows[i].startedAt += rand.Int64N(2)
		}
	}
	return flows
}

// runLab runs a lab with n flows in virtual time and returns their completion times in
// nanoseconds, in the order of the list.
func runLab(name, text string, seed uint64, n int) ([]float64, error) {
	p, err := resolve.ParseSeed(name, []byte(text), seed)
	if err != nil {
		return nil, err
	}
	r, err := run.New(p, run.Options{})
	if err != nil {
		return nil, err
	}
	s := &times{fct: make([]float64, n)}
	r.RecordPatterns(s, false)
	if err := r.Do(context.Background()); err != nil {
		return nil, err
	}
	if s.done != n {
		return nil, fmt.Errorf("%s: %d of %d flows completed", name, s.done, n)
	}
	return s.fct, nil
}

// times collects completion times by the flow's place in the list.
type times struct {
	fct  []float64 // ns
	done int
}

// PutRecord implements records.Sink.
func (s *times) PutRecord(r *records.Record) error {
	if r.State != records.Done {
		return nil
	}
	s.fct[r.Tag] = float64(r.FCT()) / float64(units.Nanosecond)
	s.done++
	return nil
}

// Close implements records.Sink.
func (s *times) Close() error { return nil }
