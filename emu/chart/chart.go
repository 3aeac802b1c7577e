package chart

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/traces/series"
	"github.com/weftlab/weft/traces/workload"
)

// Options say what of the files is shown.
type Options struct {
	What     string     // "" = queue of series, completion of flow records
	Ports    []string   // of series: patterns as in lab files; none = all
	Class    string     // of series: pattern of classes; "" = ports as a whole
	From, To units.Time // of series; To = units.Never is the end
	Average  units.Time // of series: the least length of the intervals of rates
	LogX     bool       // of flow records
	LogY     bool       // of series
	Width    int        // of a picture in pixels
	Height   int
}

// Review is what there is to say of some files.
type Review interface {
	// Write prints it for people.
	Write(w io.Writer)
	// Picture draws it. The note, if any, says what is left out.
	Picture() (p *Picture, note string, err error)
}

// Open reads files that weft sim and weft up have written, all of one kind:
// series of queues (CSV) or flow records (CSV, JSON). What it gives marshals to
// JSON.
func Open(files []string, o Options) (Review, error) {
	flows := false
	for i, name := range files {
		f, err := areFlows(name)
		if err != nil {
			return nil, err
		}
		if i > 0 && f != flows {
			return nil, fmt.Errorf("%s and %s are of different kinds: one is a series of queues, the other holds flow records", files[0], name)
		}
		flows = f
	}
	if flows {
		return openFlows(files, o)
	}
	return openSeries(files, o)
}

// areFlows tells flow records from a series.
func areFlows(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if filepath.Ext(name) == ".json" {
		return true, nil
	}
	// A line that long is no header, and what has none of the names is
	// something else: a capture, a lab file.
	line, err := bufio.NewReader(io.LimitReader(f, 1<<16)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	header, err := csv.NewReader(strings.NewReader(line)).Read()
	switch {
	case err == nil && series.Is(header):
		return false, nil
	case err == nil && workload.Is(header):
		return true, nil
	}
	return false, fmt.Errorf("%s is neither a series (weft sim --series x.csv) nor flow records (weft sim --flows x.csv): its first line does not name their columns", name)
}

// read has a file read by f, and names it in errors.
func read(name string, f func(io.Reader) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := f(bufio.NewReaderSize(file, 1<<16)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// decades gives the powers of ten around two positive values.
func decades(low, high float64) (float64, float64) {
	l, h := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	return math.Pow(10, l), math.Pow(10, max(h, l+1))
}
