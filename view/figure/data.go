package figure

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"

	"github.com/weftlab/weft/view/figure/axis"
)

// data is a panel with its data prepared for drawing.
type data struct {
	*Panel
	lines []line
	x, y  ruler
	z     ruler // for Heat
	empty bool  // there are no values
}

// line is a series in the units of its panel's axes.
type line struct {
	name            string
	look            look
	x, y, low, high Values // low and high may be nil
}

// preparePanels prepares the panels, whose data have been checked, for drawing.
func (f *Figure) preparePanels() []*data {
	looks := f.assignLooks()
	var all []*data
	for i := range f.Panels {
		p := &f.Panels[i]
		d := &data{Panel: p, empty: !p.hasData()}
		d.x, d.y = ruler{axis: &p.X, log: p.X.Scale == Log, names: p.X.Names}, ruler{axis: &p.Y, log: p.Y.Scale == Log, names: p.Y.Names}
		if p.X.Scale == Share {
			d.x.quantiles = p.quantilesOfX()
		}
		for k := range p.Series {
			s := &p.Series[k]
			l := d.prepareLine(s)
			l.name, l.look = s.Name, looks[s.Name]
			l.look.reference = s.Reference != ""
			d.lines = append(d.lines, l)
		}
		all = append(all, d)
	}
	f.setRanges(all)
	setTimeLooks(all)
	return all
}

// assignLooks assigns a look to each name, in order of first appearance. If several series with
// a name have styles, the first counts.
func (f *Figure) assignLooks() map[string]look {
	styles, order := map[string]Style{}, []string(nil)
	for i := range f.Panels {
		for _, s := range f.Panels[i].Series {
			if !slices.Contains(order, s.Name) {
				order = append(order, s.Name)
			}
			if styles[s.Name] == (Style{}) {
				styles[s.Name] = s.Style
			}
		}
	}
	looks := map[string]look{}
	for i, name := range order {
		l := newLook(i, styles[name], vg.Length(f.fontSize()/defaultSize))
		l.alone = len(order) == 1
		looks[name] = l
	}
	return looks
}

// quantilesOfX returns the quantiles of x, or all values of the series.
func (p *Panel) quantilesOfX() Values {
	if p.X.Quantiles != nil {
		return p.X.Quantiles
	}
	var all Values
	for _, s := range p.Series {
		all = append(all, s.X...)
	}
	all = slices.DeleteFunc(all, math.IsNaN)
	slices.Sort(all)
	return slices.Compact(all)
}

func (d *data) prepareLine(s *Series) line {
	l := line{x: s.X, y: s.Y, low: s.Low, high: s.High}
	switch d.Kind {
	case CDF, CCDF:
		if s.Y == nil {
			l.x, l.y = stairCorners(s.X)
		}
		if d.Kind == CCDF {
			l.y, l.low, l.high = complementShares(l.y), complementShares(l.high), complementShares(l.low)
		}
	case Bars:
		l.x = nil
		for i := range s.Y {
			l.x = append(l.x, float64(i+1))
		}
	}
	if d.x.quantiles != nil {
		l.x = placesAmong(l.x, d.x.quantiles)
	}
	return l
}

// stairCorners returns the corners of the distribution of values.
func stairCorners(values Values) (x, y Values) {
	below := 0.0
	xs, ys := Distribution(values, max(len(values), 2))
	for i := range xs {
		x, y = append(x, xs[i], xs[i]), append(y, below, ys[i])
		below = ys[i]
	}
	return x, y
}

func complementShares(shares Values) (c Values) {
	for _, v := range shares {
		c = append(c, max(1-v, 0))
	}
	return c
}

// placesAmong returns the positions of values among quantiles: n for the n-th, with linear
// interpolation between two. If several quantiles are equal, as when many flows have one
// size, each repetition of a value takes the next of them.
func placesAmong(values, quantiles Values) (places Values) {
	seen := map[float64]int{}
	for _, v := range values {
		i, found := slices.BinarySearch(quantiles, v)
		switch {
		case math.IsNaN(v):
			places = append(places, v)
		case found:
			last := i
			for last+1 < len(quantiles) && quantiles[last+1] == v {
				last++
			}
			places = append(places, float64(min(i+seen[v], last)+1))
			seen[v]++
		case i == 0:
			places = append(places, max(0, v/quantiles[0]))
		case i == len(quantiles):
			places = append(places, float64(i))
		default:
			places = append(places, float64(i)+(v-quantiles[i-1])/(quantiles[i]-quantiles[i-1]))
		}
	}
	return places
}

// extent is the range of some values. It starts out empty.
type extent struct{ low, high float64 }

var nothing = extent{math.Inf(1), math.Inf(-1)}

func (e *extent) addValues(values Values, log bool) {
	for _, v := range values {
		if !math.IsNaN(v) && (!log || v > 0) {
			e.low, e.high = min(e.low, v), max(e.high, v)
		}
	}
}

// setRanges finds where axes begin and end, with one range for all panels that share it.
func (f *Figure) setRanges(all []*data) {
	xs, ys, sharedX, sharedY := make([]extent, len(all)), make([]extent, len(all)), nothing, nothing
	for i, d := range all {
		xs[i], ys[i] = nothing, nothing
		for _, l := range d.lines {
			xs[i].addValues(d.drawnX(&l), d.x.log)
			ys[i].addValues(l.y, d.y.log)
		}
		ys[i] = d.withIntervals(ys[i])
		sharedX.addValues(Values{xs[i].low, xs[i].high}, false)
		sharedY.addValues(Values{ys[i].low, ys[i].high}, false)
	}
	for i, d := range all {
		x, y := xs[i], ys[i]
		if f.ShareX {
			x = sharedX
		}
		if f.ShareY {
			y = sharedY
		}
		d.setX(x)
		d.setY(y)
		if d.Kind == Heat {
			d.setZ()
		}
	}
}

// withIntervals returns the extent of values together with their intervals. Where no value is
// below 0, an interval does not bring the axis below 0: it is cut there. An interval does not
// make a logarithmic axis longer by more than a decade at its lower end.
func (d *data) withIntervals(values extent) extent {
	all := values
	for _, l := range d.lines {
		for _, v := range l.low {
			switch {
			case math.IsNaN(v):
				continue
			case d.y.log:
				v = max(v, values.low/10)
			case values.low >= 0:
				v = max(v, 0)
			}
			all.addValues(Values{v}, d.y.log)
		}
		all.addValues(l.high, d.y.log)
	}
	return all
}

// drawnX returns the x of the points of a line that can be shown: a CCDF ends at 0, which a
// logarithmic axis cannot show.
func (d *data) drawnX(l *line) Values {
	if d.Kind != CCDF || !d.y.log {
		return l.x
	}
	n := len(l.y)
	for n > 1 && l.y[n-1] <= 0 {
		n--
	}
	return l.x[:n]
}

func (d *data) setX(e extent) {
	r := &d.x
	switch {
	case r.names != nil:
		r.low, r.high = 0.5, float64(len(r.names))+0.5
	case r.quantiles != nil:
		r.low, r.high = 0, float64(max(len(r.quantiles), 1))
	case r.log && (d.Kind == Lines || d.Kind == Points):
		r.setLog(e)
		r.tightenRange(e)
	case r.log:
		r.setLog(e)
	case (d.Kind == CDF || d.Kind == CCDF) && e.low >= 0 && e.low < e.high/2:
		r.setLinear(extent{0, e.high}, 0, 0)
		r.roundEnds()
	case d.Kind == Lines || d.Kind == Points:
		r.setLinear(e, 0.04, 0.04)
	default:
		r.setLinear(e, 0, 0)
		r.roundEnds()
	}
}

func (d *data) setY(e extent) {
	r := &d.y
	distribution := d.Kind == CDF || d.Kind == CCDF
	switch {
	case r.names != nil:
		r.low, r.high = 0.5, float64(len(r.names))+0.5
	case r.log && distribution:
		r.setLog(extent{min(e.low, 1), 1})
	case r.log:
		r.setLog(e)
	case distribution:
		r.setLinear(extent{0, 1}, 0, 0)
	default:
		// If no value is below 0, the axis begins at 0; it has some room above.
		below, above := 0.0, 0.0
		if e.low < 0 {
			below = 0.06
		}
		if e.high > 0 {
			above = 0.06
		}
		r.setLinear(extent{min(e.low, 0), max(e.high, 0)}, below, above)
	}
}

func (d *data) setZ() {
	a := d.Z
	if a == nil {
		a = &Axis{}
	}
	d.z = ruler{axis: a, log: a.Scale == Log}
	e := nothing
	for _, row := range d.Matrix {
		e.addValues(row, d.z.log)
	}
	if d.z.log {
		d.z.setLog(e)
		return
	}
	if e.low > 0 && e.low < e.high/2 {
		e.low = 0
	}
	d.z.setLinear(e, 0, 0)
}

// setLinear sets a range with room beyond the values, as shares of their range.
func (r *ruler) setLinear(e extent, below, above float64) {
	if e.low > e.high {
		e = extent{0, 1}
	}
	if e.low == e.high {
		// A single value is in the middle, or at the edge if the axis begins at 0.
		around := max(math.Abs(e.low)/2, 1e-9)
		if e.low == 0 {
			around = 1
		}
		e = extent{e.low - around, e.high + around}
		if e.low == -1 {
			e.low = 0
		}
	}
	// Computed in halves, as the span of the largest numbers is infinite.
	span := e.high/2 - e.low/2
	r.low, r.high = e.low-2*below*span, e.high+2*above*span
	r.setEnds()
	if !(r.low < r.high) {
		// Min or Max exclude all of the data.
		if r.axis.Min != nil {
			r.high = r.low + max(math.Abs(r.low), 1)
		} else {
			r.low = r.high - max(math.Abs(r.high), 1)
		}
	}
}

func (r *ruler) setLog(e extent) {
	if e.low > e.high {
		e = extent{1, 10}
	}
	r.low, r.high = axis.LogRange(e.low, e.high)
	r.setEnds()
	if !(r.low < r.high) {
		if r.axis.Min != nil {
			r.high = r.low * 10
		} else {
			r.low = r.high / 10
		}
	}
}

// tightenRange ends a long logarithmic axis near the outermost values, not at a round value.
func (r *ruler) tightenRange(e extent) {
	if e.low > e.high || e.high < 5*e.low {
		return
	}
	room := math.Pow(e.high/e.low, 0.04)
	r.low, r.high = e.low/room, e.high*room
	r.setEnds()
}

// roundEnds ends a linear axis at a round value if one is near.
func (r *ruler) roundEnds() {
	ticks := axis.Even(0, r.high-r.low, 6)
	if len(ticks) < 2 || math.IsInf(r.high-r.low, 0) {
		return
	}
	step, near := ticks[1].Value, 0.05*(r.high-r.low)
	if low := math.Floor(r.low/step) * step; r.low-low < near {
		r.low = low
	}
	if high := math.Ceil(r.high/step) * step; high-r.high < near {
		r.high = high
	}
	r.setEnds()
}

func (r *ruler) setEnds() {
	if r.axis.Min != nil {
		r.low = *r.axis.Min
	}
	if r.axis.Max != nil {
		r.high = *r.axis.Max
	}
}
