package packet

import (
	"net/netip"
	"testing"

	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// TestCloneRoCE: a clone, in its own pool or another, has the same content and
// shares nothing with the original.
func TestCloneRoCE(t *testing.T) {
	for _, to := range []int{0, 1} {
		pools := NewPools(2)
		p := pools[0].NewRoCE()
		p.ID, p.TOS, p.Size, p.Next = 7, wire.ECT0, 1000, pools[0].New()
		p.RoCE.BTH, p.RoCE.RETH.VA, p.RoCE.Length = roce.BTH{Opcode: roce.WriteOnly, PSN: 5}, 0x1000, 3
		p.RoCE.Payload = append(p.RoCE.Payload, 1, 2, 3)
		p.RoCE.Addresses = NewAddresses(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"))
		p.DstPort = telemetry.Port
		p.RoCE.Stack().Room = 5
		c := pools[to].ClonePacket(p)
		p.RoCE.Payload[0], p.RoCE.BTH.PSN, p.RoCE.Stack().Room = 9, 6, 3
		r := c.RoCE
		if c.ID != 7 || c.TOS != wire.ECT0 || c.Size != 1000 || c.Next != nil || c.Kind != NIC || r.BTH.PSN != 5 || r.BTH.Opcode != roce.WriteOnly ||
			r.RETH.VA != 0x1000 || r.Length != 3 || string(r.Payload) != "\x01\x02\x03" || r.From != p.RoCE.From || r.To != p.RoCE.To || c.Telemetry().Room != 5 {
			t.Errorf("the clone in pool %d is %+v, with %+v", to, c, r)
		}
		pools[to].Free(c)
		if live := pools[to].LivePackets(); live != 2-2*to {
			t.Errorf("%d live in pool %d", live, to)
		}
	}
}

// TestMaterialiseRoCE: a NIC's packet becomes a packet like a real program's.
func TestMaterialiseRoCE(t *testing.T) {
	pool := NewPools(1)[0]
	pool.Render = func(p *Packet, buf []byte) []byte { return append(buf[:0], make([]byte, p.Size)...) }
	p := pool.NewRoCE()
	p.ID, p.Size, p.Trimmed, p.Whole = 7, 64, true, 4000
	c := pool.MakeBytes(p)
	if c.Kind != Real || c.RoCE != nil || len(c.Frame) != 64 || c.ID != 7 || !c.Trimmed || !c.HasBytes() {
		t.Errorf("%+v", c)
	}
	if pool.LivePackets() != 1 || pool.NewRoCE() != p {
		t.Error("the packet did not go back to its pool")
	}
}

// TestMarkCERoCE: a NIC's packet is marked in its fields.
func TestMarkCERoCE(t *testing.T) {
	p := (&Pool{}).NewRoCE()
	p.Version, p.TOS = 4, 26<<2|wire.ECT0
	if !p.HasBytes() || !p.MarkCE() || p.TOS != 26<<2|wire.CE {
		t.Errorf("ToS %#x", p.TOS)
	}
}

// TestRoCEDoesNotAllocate: a reused packet keeps the memory for its payload.
func TestRoCEDoesNotAllocate(t *testing.T) {
	var pool Pool
	payload := make([]byte, 4096)
	step := func() {
		p := pool.NewRoCE()
		p.RoCE.Payload = append(p.RoCE.Payload, payload...)
		c := pool.ClonePacket(p)
		pool.Free(p)
		pool.Free(c)
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for a packet and its clone", n)
	}
}
