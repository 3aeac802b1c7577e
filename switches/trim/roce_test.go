package trim

import (
	"net/netip"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestRoCE: a NIC's packet, which has no bytes, is cut and returned in its fields;
// its payload stays complete, and a fixed length shows in Whole.
func TestRoCE(t *testing.T) {
	for _, c := range []struct {
		version     uint8
		fix         bool
		size, whole units.Bytes
	}{{4, false, 14 + 20 + 24, 1086}, {4, true, 14 + 20 + 24, 14 + 20 + 24}, {6, false, 14 + 40 + 24, 1086}, {6, true, 14 + 40 + 24, 14 + 40 + 24}} {
		pool := packet.NewPools(1)[0]
		p := pool.NewRoCE()
		p.Version, p.L3, p.TOS, p.Size = c.version, wire.EthernetHeader, 26<<2|wire.CE, 1086
		p.SrcPort, p.DstPort, p.Src, p.Dst, p.Origin, p.Dest = 1111, 4791, 0xa, 0xb, 4, 9
		p.RoCE.Length = 1024
		from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		p.RoCE.Addresses = packet.NewAddresses(from, to)
		config := Config{Keep: 24, DSCP: 10, FixLength: c.fix}
		if got := TrimPacket(pool, p, &config); got != p || !p.Trimmed || p.Size != c.size || p.Whole != c.whole || p.TOS != 10<<2|wire.CE || p.RoCE.Length != 1024 {
			t.Errorf("%+v: %+v", c, p)
		}
		if TrimPacket(pool, p, &config) != nil {
			t.Errorf("%+v: cut twice", c)
		}
		ReturnToSender(p)
		if p.RoCE.From != to || p.RoCE.To != from || p.SrcPort != 4791 || p.DstPort != 1111 || p.Src != 0xb || p.Dst != 0xa || p.Origin != 9 || p.Dest != 4 {
			t.Errorf("%+v: sent back %+v with %+v", c, p, p.RoCE)
		}
	}
}
