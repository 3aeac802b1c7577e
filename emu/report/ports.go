package report

import (
	"fmt"
	"io"
	"sort"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// maxPorts is how many ports a text report shows; JSON has them all.
const maxPorts = 12

// writePorts shows the ports that dropped, marked, trimmed or queued packets, the busiest first.
func (r *Report) writePorts(w io.Writer) {
	var busy []*status.Port
	classes := false
	for i := range r.Ports {
		if p := &r.Ports[i]; p.Dropped > 0 || p.Marked > 0 || p.Trimmed > 0 || p.QueueMax > 0 {
			busy = append(busy, p)
		}
	}
	if len(busy) == 0 {
		return
	}
	sort.SliceStable(busy, func(i, j int) bool {
		a, b := busy[i], busy[j]
		if x, y := a.Dropped+a.Marked+a.Trimmed, b.Dropped+b.Marked+b.Trimmed; x != y {
			return x > y
		}
		return a.QueueMax > b.QueueMax
	})
	shown := busy[:min(len(busy), maxPorts)]
	for _, p := range shown {
		classes = classes || len(p.Classes) > 0
	}
	t := &portTable{Writer: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), trims: r.Accounts.Trimmed > 0, classes: classes}
	t.writeHead()
	for _, p := range shown {
		t.writePort(p)
	}
	t.Flush()
	if n := len(busy) - maxPorts; n > 0 {
		fmt.Fprintf(w, "and %d more ports with queues\n", n)
	}
}

// portTable is the table of ports and their classes.
type portTable struct {
	*tabwriter.Writer
	trims, classes bool // whether it has these columns
}

// portRow is a row of the table: a port, or a class of it.
type portRow struct {
	port, class                    string
	sent, marked, trimmed, dropped uint64
	mean                           float64 // of the queue, in bytes
	maximum                        units.Bytes
	limit                          string
}

func (t *portTable) writeHead() {
	fmt.Fprint(t, "port\t")
	if t.classes {
		fmt.Fprint(t, "class\t")
	}
	fmt.Fprint(t, "sent\tmarked\t")
	if t.trims {
		fmt.Fprint(t, "trimmed\t")
	}
	fmt.Fprintln(t, "dropped\tqueue mean\tmax\tlimit")
}

// writePort writes the row of a port, and one for each of its classes that had traffic. A port with
// one such class has one row for both.
func (t *portTable) writePort(p *status.Port) {
	whole := portRow{p.Name, "all", p.TxPackets, p.Marked, p.Trimmed, p.Dropped, p.QueueMean, p.QueueMax, size(float64(p.QueueLimit))}
	var rows []portRow
	for i := range p.Classes {
		c := &p.Classes[i]
		if c.TxPackets+c.Marked+c.Trimmed+c.Dropped == 0 && c.QueueMax == 0 {
			continue
		}
		limit := "-"
		if c.QueueLimit > 0 {
			limit = size(float64(c.QueueLimit))
		}
		rows = append(rows, portRow{p.Name, c.Name, c.TxPackets, c.Marked, c.Trimmed, c.Dropped, c.QueueMean, c.QueueMax, limit})
	}
	switch {
	case len(p.Classes) == 0:
		whole.class = ""
	case len(rows) == 1:
		whole.class, whole.limit = rows[0].class, rows[0].limit
		rows = nil
	default:
		whole.limit = "-" // each class has its own
	}
	t.writeRow(&whole)
	for i := range rows {
		t.writeRow(&rows[i])
	}
}

func (t *portTable) writeRow(x *portRow) {
	fmt.Fprint(t, x.port, "\t")
	if t.classes {
		fmt.Fprint(t, x.class, "\t")
	}
	fmt.Fprint(t, x.sent, "\t", x.marked, "\t")
	if t.trims {
		fmt.Fprint(t, x.trimmed, "\t")
	}
	fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", x.dropped, size(x.mean), size(float64(x.maximum)), x.limit)
}

// sumClasses says how a count is distributed over the classes of all ports: "; by class roce 12,
// bulk 3". It returns "" if no class has any.
func (r *Report) sumClasses(of func(*status.Class) uint64) string {
	sums := map[string]uint64{}
	for i := range r.Ports {
		for j := range r.Ports[i].Classes {
			c := &r.Ports[i].Classes[j]
			if n := of(c); n > 0 {
				sums[c.Name] += n
			}
		}
	}
	if len(sums) == 0 {
		return ""
	}
	return "; by class " + Reasons(sums)
}
