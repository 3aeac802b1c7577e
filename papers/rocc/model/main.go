// Command model draws the stability analysis of RoCC (Taheri et al., CoNEXT 2020, §5) from the
// linear model in protocols/rocc/loop, and prints the values in the paper's text beside those
// of the model:
//
//	go run ./papers/rocc/model                              # writes papers/rocc/figures/*.png
//	go run ./papers/rocc/model -o DIR -formats pdf,svg
//
// Pictures are fig5 (phase margin over the gains), fig6 (Bode diagram), fig7 (margin and
// bandwidth over the number of flows, for fixed gains) and tuned (the same with auto-tuning
// and the evaluation's gains, which the paper does not show).
//
// With your own settings it prints margin and bandwidth for each number of flows, with fixed
// gains and with auto-tuning, and draws them if -o is given:
//
//	go run ./papers/rocc/model -alpha 0.3 -beta 1.5 -flows 2,10,100
//	go run ./papers/rocc/model -interval 100us -delta-q 1500B -o DIR
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/protocols/rocc/loop"
	"github.com/weftlab/weft/view/figure"
	"github.com/weftlab/weft/view/figure/canvas"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	dir      string
	formats  []string
	draws    bool // -o is given
	own      bool // the user has given settings
	settings loop.Settings
	flows    []int
}

// maxFlows limits -flows: no port has more.
const maxFlows = 1_000_000

func run(args []string, out io.Writer) error {
	o, err := parseFlags(args, out)
	if err != nil {
		return err
	}
	if o.own {
		fmt.Fprint(out, evaluateSettings(o.settings, o.flows))
		if !o.draws {
			return nil
		}
		return saveFigures(map[string]*figure.Figure{"settings": settingsFigure(o.settings, slices.Max(o.flows))}, o.dir, o.formats)
	}
	rows := paperRows()
	fmt.Fprintf(out, "%s\n%s", formatTable(rows), pairTable())
	for i := range rows {
		if r := &rows[i]; !r.isExplained() {
			err = errors.Join(err, fmt.Errorf("%s: %s, the paper has %s", r.what, r.formatNumber(r.ours), r.formatNumber(r.paper)))
		}
	}
	return errors.Join(err, saveFigures(paperFigures(), o.dir, o.formats))
}

// parseFlags reads the flags.
func parseFlags(args []string, out io.Writer) (*options, error) {
	o := &options{settings: loop.Settings{Interval: loop.Interval, DeltaF: loop.DeltaF, DeltaQ: loop.DeltaQ}}
	f := flag.NewFlagSet("model", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.dir, "o", "papers/rocc/figures", "directory of the pictures")
	formats := f.String("formats", "png", "formats of the pictures, of "+strings.Join(canvas.Formats, ", "))
	f.Float64Var(&o.settings.Alpha, "alpha", 0, "gain α; without it, that with the margins of the paper's 0.3:1.5")
	f.Float64Var(&o.settings.Beta, "beta", 0, "gain β, likewise")
	f.TextVar(&o.settings.Interval, "interval", loop.Interval, "T, time between updates of the fair rate")
	f.TextVar(&o.settings.DeltaF, "delta-f", loop.DeltaF, "ΔF, resolution of rates")
	f.TextVar(&o.settings.DeltaQ, "delta-q", loop.DeltaQ, "ΔQ, resolution of queue sizes")
	flows := f.String("flows", "1,2,4,8,10,16,32,64,100,128", "numbers of flows")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, "usage: model [flags]\nSettings of one's own: -alpha, -beta, -interval, -delta-f, -delta-q, -flows.")
		f.SetOutput(out)
		f.PrintDefaults()
	}
	if err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag: write -o %s for the directory of the pictures", f.Arg(0), f.Arg(0))
	}
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	o.draws = given["o"]
	for _, name := range []string{"alpha", "beta", "interval", "delta-f", "delta-q", "flows"} {
		o.own = o.own || given[name]
	}
	if given["formats"] && o.own && !o.draws {
		return nil, errors.New("-formats has no effect without a picture: add -o DIR to draw these settings")
	}
	if o.formats, err = readFormats(*formats); err != nil {
		return nil, err
	}
	if o.flows, err = readFlows(*flows); err != nil {
		return nil, err
	}
	return o, o.setGains(given["alpha"], given["beta"])
}

// setGains chooses suitable gains for settings without them, and checks all settings.
func (o *options) setGains(alpha, beta bool) error {
	s := &o.settings
	if alpha != beta {
		return errors.New("-alpha and -beta belong together: give both, or neither for the gains with the paper's margins")
	}
	if !alpha {
		s.Alpha, s.Beta = 1, 1 // until the others are known to be valid
		if err := s.Validate(); err != nil {
			return err
		}
		s.Alpha, s.Beta = loop.GainsFor(s.Interval, s.DeltaF, s.DeltaQ)
		if err := s.Validate(); err != nil {
			return fmt.Errorf("%v, %v and %v ask for gains of %s, which are out of range: take a longer -interval, a larger -delta-f or a smaller -delta-q", s.Interval, s.DeltaF, s.DeltaQ, formatPair(*s))
		}
	}
	return s.Validate()
}

func readFormats(list string) ([]string, error) {
	all := strings.Split(list, ",")
	for _, format := range all {
		if !slices.Contains(canvas.Formats, format) {
			return nil, fmt.Errorf("-formats has %q: choose from %s, with commas between", format, strings.Join(canvas.Formats, ", "))
		}
	}
	return all, nil
}

func readFlows(list string) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > maxFlows {
			return nil, fmt.Errorf("-flows has %q: give numbers from 1 to %d with commas between, such as 2,10,100", text, maxFlows)
		}
		all = append(all, n)
	}
	return all, nil
}

// saveFigures writes figures into a directory, which it creates.
func saveFigures(figures map[string]*figure.Figure, dir string, formats []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, f := range figures {
		for _, format := range formats {
			if err := f.Save(filepath.Join(dir, name+"."+format)); err != nil {
				return err
			}
		}
	}
	return nil
}
