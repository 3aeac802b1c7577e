package chart

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/weftlab/weft/sim/units"
)

// Options say what of the files is shown.
type Options struct {
	What     string     // "" = queue of series of queues, rate of those of flows, completion of records
	Ports    []string   // of series of queues: patterns as in lab files; none = all
	Class    string     // of series: pattern of classes; "" = ports as a whole
	Flows    []string   // of series of flows: patterns of transfers, hosts, NICs, queue pairs; none = all
	From, To units.Time // of series; To = units.Never is the end
	Average  units.Time // of series: the least length of the intervals of rates
	LogX     bool       // of distributions
	LogY     bool       // of series and slowdown-by-size
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
// series of queues or of flows (CSV), flow records or records of transfers (CSV, JSON).
// What it gives marshals to JSON.
func Open(files []string, o Options) (Review, error) {
	var all kind
	for i, name := range files {
		k, err := kindOf(name)
		if err != nil {
			return nil, err
		}
		if i > 0 && k != all {
			return nil, fmt.Errorf("%s and %s are of different kinds: %s and %s", files[0], name, all, k)
		}
		all = k
	}
	switch all {
	case flowSeries:
		return openFlowSeries(files, o)
	case flowRecords:
		return openFlows(files, o)
	case transferRecords:
		return openTransfers(files, o)
	}
	return openSeries(files, o)
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
