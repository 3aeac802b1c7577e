package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// Experiment is a checked experiment file: what varies, what is measured, what it is
// compared with and what must hold.
type Experiment struct {
	Name, Title string
	File        string // as it was given
	Text        []byte // of the file
	Lab         string // name of the lab file
	LabText     []byte
	Quick       bool    // the file's quick form
	Clocks      []Clock // of its cells, each once
	Real        *Real   // of cells in wall-clock time; nil if there are none

	Factors []Factor
	Zip     bool // the factors vary together, not each with each
	Seeds   []uint64
	Cells   []Cell
	Record  Recording

	Measures []Measure
	Plots    []Plot
	Paper    []PaperValue
	Expect   []Expectation

	Timeout time.Duration // real time that a cell may take; 0 is no limit
	Memory  units.Bytes   // that a cell may take; 0 is no limit
}

// Clock is the clock that an experiment runs by.
type Clock string

// The clocks.
const (
	Virtual Clock = "virtual"
	Wall    Clock = "wall"
)

// HasClock tells whether it has cells with a clock.
func (e *Experiment) HasClock(c Clock) bool { return slices.Contains(e.Clocks, c) }

// Factor is something that varies.
type Factor struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// Level finds a level by its name; -1 for none.
func (f *Factor) Level(name string) int {
	for i, l := range f.Levels {
		if l == name {
			return i
		}
	}
	return -1
}

// Factor finds a factor by its name; -1 for none.
func (e *Experiment) Factor(name string) int {
	for i := range e.Factors {
		if e.Factors[i].Name == name {
			return i
		}
	}
	return -1
}

// Measure finds a measure by its name; nil for none.
func (e *Experiment) Measure(name string) *Measure {
	for i := range e.Measures {
		if e.Measures[i].Name == name {
			return &e.Measures[i]
		}
	}
	return nil
}

// Cell is one run: a level of each factor, and a seed.
type Cell struct {
	Levels []int // by factor
	Seed   uint64
	Clock  Clock
	Lab    []byte // the lab file with its patches, as one text
}

// Recording is what a run writes down in addition to its records and counters.
type Recording struct {
	Every  units.Time `json:"every,omitempty"`  // between two samples
	Queues []string   `json:"queues,omitempty"` // ports that are sampled, as patterns
	Flows  []string   `json:"flows,omitempty"`  // queue pairs that are sampled, as patterns
}

// Combinations gives the levels of all factors that are run, in the order of the file:
// each with each, or the first of all, the second of all and so on.
func Combinations(factors []Factor, zip bool) (all [][]int) {
	if zip && len(factors) > 0 {
		for i := range factors[0].Levels {
			levels := make([]int, len(factors))
			for f := range levels {
				levels[f] = i
			}
			all = append(all, levels)
		}
		return all
	}
	all = [][]int{{}}
	for _, f := range factors {
		var more [][]int
		for _, levels := range all {
			for i := range f.Levels {
				more = append(more, append(append([]int{}, levels...), i))
			}
		}
		all = more
	}
	return all
}

// Describe names levels of factors: "system=hpcc load=50%".
func Describe(factors []Factor, levels []int) string {
	var words []string
	for i, l := range levels {
		words = append(words, factors[i].Name+"="+factors[i].Levels[l])
	}
	return strings.Join(words, " ")
}

// Describe names a cell.
func (e *Experiment) Describe(c *Cell) string {
	return strings.TrimSpace(fmt.Sprintf("%s seed=%d", Describe(e.Factors, c.Levels), c.Seed))
}
