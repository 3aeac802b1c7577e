package tunnel

import (
	"testing"

	"github.com/weftlab/weft/protocols/eqds"
)

// TestLatePacketsOfTheIncarnationBefore: packets still in flight when a new incarnation begins
// ask for nothing there, and their answers give nothing. A pull target of the old one would
// make the receiver give credit that the sender has not asked for and so ignores: each would
// wait for the other.
func TestLatePacketsOfTheIncarnationBefore(t *testing.T) {
	x := newPair(new(testConfig(NDP)))
	x.packet(testMTU)
	old := x.receiver.Epoch()
	late := eqds.Data{Next: eqds.NextIPv4, Seq: old.First() + 900, Target: 40}
	ack := eqds.Control{Flags: eqds.FlagControl | eqds.FlagACK | eqds.FlagPULL, Ack: old.First() + 900, Pull: 1}

	x.now += us
	x.receiver.DropState()
	x.sender.replaceIncarnation(x.now, old)
	x.packet(testMTU)
	if x.receiver.Epoch() != old.Next() || x.sender.Phase() != Established {
		t.Fatalf("epoch %v after %v, %v", x.receiver.Epoch(), old, x.sender.Phase())
	}
	if a := x.receiver.ReceiveData(x.now, &late, 0, testMTU, false); a.Send || a.Kept || x.receiver.WantedMTUs() != 0 || x.receiver.Receipts().Mismatches != 1 {
		t.Errorf("%+v, wants %d", a, x.receiver.WantedMTUs())
	}
	pull := x.sender.pull
	if x.sender.ReceiveControl(x.now, &ack) || x.sender.pull != pull {
		t.Errorf("a late answer is taken, and the pull number is %d after %d", x.sender.pull, pull)
	}

	// In this incarnation the same packet is a copy, and is answered.
	again := eqds.Data{Next: eqds.NextIPv4, Seq: old.Next().First()}
	if a := x.receiver.ReceiveData(x.now, &again, 0, testMTU, false); !a.Send || !a.Control.Flags.Has(eqds.FlagACK) {
		t.Errorf("a copy is answered by %+v", a)
	}
}
