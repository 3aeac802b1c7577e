package cc_test

import (
	"testing"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// TestEpisode: an episode of losses ends with the data sent by then, an episode of marks after
// it.
func TestEpisode(t *testing.T) {
	var e cc.Episode
	e.Begin()
	for _, a := range []cc.Ack{{Acked: 1, Sent: 10}, {Acked: 9, Sent: 12}} {
		if e.OnAck(&a); !e.IsActive() {
			t.Fatalf("over at %d", a.Acked)
		}
	}
	if e.OnAck(&cc.Ack{Acked: 10, Sent: 20}); e.IsActive() {
		t.Error("not over at 10")
	}
	e.BeginAt(&cc.Ack{Acked: 11, Sent: 20})
	if e.OnAck(&cc.Ack{Acked: 20, Sent: 25}); !e.IsActive() {
		t.Error("over at 20")
	}
	if e.OnAck(&cc.Ack{Acked: 21, Sent: 25}); e.IsActive() {
		t.Error("not over at 21")
	}
}

// TestHeldBack: in slow start a window counts as used up when more than half of it is used.
func TestHeldBack(t *testing.T) {
	a := cc.Ack{InFlight: 5000, Newly: 1000}
	for _, c := range []struct {
		window units.Bytes
		slow   bool
		want   bool
	}{{6000, false, true}, {7000, false, false}, {11_999, true, true}, {12_000, true, false}} {
		if got := cc.HeldBack(&a, c.window, 1000, c.slow); got != c.want {
			t.Errorf("window %d, slow start %v: %v", c.window, c.slow, got)
		}
	}
}

// TestDelivery: without an interval there is no sample.
func TestDelivery(t *testing.T) {
	d := cc.Delivery{Total: 3000, Prior: 1000, Interval: units.Millisecond}
	if d.Rate() != 16*units.Mbps {
		t.Errorf("the rate is %v", d.Rate())
	}
	if d.Interval = 0; d.Rate() != 0 {
		t.Errorf("without a sample the rate is %v", d.Rate())
	}
}
