package flowtable

import (
	"slices"
	"strings"

	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Kind is the name of a flow table in a lab file.
type Kind string

// The tables, in the order of the paper.
const (
	Queued       Kind = "queued"
	Recent       Kind = "recent"
	Bounded      Kind = "bounded"
	AFD          Kind = "afd"
	ElephantTrap Kind = "elephant-trap"
	BubbleCache  Kind = "bubble-cache"
)

// Names returns the names that a lab file can use.
func (Kind) Names() []string {
	var names []string
	for _, k := range Kinds {
		names = append(names, string(k))
	}
	return names
}

// Kinds lists all tables, the default first.
var Kinds = []Kind{Queued, Recent, Bounded, AFD, ElephantTrap, BubbleCache}

// Keys of the parameters in a lab file.
const (
	KeyKind   = "table"
	KeySize   = "table_size"
	KeyAge    = "table_age"
	KeySample = "table_sample"
)

// Config is a table with its parameters. 0 means the table's default; a parameter that the
// table does not have is 0.
type Config struct {
	Kind Kind
	// Size is the maximum number of flows in the table, known or not yet; for AFD, the number
	// of samples that it counts, which also bounds its flows. A table that samples finds few
	// flows if more than Size of them share the queue equally: none is an elephant. 1 to
	// 65536.
	Size int
	// Age is how long a flow is remembered: in Bounded after its last packet arrived, in
	// BubbleCache after its last sample. Above 0, up to 1 h.
	Age units.Time
	// Sample is the sampling interval in packets; for BubbleCache, the initial one. 1
	// to 65536.
	Sample int
}

// MaxSize is the largest Size, maxSample the largest Sample.
const (
	MaxSize   = 1 << 16
	maxSample = 1 << 16
)

// summaries has one sentence for each table.
var summaries = map[Kind]string{
	Queued:       "the flows that have packets in the queue now (the paper's default)",
	Recent:       "the flows that have packets in the queue, or had one arrive since the last feedback",
	Bounded:      "the flows that had packets arrive recently, up to a maximum number",
	AFD:          "AFD-FT: counts of sampled packets, with random decrements (Pan et al., CCR 2003)",
	ElephantTrap: "ElephantTrap: counts of sampled packets, halved to make room for new flows (Lu et al., HOTI 2007)",
	BubbleCache:  "BubbleCache: counts of packets, sampled as rarely as the table's size requires (Ros-Giralt et al., ISNCC 2018)",
}

// defaults has the parameters of each table, with values that suit a queue of 40 to 400 Gb/s.
//
// The paper only gives the bound of Bounded: Fmax/Fmin, 1000 at 100 Gb/s (§6). A flow at that
// Fmin, 100 Mb/s, sends a full packet every 123 us, so it is remembered for eight of them.
// One packet in 8 is 40 samples in an interval of 40 us at 100 Gb/s, six of them from a flow
// with 15% of the rate.
var defaults = map[Kind]Config{
	Bounded:      {Size: 1000, Age: units.Millisecond},
	AFD:          {Size: 256, Sample: 8},
	ElephantTrap: {Size: 64, Sample: 8},
	BubbleCache:  {Size: 256, Age: units.Millisecond, Sample: 8},
}

// Summary returns one sentence on a table for the documentation.
func (k Kind) Summary() string { return summaries[k] }

// Defaults returns the parameters of a table with their defaults. The others are 0.
func (k Kind) Defaults() Config {
	c := defaults[k]
	c.Kind = k
	return c
}

// Keys returns the keys of the parameters that a table has.
func (k Kind) Keys() []string {
	c, keys := defaults[k], []string(nil)
	if c.Size != 0 {
		keys = append(keys, KeySize)
	}
	if c.Age != 0 {
		keys = append(keys, KeyAge)
	}
	if c.Sample != 0 {
		keys = append(keys, KeySample)
	}
	return keys
}

// WithDefaults replaces parameters that are 0 by their defaults, and an empty Kind by Queued.
func (c Config) WithDefaults() Config {
	if c.Kind == "" {
		c.Kind = Kinds[0]
	}
	d := defaults[c.Kind]
	if c.Size == 0 {
		c.Size = d.Size
	}
	if c.Age == 0 {
		c.Age = d.Age
	}
	if c.Sample == 0 {
		c.Sample = d.Sample
	}
	return c
}

// Validate checks the parameters. The error joins a registry.RangeError for each that is out
// of range, and a registry.UnfitError for each that the table does not have.
func (c Config) Validate() error {
	var check registry.Check
	kind := c.WithDefaults().Kind
	if !slices.Contains(Kinds, kind) {
		check.AddRange(KeyKind, kind, "one of %s", listKinds(Kinds))
		return check.Err()
	}
	has := kind.Keys()
	// fits reports whether there is a value to check.
	fits := func(key string, given bool) bool {
		if given && !slices.Contains(has, key) {
			check.AddUnfit(key, key+" has no effect on table: "+string(kind), "leave it out, or choose "+listKinds(kindsWith(key)))
			return false
		}
		return given
	}
	if fits(KeySize, c.Size != 0) {
		check.CheckNumber(KeySize, c.Size, 1, MaxSize)
	}
	if fits(KeyAge, c.Age != 0) {
		check.CheckTime(KeyAge, c.Age, units.Picosecond)
	}
	if fits(KeySample, c.Sample != 0) {
		check.CheckNumber(KeySample, c.Sample, 1, maxSample)
	}
	return check.Err()
}

// kindsWith returns the tables that have a parameter.
func kindsWith(key string) []Kind {
	var have []Kind
	for _, k := range Kinds {
		if slices.Contains(k.Keys(), key) {
			have = append(have, k)
		}
	}
	return have
}

// listKinds lists tables: "a, b or c".
func listKinds(kinds []Kind) string {
	var b strings.Builder
	for i, k := range kinds {
		switch {
		case i > 0 && i == len(kinds)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(k))
	}
	return b.String()
}
