// Package figure draws pictures fit for a paper from plain data: distributions, lines over
// a factor or over flow sizes, series over time, bars with intervals, heat maps, and panels
// of these with one legend. It knows nothing of where the data are from.
//
// A Figure is data: it marshals to JSON, so a file of results can carry its pictures, and
// the same figure gives the same bytes always. Labels, names and titles may raise and lower
// parts as TeX does: "K_{min}", "10^{6}".
package figure

// Widths of figures in inches: those of one column of a paper, one and a half, and two.
const (
	OneColumn     = 3.35 // 85 mm
	ColumnAndHalf = 5.12 // 130 mm
	TwoColumns    = 7.0  // 178 mm
)

// ReadOff says in a legend where a paper's values are from. See Series.Reference.
const ReadOff = "paper: read off a figure"

// Figure is a picture of one panel or several.
type Figure struct {
	Title    string  `json:"title,omitempty"`     // above all; a paper has it in the caption
	Width    float64 `json:"width,omitempty"`     // in inches; 0 is OneColumn
	Height   float64 `json:"height,omitempty"`    // in inches, legend and all; 0 is what suits the width
	FontSize float64 `json:"font_size,omitempty"` // of labels in points, 5 to 20; 0 is 8. Numbers beside axes are 1 less.
	Columns  int     `json:"columns,omitempty"`   // of panels; 0 is as many as have room
	ShareX   bool    `json:"share_x,omitempty"`   // all panels have one range of x, written below the lowest
	ShareY   bool    `json:"share_y,omitempty"`   // all panels have one range of y, written left of the leftmost
	Legend   Legend  `json:"legend,omitempty"`
	Panels   []Panel `json:"panels"` // in rows
}

// Legend is where the names of the series stand: never on the data.
type Legend string

// Legends. Series of one name are one entry. A figure with one entry has no legend.
const (
	Above  Legend = "" // in rows as wide as the figure
	Right  Legend = "right"
	Hidden Legend = "none"
)

// Panel is one pair of axes and what is drawn over it.
type Panel struct {
	Title  string   `json:"title,omitempty"`
	Kind   Kind     `json:"kind"`
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series,omitempty"`
	Steps  Steps    `json:"steps,omitempty"`  // of Time
	Matrix []Values `json:"matrix,omitempty"` // of Heat: a row for each of Y.Names, the lowest first, with a value for each of X.Names
	Z      *Axis    `json:"z,omitempty"`      // of Heat: the values' label, unit, scale and range
}

// Kind is how data are drawn.
type Kind string

// Kinds.
const (
	// CDF is the cumulative distribution of X. Without Y, X are the values themselves, in
	// any order; with Y, X are some values in ascending order and Y the shares (0 to 1) of
	// what is no greater.
	CDF Kind = "cdf"
	// CCDF is the share that is greater; its data are those of CDF.
	CCDF Kind = "ccdf"
	// Lines are statistics over a factor, or over flow sizes (Axis.Scale: Log, Share): a
	// marker at each point, joined by lines, with intervals as error bars.
	Lines Kind = "lines"
	// Points are Lines that are not joined.
	Points Kind = "points"
	// Time is a quantity over time, with intervals as shaded bands.
	Time Kind = "time"
	// Bars stand side by side for each of X.Names, with intervals as error bars. Series
	// have no X: their values belong to the names in order.
	Bars Kind = "bars"
	// Heat is a matrix over X.Names and Y.Names, with a colour bar.
	Heat Kind = "heat"
)

// Steps is what a quantity is between two points.
type Steps string

// Steps.
const (
	Straight Steps = ""       // a line leads from one to the other
	After    Steps = "after"  // what it was at the former
	Before   Steps = "before" // what it is at the latter: a mean of the interval before
)

// Axis is one axis of a panel.
type Axis struct {
	Label string   `json:"label,omitempty"` // what is shown, without its unit
	Unit  Unit     `json:"unit,omitempty"`  // of the values
	Scale Scale    `json:"scale,omitempty"`
	Min   *float64 `json:"min,omitempty"` // where the axis begins; nil is where the data do, or 0
	Max   *float64 `json:"max,omitempty"`
	// Names are categories in place of numbers: the first at 1, the next at 2.
	Names []string `json:"names,omitempty"`
	// Quantiles are, for Share, the values that have equal shares between them, ascending;
	// the last is the greatest. Of 10, the first is the 10th percentile. None are all
	// values of the panel's series.
	Quantiles Values `json:"quantiles,omitempty"`
}

// Unit is what the values of an axis are in. They are shown in the multiple that fits.
// Others than these are shown as they are.
type Unit string

// Units.
const (
	Seconds       Unit = "s"
	Bytes         Unit = "B"
	BitsPerSecond Unit = "b/s"
	Ratio         Unit = "share" // of 1, shown in percent
	Number        Unit = ""
)

// Scale is how values become places.
type Scale string

// Scales.
const (
	Linear Scale = ""
	Log    Scale = "log"
	// Share is, of x, an axis on which equal lengths are equal shares of the flows, as HPCC
	// (SIGCOMM 2019) draws slowdown by flow size: see Axis.Quantiles.
	Share Scale = "share"
)

// Series is what has one name. Its columns have equal lengths. NaN is a gap: a value that
// is not there.
type Series struct {
	Name string `json:"name,omitempty"`
	X    Values `json:"x,omitempty"`
	Y    Values `json:"y,omitempty"`
	Low  Values `json:"low,omitempty"` // with High, an interval around each Y, such as that of 95% confidence
	High Values `json:"high,omitempty"`
	// Reference says where values are from that are not the figure's own, as ReadOff does.
	// They are drawn hollow and dotted, in the style of the series of the same name.
	Reference string `json:"reference,omitempty"`
	Style     Style  `json:"style,omitzero"`
}

// Style chooses how a series looks. Series of one name look alike in all panels, without
// a style by the order in which their names first come.
type Style struct {
	Colour int `json:"colour,omitempty"` // 1 to 8; 0 is by order
	Dash   int `json:"dash,omitempty"`   // 1, a solid line, to 5
	Marker int `json:"marker,omitempty"` // 1 to 8
	Hatch  int `json:"hatch,omitempty"`  // of bars: 1, none, to 8
}

// At gives a pointer to v, for Axis.Min and Max.
func At(v float64) *float64 { return &v }
