package top

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/weftlab/weft/links"
)

// column is one column of the view: a number or a text of each row.
type column struct {
	title  string
	width  int // in cells, without the gap
	value  func(*row) float64
	format func(float64) string // of a value, in at most width cells
	text   func(*row) string    // of columns without values
	now    func(*row) bool      // whether the value gets a star: true at this moment
}

// The columns from left to right. As many are shown as fit: in 80 cells the
// first eleven.
var columns = []column{
	{title: "PORT", value: func(r *row) float64 { return float64(r.place) }, text: func(r *row) string { return r.portName() }},
	{title: "IN Mb/s", width: 7, value: func(r *row) float64 { return r.in / 1e6 }, format: formatRate},
	{title: "OUT Mb/s", width: 8, value: func(r *row) float64 { return r.out / 1e6 }, format: formatRate},
	{title: "USE%", width: 4, value: func(r *row) float64 { return 100 * r.outUse }, format: formatPercent},
	{title: "QUEUE", width: 5, value: func(r *row) float64 { return r.queue }, format: formatAmount},
	{title: "MAX", width: 4, value: func(r *row) float64 { return r.maxQueue }, format: formatAmount},
	{title: "DROP/s", width: 6, value: func(r *row) float64 { return r.drops }, format: formatAmount},
	{title: "MARK/s", width: 6, value: func(r *row) float64 { return r.marks }, format: formatAmount},
	{title: "TRIM/s", width: 6, value: func(r *row) float64 { return r.trims }, format: formatAmount},
	{title: "PAUSED", width: 6, value: func(r *row) float64 { return 100 * r.paused }, format: formatPercent, now: func(r *row) bool { return r.pausedNow }},
	{title: "PAUSES", width: 6, value: func(r *row) float64 { return 100 * r.pausing }, format: formatPercent, now: func(r *row) bool { return r.pausingNow }},

	{title: "IN%", width: 4, value: func(r *row) float64 { return 100 * r.inUse }, format: formatPercent},
	{title: "LINK Mb/s", width: 9, value: func(r *row) float64 { return r.linkRate() / 1e6 }, format: formatRate},
	{title: "LIMIT", width: 5, value: func(r *row) float64 { return r.limit }, format: formatAmount},
	{title: "IN pkt/s", width: 8, value: func(r *row) float64 { return r.inPackets }, format: formatAmount},
	{title: "OUT pkt/s", width: 9, value: func(r *row) float64 { return r.outPackets }, format: formatAmount},
	{title: "PAUSE in/s", width: 10, value: func(r *row) float64 { return r.pausesIn }, format: formatAmount},
	{title: "PAUSE out/s", width: 11, value: func(r *row) float64 { return r.pausesOut }, format: formatAmount},
	{title: "XOFF in/s", width: 9, value: func(r *row) float64 { return r.xoffIn }, format: formatAmount},
	{title: "XOFF out/s", width: 10, value: func(r *row) float64 { return r.xoffOut }, format: formatAmount},
	{title: "CNP/s", width: 5, value: func(r *row) float64 { return r.cnps }, format: formatAmount},
	{title: "RETX/s", width: 6, value: func(r *row) float64 { return r.again }, format: formatAmount},
	{title: "DROPPED", width: 7, value: func(r *row) float64 { return r.dropped }, format: formatAmount},
	{title: "REASON", width: 13, text: func(r *row) string { return r.reason }},
	{title: "PEER", width: 14, text: func(r *row) string { return r.peerName() }},
}

// essential is the width in cells of the second to the eleventh column, with
// the gaps between them.
const essential = 68

// outColumn is the column by which the view is sorted at first.
const outColumn = 2

func (r *row) portName() string {
	if r.class != "" {
		return "  " + r.class
	}
	return r.port.Name
}

func (r *row) peerName() string {
	if r.class != "" {
		return ""
	}
	return r.port.Peer
}

func (r *row) linkRate() float64 {
	if r.class != "" || r.port.Link == nil || r.port.Link.Rate == 0 {
		return none
	}
	return float64(r.port.Link.Rate)
}

// isDown reports whether the cell shows that the row's link is down.
func (c *column) isDown(r *row) bool {
	return c.title == "USE%" && r.class == "" && r.port.Link != nil && r.port.Link.State == links.Down
}

// cellText returns the text of a row in a column.
func (c *column) cellText(r *row) string {
	switch {
	case c.text != nil:
		return c.text(r)
	case c.isDown(r):
		return "down"
	}
	v := c.value(r)
	switch {
	case c.now != nil && c.now(r):
		if math.IsNaN(v) {
			return "*" // there is no share yet
		}
		return c.format(v) + "*"
	case math.IsNaN(v):
		return "-"
	}
	return c.format(v)
}

// compareRows orders two rows by a column: numbers from the largest, texts and
// places in the plan from the first. Rows without a value come last in either direction.
func (c *column) compareRows(a, b *row, reverse bool) int {
	sign := 1
	if reverse {
		sign = -1
	}
	if c.value == nil {
		x, y := c.text(a), c.text(b)
		if (x == "") != (y == "") {
			return cmp.Compare(len(y), len(x))
		}
		return sign * strings.Compare(x, y)
	}
	x, y := c.value(a), c.value(b)
	if nx, ny := math.IsNaN(x), math.IsNaN(y); nx || ny {
		return numberOfBool(nx) - numberOfBool(ny)
	}
	if c.text != nil {
		return sign * cmp.Compare(x, y)
	}
	return sign * cmp.Compare(y, x)
}

func numberOfBool(b bool) int {
	if b {
		return 1
	}
	return 0
}

// formatRate formats Mb/s.
func formatRate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 999.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// formatPercent formats a percentage in at most four cells.
func formatPercent(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return "<0.1"
	case v < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(min(v, 9999), 'f', 0, 64)
}

// formatAmount formats a number in at most four cells: 0.2, 950, 9.4K, 12M.
func formatAmount(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return "<0.1"
	case v < 9.95 && v != math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	for _, prefix := range []string{"K", "M", "G", "T", "P"} {
		v /= 1000
		if v < 9.95 {
			return strconv.FormatFloat(v, 'f', 1, 64) + prefix
		}
		if v < 999.5 {
			return strconv.FormatFloat(v, 'f', 0, 64) + prefix
		}
	}
	return ">1E"
}
