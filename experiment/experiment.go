package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// Experiment is a checked experiment file: what varies, what is measured, what it is
// compared with, and what must hold.
type Experiment struct {
	Name, Title string
	File        string // as given
	Text        []byte // text of the file
	Lab         string // name of the lab file
	LabText     []byte
	Warnings    []string // of the file's reader, each with its place
	Quick       bool     // whether this is the file's quick form
	Clocks      []Clock  // of its cells, without duplicates
	Real        *Real    // of cells in wall-clock time; nil if there are none

	Factors []Factor
	Zip     bool // the factors vary together, not independently
	Seeds   []uint64
	Cells   []Cell
	Record  Recording

	Measures []Measure
	Plots    []Plot
	Paper    []PaperValue
	Expect   []Expectation

	Timeout time.Duration // real time that a cell may take; 0 means no limit
	Memory  units.Bytes   // memory that a cell may take; 0 means no limit
}

// Clock is the clock of an experiment.
type Clock string

// The clocks.
const (
	Virtual Clock = "virtual"
	Wall    Clock = "wall"
)

// HasClock reports whether the experiment has cells with this clock.
func (e *Experiment) HasClock(c Clock) bool { return slices.Contains(e.Clocks, c) }

// Factor is a quantity that varies.
type Factor struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// LevelIndex returns the index of a level; -1 if there is none.
func (f *Factor) LevelIndex(name string) int {
	for i, l := range f.Levels {
		if l == name {
			return i
		}
	}
	return -1
}

// FactorIndex returns the index of a factor; -1 if there is none.
func (e *Experiment) FactorIndex(name string) int {
	for i := range e.Factors {
		if e.Factors[i].Name == name {
			return i
		}
	}
	return -1
}

// FindMeasure returns a measure by its name; nil if there is none.
func (e *Experiment) FindMeasure(name string) *Measure {
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

// Recording is what a run records in addition to its records and counters.
type Recording struct {
	Every  units.Time `json:"every,omitempty"`  // between two samples
	Queues []string   `json:"queues,omitempty"` // ports that are sampled, as patterns
	Flows  []string   `json:"flows,omitempty"`  // queue pairs that are sampled, as patterns
}

// CombineLevels returns the combinations of levels to run, in the order of the file:
// all combinations or, with zip, the first level of each factor, then the second of
// each, and so on.
func CombineLevels(factors []Factor, zip bool) (all [][]int) {
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

// DescribeLevels formats levels of factors: "system=hpcc load=50%".
func DescribeLevels(factors []Factor, levels []int) string {
	var words []string
	for i, l := range levels {
		words = append(words, factors[i].Name+"="+factors[i].Levels[l])
	}
	return strings.Join(words, " ")
}

// DescribeCell returns the name of a cell.
func (e *Experiment) DescribeCell(c *Cell) string {
	return strings.TrimSpace(fmt.Sprintf("%s seed=%d", DescribeLevels(e.Factors, c.Levels), c.Seed))
}
