package series

import "github.com/weftlab/weft/sim/units"

// Point is a value at an instant.
type Point struct {
	At    units.Time
	Value float64
}

// Envelope thins out points for a picture: in each column of pixels it keeps
// the first, the lowest, the highest and the last. A line through these looks
// like one through all (Jugel et al., "M4", VLDB 2014, §4), so no peak is lost.
type Envelope struct {
	from, to units.Time
	columns  int
	points   []Point // of the columns before
	column   int
	n        int // points in the column
	first    Point
	min      Point
	max      Point
	last     Point
}

// NewEnvelope makes an envelope for a picture with the given number of columns between
// two instants.
func NewEnvelope(from, to units.Time, columns int) *Envelope {
	return &Envelope{from: from, to: max(to, from+1), columns: columns}
}

// AddPoint adds a point, which must not be earlier than the previous one.
func (e *Envelope) AddPoint(p Point) {
	column := int(float64(e.columns) * float64(p.At-e.from) / float64(e.to-e.from))
	if e.n > 0 && column != e.column {
		e.closeColumn()
	}
	if e.n == 0 {
		e.column, e.first, e.min, e.max = column, p, p, p
	}
	if p.Value < e.min.Value {
		e.min = p
	}
	if p.Value > e.max.Value {
		e.max = p
	}
	e.last = p
	e.n++
}

// closeColumn ends a column.
func (e *Envelope) closeColumn() {
	low, high := e.min, e.max
	if low.At > high.At {
		low, high = high, low
	}
	for _, p := range []Point{e.first, low, high, e.last} {
		if n := len(e.points); n == 0 || e.points[n-1] != p {
			e.points = append(e.points, p)
		}
	}
	e.n = 0
}

// IsEmpty reports whether no point was added.
func (e *Envelope) IsEmpty() bool { return e.n == 0 && len(e.points) == 0 }

// Points returns the points that are kept, at most four a column, in order of time.
func (e *Envelope) Points() []Point {
	if e.n > 0 {
		e.closeColumn()
	}
	return e.points
}
