package carrier

import (
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
)

// Split carries the flows of a host that leave it by several interfaces. Each interface has
// a carrier.
type Split struct {
	carriers []Carrier
	choose   func(r *records.Record) int
}

// NewSplit makes a carrier that gives each flow to the carrier that choose names by its
// index. A flow without a path can go to any of them, which refuses it.
func NewSplit(choose func(r *records.Record) int, carriers ...Carrier) *Split {
	return &Split{carriers: carriers, choose: choose}
}

// Start implements Carrier.
func (s *Split) Start(now units.Time, r *records.Record) { s.carriers[s.choose(r)].Start(now, r) }

// DoWork implements Carrier.
func (s *Split) DoWork(now units.Time) {
	for _, c := range s.carriers {
		c.DoWork(now)
	}
}

// UnderWay implements Carrier.
func (s *Split) UnderWay(f func(r *records.Record)) {
	for _, c := range s.carriers {
		c.UnderWay(f)
	}
}
