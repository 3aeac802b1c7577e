package status

import "github.com/weftlab/weft/sim/units"

// Lateness summarizes how much later than its emulated time each packet was delivered to a
// real host, in emulated time. Multiplied by the dilation it is the lateness of the processor.
type Lateness struct {
	Count uint64     `json:"count"`
	Mean  units.Time `json:"mean"`
	P50   units.Time `json:"p50"`
	P99   units.Time `json:"p99"`
	P999  units.Time `json:"p99.9"`
	Max   units.Time `json:"max"`

	Limit  units.Time     `json:"limit"`
	Beyond uint64         `json:"beyond"` // deliveries later than Limit
	Share  units.Fraction `json:"share"`  // Beyond as a share of Count
}
