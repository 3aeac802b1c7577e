package records

import (
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/weftlab/weft/sim/units"
)

// row is a record in Parquet form: Columns, in their order.
type row struct {
	ID            uint64   `parquet:"id"`
	Traffic       string   `parquet:"traffic,dict"`
	Group         uint64   `parquet:"group"`
	Tag           uint32   `parquet:"tag"`
	From          string   `parquet:"from,dict"`
	To            string   `parquet:"to,dict"`
	Size          int64    `parquet:"size_bytes"`
	State         string   `parquet:"state,dict"`
	Failure       *string  `parquet:"failure,dict,optional"`
	Counted       bool     `parquet:"counted"`
	Created       float64  `parquet:"created_s"`
	Started       *float64 `parquet:"started_s,optional"`
	End           float64  `parquet:"end_s"`
	Arrived       *float64 `parquet:"arrived_s,optional"`
	FCT           *float64 `parquet:"fct_s,optional"`
	Ideal         *float64 `parquet:"ideal_s,optional"`
	Slowdown      *float64 `parquet:"slowdown,optional"`
	Retransmitted uint64   `parquet:"retransmitted"`
	Acked         int64    `parquet:"acked_bytes"`
	SrcPort       uint32   `parquet:"udp_source_port"`
	Path          *string  `parquet:"path,dict,optional"`
}

// A batch of rows is given to the writer at once; after so many of them it writes a row
// group, so that memory does not grow with the file.
const (
	parquetBatch = 512
	parquetGroup = 1 << 16
)

// Parquet writes records as a Parquet file, compressed by Snappy.
type Parquet struct {
	names  Names
	out    *parquet.GenericWriter[row]
	rows   [parquetBatch]row
	values [parquetBatch]values
	n      int
}

// values are what the optional columns of a row point to.
type values struct {
	started, arrived, fct, ideal, slowdown float64
	failure, path                          string
}

// NewParquet makes a sink that writes to w. It does not close w.
func NewParquet(w io.Writer, n Names) *Parquet {
	return &Parquet{names: n, out: parquet.NewGenericWriter[row](w, parquet.MaxRowsPerRowGroup(parquetGroup), parquet.Compression(&parquet.Snappy))}
}

// PutRecord implements Sink.
func (p *Parquet) PutRecord(r *Record) error {
	v := &p.values[p.n]
	*v = values{r.Started.Seconds(), r.Arrived.Seconds(), r.FCT().Seconds(), r.Ideal.Seconds(), r.Slowdown(), r.Failure, r.Path}
	x := &p.rows[p.n]
	*x = row{
		ID: r.ID, Traffic: p.names.Traffic[r.Traffic], Group: r.Group, Tag: r.Tag, From: p.names.Hosts[r.From], To: p.names.Hosts[r.To],
		Size: int64(r.Size), State: r.State.String(), Counted: r.Counted, Created: r.Created.Seconds(), End: r.End.Seconds(),
		Failure: pointerIf(&v.failure, r.Failure != ""), Started: pointerIf(&v.started, r.Started != units.Never), Arrived: pointerIf(&v.arrived, r.Arrived != units.Never),
		FCT: pointerIf(&v.fct, r.State == Done), Ideal: pointerIf(&v.ideal, r.Ideal > 0), Slowdown: pointerIf(&v.slowdown, v.slowdown > 0),
		Retransmitted: r.Retransmitted, Acked: int64(r.Acked), SrcPort: uint32(r.SrcPort), Path: pointerIf(&v.path, r.Path != ""),
	}
	if p.n++; p.n < parquetBatch {
		return nil
	}
	return p.flushRows()
}

func pointerIf[T any](v *T, is bool) *T {
	if !is {
		return nil
	}
	return v
}

func (p *Parquet) flushRows() error {
	_, err := p.out.Write(p.rows[:p.n])
	p.n = 0
	return err
}

// Close writes what is left, and the footer of the file.
func (p *Parquet) Close() error {
	if err := p.flushRows(); err != nil {
		return err
	}
	return p.out.Close()
}
