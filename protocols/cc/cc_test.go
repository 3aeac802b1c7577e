package cc_test

import (
	"testing"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// TestNopControl_SetsNoLimit: NopControl sets no limit, whatever its inputs.
func TestNopControl_SetsNoLimit(t *testing.T) {
	var c cc.Control = cc.NopControl{}
	c.Line(0, units.Gbps)
	c.Sent(0, 1000)
	c.Acked(1, &cc.Ack{Acked: 1000, Sent: 1000, RTT: 1, Marked: true})
	c.CNP(1)
	c.Lost(1, cc.Loss{Payload: 1000})
	c.Message(1, nil)
	c.Active(1, true)
	c.Tick(2)
	if c.Timer() != units.Never || c.Rate() != 0 || c.Window() != 0 {
		t.Errorf("timer %v, rate %v, window %v", c.Timer(), c.Rate(), c.Window())
	}
}
