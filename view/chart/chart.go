package chart

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure"
)

// Options say what to show.
type Options struct {
	What     string     // "": queue for series of queues, rate for series of flows, else completion
	Ports    []string   // for series of queues: patterns as in lab files; none means all
	Class    string     // for series: pattern of classes; "" means whole ports
	Flows    []string   // for series of flows: transfers, hosts, NICs, queue pairs; for flow records: traffic, hosts; none means all
	From, To units.Time // for series; To = units.Never means the end
	Average  units.Time // for series: the minimum length of intervals over which rates are averaged
	LogX     bool       // for distributions
	LogY     bool       // for series and slowdown-by-size
	Width    int        // of the picture in pixels
	Height   int
}

// Review is a summary of some files.
type Review interface {
	// Write prints it as text.
	Write(w io.Writer)
	// Figure draws it. The note, if any, says what was left out.
	Figure() (f *figure.Figure, note string, err error)
}

// Open reads files written by weft sim and weft up, which must be of one kind: series
// of queues or of flows (CSV), flow records (CSV, Parquet), records of flows of packets
// or of transfers (CSV, JSON). The
// Review can be marshalled to JSON.
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
	case streamRecords:
		return openStreams(files, o)
	case flowRecords:
		return openFlows(files, o)
	case transferRecords:
		return openTransfers(files, o)
	}
	return openSeries(files, o)
}

// timeRange returns the range that a picture shows of samples between two instants.
func (o *Options) timeRange(from, to units.Time) (units.Time, units.Time) {
	if o.To != units.Never {
		to = o.To
	}
	return max(from, o.From), to
}

// readFile calls f to read a file, and adds the file's name to errors.
func readFile(name string, f func(io.Reader) error) error {
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
