// Package figure draws pictures for papers from plain data: distributions, lines over a
// factor or over flow sizes, series over time, bars with intervals, heat maps, and panels
// of these with one legend. It does not depend on the source of the data.
//
// A Figure is data: it marshals to JSON, so a file of results can contain its pictures, and
// the same figure always gives the same bytes. Labels, names and titles may contain
// superscripts and subscripts in TeX notation: "K_{min}", "10^{6}".
package figure

// Widths of figures in inches: one column of a paper, one and a half, and two.
const (
	OneColumn     = 3.35 // 85 mm
	ColumnAndHalf = 5.12 // 130 mm
	TwoColumns    = 7.0  // 178 mm
)

// ReadOff says in a legend that a paper's values were read off. See Series.Reference.
const ReadOff = "paper: read off a figure"

// Figure is a picture with one or more panels.
type Figure struct {
	Title    string  `json:"title,omitempty"`     // above the figure; papers have it in the caption
	Width    float64 `json:"width,omitempty"`     // in inches; 0 means OneColumn
	Height   float64 `json:"height,omitempty"`    // in inches, with legend; 0 means to suit the width
	FontSize float64 `json:"font_size,omitempty"` // of labels in points, 5 to 20; 0 means 8. Numbers on axes are 1 less.
	DPI      int     `json:"dpi,omitempty"`       // resolution of PNG, 50 to 1200 dots per inch; 0 means 300
	Columns  int     `json:"columns,omitempty"`   // of panels; 0 means as many as fit
	ShareX   bool    `json:"share_x,omitempty"`   // all panels share one range of x, labelled at the bottom
	ShareY   bool    `json:"share_y,omitempty"`   // all panels share one range of y, labelled at the left
	Legend   Legend  `json:"legend,omitempty"`
	Names    string  `json:"names,omitempty"` // what the names of the series are, for the legend: "system", "load"
	Panels   []Panel `json:"panels"`          // row by row
}

// Legend is where the names of the series are shown: never on the data.
type Legend string

// Legends. Series with the same name are one entry. A figure with one entry has no legend.
const (
	Above  Legend = "" // in rows across the figure
	Right  Legend = "right"
	Hidden Legend = "none"
)

// Panel is one pair of axes and the data drawn over it.
type Panel struct {
	Title  string   `json:"title,omitempty"`
	Kind   Kind     `json:"kind"`
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series,omitempty"`
	Steps  Steps    `json:"steps,omitempty"`  // for Time, and for CDF and CCDF with Y
	Marks  []Mark   `json:"marks,omitempty"`  // vertical lines, for kinds with numbers along x
	Matrix []Values `json:"matrix,omitempty"` // for Heat: a row for each of Y.Names, lowest first, with a value for each of X.Names
	Z      *Axis    `json:"z,omitempty"`      // for Heat: the values' label, unit, scale and range
}

// Kind is how data are drawn.
type Kind string

// Kinds.
const (
	// CDF is the cumulative distribution of X. Without Y, X holds the values themselves, in
	// any order; with Y, X holds some values in ascending order, and Y the share (0 to 1)
	// of values that are no greater.
	CDF Kind = "cdf"
	// CCDF is the share of values that are greater; its data are those of CDF.
	CCDF Kind = "ccdf"
	// Lines are statistics over a factor, or over flow sizes (Axis.Scale: Log, Share): a
	// marker at each point, connected by lines, with intervals as error bars.
	Lines Kind = "lines"
	// Points are Lines that are not connected.
	Points Kind = "points"
	// Time is a quantity over time, with intervals as shaded bands.
	Time Kind = "time"
	// Bars are drawn side by side for each of X.Names, with intervals as error bars. Series
	// have no X: their values belong to the names in order.
	Bars Kind = "bars"
	// Heat is a matrix over X.Names and Y.Names, with a colour bar.
	Heat Kind = "heat"
)

// Steps says how a quantity behaves between two points.
type Steps string

// Steps.
const (
	Straight Steps = ""       // linear between them
	After    Steps = "after"  // the value of the first
	Before   Steps = "before" // the value of the second: a mean over the interval before it
)

// Mark is a value of x, such as an instant, that a vertical line shows.
type Mark struct {
	X    float64 `json:"x"`              // in the unit of the axis; outside of its range nothing is drawn
	Name string  `json:"name,omitempty"` // written along the line, if there is room
	Bad  bool    `json:"bad,omitempty"`  // in red: something was lost
}

// Axis is one axis of a panel.
type Axis struct {
	Label string   `json:"label,omitempty"` // without the unit
	Unit  Unit     `json:"unit,omitempty"`  // of the values
	Scale Scale    `json:"scale,omitempty"`
	Min   *float64 `json:"min,omitempty"` // start of the axis; nil means that of the data, or 0
	Max   *float64 `json:"max,omitempty"`
	// Names are categories instead of numbers: the first is at 1, the next at 2.
	Names []string `json:"names,omitempty"`
	// Quantiles are used with Share: ascending values with equal shares between them, the
	// last of which is the maximum. With 10 of them, the first is the 10th percentile. If
	// nil, all values of the panel's series are used.
	Quantiles Values `json:"quantiles,omitempty"`
}

// Unit is the unit of an axis's values. They are shown in a suitable multiple. Units other
// than those below are shown unchanged.
type Unit string

// Units.
const (
	Seconds       Unit = "s"
	Bytes         Unit = "B"
	BitsPerSecond Unit = "b/s"
	Ratio         Unit = "share" // relative to 1, shown in percent
	Number        Unit = ""
)

// Scale maps values to positions.
type Scale string

// Scales.
const (
	Linear Scale = ""
	Log    Scale = "log"
	// Share is for x: equal lengths on the axis are equal shares of the flows, as HPCC
	// (SIGCOMM 2019) draws slowdown by flow size: see Axis.Quantiles.
	Share Scale = "share"
)

// Series is data with one name. Its columns have equal lengths. NaN is a gap: a missing
// value.
type Series struct {
	Name string `json:"name,omitempty"`
	X    Values `json:"x,omitempty"`
	Y    Values `json:"y,omitempty"`
	Low  Values `json:"low,omitempty"` // with High, an interval around each Y, such as 95% confidence
	High Values `json:"high,omitempty"`
	// Reference says where values come from that are not the figure's own, for example
	// ReadOff. They are drawn hollow and dotted, in the style of the series with the same
	// name.
	Reference string `json:"reference,omitempty"`
	Style     Style  `json:"style,omitzero"`
}

// Style is how a series looks. Series with the same name look alike in all panels; without
// a style, looks are assigned in order of first appearance.
type Style struct {
	Colour int `json:"colour,omitempty"` // 1 to 8; 0 means by order
	Dash   int `json:"dash,omitempty"`   // 1, a solid line, to 5
	Marker int `json:"marker,omitempty"` // 1 to 8
	Hatch  int `json:"hatch,omitempty"`  // of bars: 1, none, to 8
}

// At returns a pointer to v, for Axis.Min and Max.
func At(v float64) *float64 { return &v }
