package congestion

import (
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Points has the congestion points that a lab file can name. Packages register their
// points in an init function; the points of this package are registered below.
var Points = registry.New[Kind]("congestion point")

// Kind is a kind of congestion point that a lab file can name.
type Kind struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Presets has the names of known sets of parameters, the default first; nil if there
	// is only one set.
	Presets []string
	// Settings returns the parameters of a preset, "" without presets, for a queue of a
	// link with a rate; 0 means unlimited. Keys that must be in the file have no omitempty
	// in their yaml tag.
	Settings func(preset string, rate units.Rate) Settings
	// Gauges describes the values of Point.AppendGauges.
	Gauges []gauge.Gauge
	// ByRate means that the parameters of a preset depend on the rate of the link, so
	// other parameters can only be validated against them if the rate is known.
	ByRate bool
	// AtHosts means that the point may be at a host's egress queue.
	AtHosts bool
	// NotFair is why the point cannot judge a class with order: fair; "" if it can.
	NotFair string
	// NotRouted is why the point cannot be at a router; "" if it can.
	NotRouted string
}

// Settings holds the parameters of a point: a pointer to a struct whose fields have yaml,
// json and jsonschema_description tags.
type Settings interface {
	// Validate checks the parameters for a queue of at most limit bytes; 0 means no bound.
	// The error joins a registry.RangeError for each invalid one.
	Validate(limit units.Bytes) error
	// New returns the point of a queue. The settings have passed Validate, no longer
	// change, and are shared by their queues.
	New(env Env) Point
}

// MarksFrom is implemented by settings of points that mark above a certain queue length.
type MarksFrom interface{ MarksFrom() units.Bytes }

// registerPoint registers a point of this package with one set of parameters.
func registerPoint[S Settings](name, summary string, defaults func() S, k Kind) {
	k.Summary = summary
	k.Settings = func(string, units.Rate) Settings { return defaults() }
	Points.Register(name, k)
}

func init() {
	registerPoint("step", "marks every packet that meets a queue longer than k (DCTCP: Alizadeh et al., SIGCOMM 2010)", func() *Step { return &Step{} }, Kind{})
	registerPoint("red", "marks with a probability that grows with the queue (RED: Floyd and Jacobson 1993)", func() *RED { return &RED{} }, Kind{})
	registerPoint("pi", "marks to keep the queue at a target length: a proportional-integral controller (Hollot et al., INFOCOM 2001)", defaultPI, Kind{
		Gauges: []gauge.Gauge{{Name: "mark_probability", Unit: gauge.Share, Help: "current probability of a mark", Brief: true}},
	})
	registerPoint("codel", "marks packets that have waited too long (CoDel, RFC 8289)", defaultCoDel, Kind{
		Gauges: []gauge.Gauge{
			{Name: "dropping", Unit: gauge.YesNo, Help: "whether packets have waited too long for an interval"},
			{Name: "count", Help: "marks and drops since then", Brief: true},
		},
		// The short waits of sparse flows would make the queue look empty (RFC 8290 §4.1
		// has one CoDel for each flow).
		NotFair: "CoDel judges a class as one queue",
	})
}

// checkReachable records an error for a length that a queue of at most limit bytes never reaches.
func checkReachable(c *registry.Check, key string, length, limit units.Bytes) {
	if limit > 0 && length >= limit {
		c.AddRange(key, length, "less than %v, as the queue never grows beyond that", limit)
	}
}

// Validate implements Settings.
func (s *Step) Validate(limit units.Bytes) error {
	var c registry.Check
	checkReachable(&c, "k", s.K, limit)
	return c.Err()
}

// Validate implements Settings.
func (r *RED) Validate(limit units.Bytes) error {
	var c registry.Check
	checkReachable(&c, "kmin", r.KMin, limit)
	if r.KMin > r.KMax {
		c.AddRange("kmin", r.KMin, "at most kmax, %v: packets are marked from kmin on, and all of them above kmax", r.KMax)
	}
	c.CheckShare("pmax", r.PMax, 0, 1)
	return c.Err()
}

// minPeriod is the shortest period of a controller.
const minPeriod = units.Microsecond

// Validate implements Settings.
func (p *PI) Validate(limit units.Bytes) error {
	var c registry.Check
	checkReachable(&c, "target", p.Target, limit)
	if p.Target <= 0 {
		c.AddRange("target", p.Target, "the target length of the queue, such as 50KB")
	}
	if p.Alpha <= 0 {
		c.AddRange("alpha", p.Alpha, "a gain above 0, such as 0.2%%")
	}
	if p.Every < minPeriod {
		c.AddRange("every", p.Every, "%v or more, about the round-trip time or less", minPeriod)
	}
	return c.Err()
}

// Validate implements Settings.
func (c *CoDel) Validate(units.Bytes) error {
	var check registry.Check
	if c.Target <= 0 || c.Target >= c.Interval {
		check.AddRange("target", c.Target, "a time above 0 and below interval, %v, such as 5%% of it (RFC 8289 §4.3)", c.Interval)
	}
	return check.Err()
}

// MarksFrom implements the interface of that name.
func (s *Step) MarksFrom() units.Bytes { return s.K }

// MarksFrom implements the interface of that name.
func (r *RED) MarksFrom() units.Bytes { return r.KMin }

// New implements Settings.
func (s *Step) New(Env) Point { return pointFor(&step{Step: *s}, s.AtDequeue) }

// New implements Settings.
func (r *RED) New(env Env) Point {
	return pointFor(&red{RED: *r, rand: env.Rand}, r.AtDequeue)
}

// New implements Settings.
func (p *PI) New(env Env) Point { return &pi{PI: *p, rand: env.Rand} }

// New implements Settings.
func (c *CoDel) New(Env) Point { return &codel{CoDel: *c, longest: ethernetFrame} }

// defaultPI returns the gains of RFC 8033 §4.2 and §5.2, 0.125 and 1.25 per second of
// delay, at its target of 15 ms. The period is a hundredth of its 15 ms, which are for
// round trips of up to 100 ms; this is for up to 1 ms.
func defaultPI() *PI {
	return &PI{Alpha: 0.125 * 0.015, Beta: 1.25 * 0.015, Every: 150 * units.Microsecond}
}

// defaultCoDel returns the values of RFC 8289 §4.2 and §4.3, which are for the Internet,
// with drops for packets without ECN, as in a queue manager that does not rely on ECN.
func defaultCoDel() *CoDel {
	return &CoDel{Target: 5 * units.Millisecond, Interval: 100 * units.Millisecond, NotECT: DropNotECT}
}
