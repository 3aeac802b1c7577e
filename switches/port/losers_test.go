package port

import (
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire/roce"
)

// TestLosers_CountLossesOfOnePSNInSuccession plays PSNs that a port drops, in which a sender
// goes back again and again.
func TestLosers_CountLossesOfOnePSNInSuccession(t *testing.T) {
	for _, c := range []struct {
		name  string
		lost  []uint32
		psn   uint32
		times uint32
	}{
		{"one", []uint32{5}, 5, 1},
		{"a burst", []uint32{5, 6, 7, 9}, 5, 1},
		{"one packet three times", []uint32{5, 5, 5}, 5, 3},
		{"a burst three times", []uint32{5, 6, 7, 5, 6, 5, 6, 7, 8}, 5, 3},
		{"the last of a burst alone", []uint32{5, 6, 7, 7, 7}, 7, 3},
		{"another first packet each time", []uint32{5, 6, 7, 8, 6, 7, 8, 7, 8}, 5, 1},
		{"two runs, the longer counts", []uint32{5, 5, 5, 9, 9, 30, 30}, 5, 3},
		{"across the end of the numbers", []uint32{0xffffff, 0, 0xffffff, 0, 0xffffff, 1}, 0xffffff, 3},
		{"far ahead, and back", []uint32{5, 0x7ffff0, 5, 0x7ffff0}, 5, 2},
	} {
		var l losers
		for _, psn := range c.lost {
			l.recordLoss(rocePacket(3, 17, psn, roce.RC.WithOperation(roce.WriteMiddle)))
		}
		if x := l.order[0]; len(l.order) != 1 || x.PSN != c.psn || x.Times != c.times || x.Lost != uint64(len(c.lost)) {
			t.Errorf("%s: %+v, want PSN %d %d times", c.name, *x, c.psn, c.times)
		}
	}
}

// TestLosers_SeparatesFlows: queue pairs of one NIC, requests and READ responses to one queue
// pair, and modelled flows are different losers. Packets that nobody sends again, or that have
// no data, are none.
func TestLosers_SeparatesFlows(t *testing.T) {
	var l losers
	write, response := roce.RC.WithOperation(roce.WriteOnly), roce.RC.WithOperation(roce.ReadMiddle)
	for range 3 {
		l.recordLoss(rocePacket(3, 17, 8, write))
		l.recordLoss(rocePacket(3, 18, 8, write))
		l.recordLoss(rocePacket(4, 17, 8, write))
		l.recordLoss(rocePacket(4, 17, 8, response))
		l.recordLoss(rocePacket(5, 17, 8, roce.XRC.WithOperation(roce.SendMiddle)))
		l.recordLoss(rocePacket(5, 17, 8, roce.XRC.WithOperation(roce.Ack)))
		l.recordLoss(&packet.Packet{Flow: 2, Origin: 3})
		l.recordLoss(rocePacket(3, 17, 9, roce.RC.WithOperation(roce.Ack)))
		l.recordLoss(rocePacket(3, 17, 9, roce.UD.WithOperation(roce.SendOnly)))
		l.recordLoss(rocePacket(3, 17, 9, roce.NotifyCongestion))
		l.recordLoss(&packet.Packet{Kind: packet.Real})
	}
	if len(l.order) != 6 {
		t.Fatalf("%d losers", len(l.order))
	}
	for i, x := range l.order {
		if want := uint32(3); x.Lost != 3 || x.Kind == packet.NIC && x.Times != want {
			t.Errorf("number %d: %+v", i, *x)
		}
	}
	if x := l.order[5]; x.Flow != 2 || x.Times != 0 {
		t.Errorf("the modelled flow: %+v", *x)
	}
}

// TestLosers_AreBounded: a port of millions of flows remembers the first.
func TestLosers_AreBounded(t *testing.T) {
	var l losers
	for i := range int32(3 * maxLosers) {
		l.recordLoss(&packet.Packet{Flow: i / 2})
	}
	if len(l.order) != maxLosers || l.order[maxLosers-1].Lost != 2 {
		t.Errorf("%d losers, the last %+v", len(l.order), *l.order[len(l.order)-1])
	}
}

func rocePacket(from packet.Endpoint, qpn, psn uint32, o roce.Opcode) *packet.Packet {
	p := &packet.Packet{Kind: packet.NIC, Origin: from, RoCE: &packet.RoCE{Addresses: packet.Nowhere}}
	p.RoCE.BTH = roce.BTH{Opcode: o, DestQP: qpn, PSN: psn}
	return p
}
