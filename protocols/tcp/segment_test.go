package tcp

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"
)

// some draws a segment such as connections send.
func some(t *rapid.T) Segment {
	g := Segment{
		Seq: rapid.Uint32().Draw(t, "seq"), Ack: rapid.Uint32().Draw(t, "ack"), Flags: Flags(rapid.Uint8().Draw(t, "flags")),
		Window: rapid.Uint16().Draw(t, "window"), Payload: rapid.Uint32Range(0, 100).Draw(t, "payload"),
	}
	if rapid.Bool().Draw(t, "timestamps") {
		g.Timestamps, g.TSVal, g.TSEcr = true, rapid.Uint32().Draw(t, "value"), rapid.Uint32().Draw(t, "echo")
	}
	if g.Flags&SYN != 0 {
		g.MSS, g.SACKPermitted = rapid.Uint16Range(1, 65535).Draw(t, "mss"), rapid.Bool().Draw(t, "permitted")
		g.Scaling = rapid.Bool().Draw(t, "scaling")
		if g.Scaling {
			g.Scale = rapid.Uint8Range(0, 14).Draw(t, "scale")
		}
		return g
	}
	room := maxBlocks
	if g.Timestamps {
		room--
	}
	for range rapid.IntRange(0, room).Draw(t, "blocks") {
		g.addBlock(Block{rapid.Uint32().Draw(t, "from"), rapid.Uint32().Draw(t, "to")})
	}
	return g
}

// TestWireFormat: what is written reads back the same, here and by gopacket.
func TestWireFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := some(t)
		b := make([]byte, g.HeaderLen()+int(g.Payload))
		if g.HeaderLen() > maxHeader || g.HeaderLen()%4 != 0 {
			t.Fatalf("a header of %d bytes", g.HeaderLen())
		}
		g.EncodeTo(b[:g.HeaderLen()], 5003, 80)
		got, src, dst, err := Parse(b)
		if err != nil || src != 5003 || dst != 80 {
			t.Fatalf("ports %d and %d, %v", src, dst, err)
		}
		if diff := cmp.Diff(g, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		var l layers.TCP
		if err := l.DecodeFromBytes(b, gopacket.NilDecodeFeedback); err != nil {
			t.Fatalf("gopacket: %v", err)
		}
		if l.Seq != g.Seq || l.Ack != g.Ack || l.Window != g.Window || l.SYN != (g.Flags&SYN != 0) || l.CWR != (g.Flags&CWR != 0) || len(l.Payload) != int(g.Payload) {
			t.Fatalf("gopacket reads %+v", l)
		}
		for _, o := range l.Options {
			switch o.OptionType {
			case layers.TCPOptionKindSACK:
				if len(o.OptionData) != 8*int(g.BlockCount) || binary.BigEndian.Uint32(o.OptionData) != g.Blocks[0].From {
					t.Fatalf("gopacket reads SACK %x of %v", o.OptionData, g.SACK())
				}
			case layers.TCPOptionKindTimestamps:
				if binary.BigEndian.Uint32(o.OptionData) != g.TSVal {
					t.Fatalf("gopacket reads timestamps %x", o.OptionData)
				}
			}
		}
	})
}

// FuzzParse: reading any bytes does no harm, and a segment that was read can be written
// unless it has more than this package sends.
func FuzzParse(f *testing.F) {
	for _, g := range []Segment{
		{Flags: SYN, MSS: 1460, SACKPermitted: true, Timestamps: true, TSVal: 1, Scaling: true, Scale: 7},
		{Seq: 1, Ack: 2, Flags: ACK, Timestamps: true, BlockCount: 3, Blocks: [maxBlocks]Block{{1, 2}, {3, 4}, {5, 6}}},
	} {
		b := make([]byte, g.HeaderLen())
		g.EncodeTo(b, 1, 2)
		f.Add(b)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		g, src, dst, err := Parse(b)
		if err != nil || g.HeaderLen() > maxHeader {
			return
		}
		out := make([]byte, g.HeaderLen()+int(g.Payload))
		g.EncodeTo(out[:g.HeaderLen()], src, dst)
		back, s, d, err := Parse(out)
		if err != nil || s != src || d != dst {
			t.Fatalf("%+v does not read back: %v", g, err)
		}
		if diff := cmp.Diff(g, back); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestFlags(t *testing.T) {
	if s := (SYN | ACK).String(); s != "SYN,ACK" {
		t.Errorf("SYN and ACK print as %s", s)
	}
}
