package plan

import (
	"errors"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// Traffic is a pattern of traffic and what carries its flows: exactly one of RDMA, UDP,
// TCP and NDP. With RDMA its hosts have NICs.
type Traffic struct {
	Name    string // in records; unique among patterns
	Pattern pattern.Pattern
	RDMA    *carrier.RDMA
	UDP     *carrier.UDP
	TCP     *carrier.TCP
	NDP     *carrier.NDP
}

// IPv6 reports whether its flows use IPv6.
func (t *Traffic) IPv6() bool {
	switch {
	case t.RDMA != nil:
		return t.RDMA.IPv6
	case t.TCP != nil:
		return t.TCP.IPv6
	case t.NDP != nil:
		return t.NDP.IPv6
	}
	return t.UDP.IPv6
}

// Check returns what is wrong with its carrier.
func (t *Traffic) Check() error {
	given := 0
	for _, is := range []bool{t.RDMA != nil, t.UDP != nil, t.TCP != nil, t.NDP != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return errors.New("exactly one carrier is required: RDMA, UDP, TCP or NDP")
	}
	switch {
	case t.RDMA != nil:
		return t.RDMA.Check()
	case t.TCP != nil:
		return t.TCP.Check()
	case t.NDP != nil:
		return t.NDP.Check()
	}
	return t.UDP.Check()
}

// Measure says which flows of patterns count, and how long a run waits for them.
type Measure struct {
	carrier.Window
	// Grace is how long a run in virtual time goes on at most after Window.End, for
	// flows that are still under way; 0 means no limit.
	Grace units.Time
}
