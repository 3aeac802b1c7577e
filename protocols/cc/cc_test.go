package cc_test

import (
	"testing"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// TestNopControl_SetsNoLimit: NopControl sets no limit, whatever its inputs.
func TestNopControl_SetsNoLimit(t *testing.T) {
	var c cc.Control = cc.NopControl{}
	c.SetLineRate(0, units.Gbps)
	c.OnPacketSent(0, 1000)
	c.OnAck(1, &cc.Ack{Acked: 1000, Sent: 1000, RTT: 1, Marked: true})
	c.OnCNP(1)
	c.OnLoss(1, cc.Loss{Payload: 1000})
	c.OnMessage(1, nil)
	c.SetActive(1, true)
	c.OnTimer(2)
	if c.NextTimer() != units.Never || c.Rate() != 0 || c.Window() != 0 {
		t.Errorf("timer %v, rate %v, window %v", c.NextTimer(), c.Rate(), c.Window())
	}
}
