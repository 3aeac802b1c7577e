package cm

import (
	"testing"

	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/wire/roce"
)

// TestStartPSNIsThePeers: in Linux's connections the starting PSN of a REQ or REP is the PSN of
// the first packet that the other side sends.
func TestStartPSNIsThePeers(t *testing.T) {
	start := map[string]uint32{} // what an address has asked for
	first := map[string]uint32{} // first PSN that it received
	for _, b := range oracle.UDP(t, captures[0], roce.Port) {
		var p roce.Packet
		if err := p.DecodeIP(b[ethernet:]); err != nil {
			t.Fatal(err)
		}
		ip := b[ethernet:]
		from, to := string(ip[12:16]), string(ip[16:20])
		switch op := p.BTH.Opcode.Operation(); {
		case p.BTH.DestQP == roce.ManagementQP:
			_, m, err := Parse(b[before : before+MADLen])
			if err != nil {
				t.Fatal(err)
			}
			switch m := m.(type) {
			case *REQ:
				start[from] = m.StartPSN
			case *REP:
				start[from] = m.StartPSN
			}
		case op < roce.ReadFirst || op > roce.AtomicAck: // a request
			if _, ok := first[to]; !ok {
				first[to] = p.BTH.PSN
			}
		}
	}
	if len(start) != 2 || len(first) != 2 {
		t.Fatalf("%d and %d sides", len(start), len(first))
	}
	for side, psn := range start {
		if first[side] != psn {
			t.Errorf("one side asks for PSN %#x, and %#x comes", psn, first[side])
		}
	}
}
