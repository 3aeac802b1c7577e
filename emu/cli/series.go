package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/spec"
	"github.com/weftlab/weft/sim/units"
)

// seriesFlags ask for a recording of queues over time.
type seriesFlags struct {
	file  string
	every units.Time
	ports []string
}

func (f *seriesFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "series", "", "write queues and rates over time to this file: .csv")
	spanFlag(c, &f.every, "every", "emulated time between two samples of the series, such as 10us; the file's, or 1ms, if 0s")
	c.Flags().StringSliceVar(&f.ports, "series-port", nil, "port to sample, such as s1:3 or 'leaf*:*', in place of the file's; may be repeated. Default all ports of switches")
}

// args gives the flags to another process.
func (f *seriesFlags) args() (args []string) {
	if f.file == "" {
		return nil
	}
	args = []string{"--series", f.file}
	if f.every > 0 {
		args = append(args, "--every", f.every.String())
	}
	for _, p := range f.ports {
		args = append(args, "--series-port", p)
	}
	return args
}

// plan works out what is to be recorded in a run of some length, 0 if that is
// not known; nil for nothing.
func (f *seriesFlags) plan(p *spec.Plan, length units.Time, wall bool) (*fabric.Series, error) {
	if f.file == "" {
		if f.every != 0 || len(f.ports) > 0 {
			return nil, badInput(errors.New("--every and --series-port are for a series: add --series FILE.csv"))
		}
		return nil, nil
	}
	if filepath.Ext(f.file) != ".csv" {
		return nil, badInput(fmt.Errorf("--series %s: end the name in .csv", f.file))
	}
	s := &fabric.Series{Every: spec.DefaultSeries, Length: length, Wall: wall}
	if p.Series != nil {
		*s = fabric.Series{Every: p.Series.Every, Ports: p.Series.Ports, Length: length, Wall: wall}
	}
	if f.every != 0 {
		s.Every = f.every
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

// remind tells that what the file says of a series has no effect.
func (f *seriesFlags) remind(p *spec.Plan) {
	if f.file == "" && p.Series != nil {
		fmt.Fprintln(os.Stderr, "weft: the file's series is not recorded: --series FILE.csv does")
	}
}

// open opens the file of a series. What was in it stays until something is
// written in its place. Discard undoes open.
func (f *seriesFlags) open() (file *os.File, discard func(), err error) {
	_, err = os.Lstat(f.file)
	made := errors.Is(err, os.ErrNotExist)
	if file, err = os.OpenFile(f.file, os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
		return nil, nil, fmt.Errorf("--series: %w", err)
	}
	return file, func() {
		file.Close()
		if made {
			os.Remove(f.file)
		}
	}, nil
}

// events writes what happened in a run beside its series.
func (f *seriesFlags) events(r *report.Report) error {
	if f.file == "" {
		return nil
	}
	if err := report.WriteEvents(f.file, r.Timeline); err != nil {
		return fmt.Errorf("--series: the events beside it: %w", err)
	}
	return nil
}

// record begins a series in virtual time, or nothing for nil. The returned
// function completes it.
func (f *seriesFlags) record(s *fabric.Series, fb *fabric.Fabric) (finish func() (*report.Series, error), err error) {
	if s == nil {
		return func() (*report.Series, error) { return nil, nil }, nil
	}
	file, err := os.Create(f.file)
	if err != nil {
		return nil, fmt.Errorf("--series: %w", err)
	}
	r := fb.Record(*s, file)
	return func() (*report.Series, error) {
		sum, err := r.Stop()
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("--series %s: %w", f.file, err)
		}
		return &report.Series{File: f.file, Every: s.Every, Queues: r.Queues(), Summary: sum}, nil
	}, nil
}
