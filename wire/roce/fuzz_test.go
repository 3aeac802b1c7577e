package roce

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/internal/oracle"
)

// FuzzPacket reads any bytes as an IP packet. A valid packet is encoded and decoded
// unchanged; the ICRC and gopacket's layers agree with it.
func FuzzPacket(f *testing.F) {
	for _, b := range made(f) {
		if len(b) < 120 {
			f.Add(b[ethernet:])
		}
	}
	for _, b := range oracle.UDP(f, captures[0], Port)[:8] {
		f.Add(b[ethernet:])
	}
	f.Fuzz(func(t *testing.T, ip []byte) {
		var p Packet
		err := p.DecodeIP(ip)
		if check := CheckICRC(ip); err == nil && !p.Truncated && check != nil && check != ErrICRC {
			t.Errorf("%+v is a packet, its ICRC: %v", p, check)
		} else if check == nil && p.Truncated {
			t.Errorf("%+v is truncated, and has an ICRC", p)
		}
		if err != nil {
			return
		}
		first := layers.LayerTypeIPv4
		if ip[0]>>4 == 6 {
			first = layers.LayerTypeIPv6
		}
		g := gopacket.NewPacket(ip, first, gopacket.DecodeOptions{SkipDecodeRecovery: true})
		if l, ok := g.Layer(LayerTypeBTH).(*BTHLayer); ok && l.BTH != p.BTH {
			t.Errorf("gopacket's layer has %+v, want %+v", l.BTH, p.BTH)
		}
		if p.Truncated {
			return
		}
		b := make([]byte, p.Len())
		p.Put(b)
		var again Packet
		if err := again.Decode(b, len(b)); err != nil {
			t.Fatalf("%+v encodes to % x: %v", p, b, err)
		}
		if !bytes.Equal(p.Payload, again.Payload) {
			t.Errorf("payload % x, again % x", p.Payload, again.Payload)
		}
		p.Payload, again.Payload, p.ICRC, again.ICRC = nil, nil, 0, 0
		if diff := cmp.Diff(p, again, allHeaders); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}

// FuzzTransport reads any bytes as a UDP payload, truncated or not.
func FuzzTransport(f *testing.F) {
	for _, b := range made(f) {
		if ip := whole(b); ip[0]>>4 == 4 && len(ip) < 120 {
			f.Add(ip[28:], uint16(0))
			f.Add(ip[28:], uint16(400))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, more uint16) {
		var p, again Packet
		// The layers must not panic, and must accept what Decode accepts.
		g := gopacket.NewPacket(b, LayerTypeBTH, gopacket.DecodeOptions{SkipDecodeRecovery: true})
		if len(b) > 0 {
			if err := p.Decode(b, len(b)); (err != nil) != (g.ErrorLayer() != nil) || (err == nil) != (g.Layer(LayerTypeICRC) != nil) {
				t.Errorf("decoded with %v, as layers %v", err, g)
			}
		}
		if p.Decode(b, len(b)+int(more)) != nil {
			return
		}
		if p.Truncated != (more > 0) || p.Length < len(p.Payload) || !p.Truncated && p.Length != len(p.Payload) {
			t.Fatalf("%d bytes and %d: %+v", len(b), more, p)
		}
		if p.Truncated {
			return
		}
		c := make([]byte, p.Len())
		p.Put(c)
		if err := again.Decode(c, len(c)); err != nil || again.BTH != p.BTH || again.RETH != p.RETH || again.FurtherHeaders().Atomic != p.FurtherHeaders().Atomic ||
			again.AETH != p.AETH || again.FurtherHeaders().AtomicAck != p.FurtherHeaders().AtomicAck || again.FurtherHeaders().DETH != p.FurtherHeaders().DETH || again.ImmDt != p.ImmDt || again.IETH != p.IETH ||
			!bytes.Equal(again.Payload, p.Payload) {
			t.Fatalf("%v\n%+v, again\n%+v", err, p, again)
		}
	})
}
