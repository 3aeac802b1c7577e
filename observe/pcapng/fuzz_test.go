package pcapng

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/google/gopacket/pcapgo"
)

// FuzzPacket: any packet is read back unchanged, and does not affect the
// packets around it. gopacket's reader skips the options of packets; they are
// parsed from the bytes.
func FuzzPacket(f *testing.F) {
	f.Add(int64(epoch), frame(61), 1500, uint8(1), true, "comment", uint64(3))
	f.Add(int64(0), []byte{}, -1, uint8(7), false, "\xff\x00é", uint64(0))
	f.Fuzz(func(t *testing.T, at int64, data []byte, length int, dir uint8, fcs bool, comment string, drops uint64) {
		var out bytes.Buffer
		w, err := NewWriter(&out, Section{})
		must(t, err)
		_, err = w.AddInterface(Interface{Name: "i"})
		must(t, err)
		must(t, w.WritePacket(0, Packet{At: 1, Data: []byte("before")}))
		p := Packet{At: at & (1<<63 - 1), Data: data, Length: length & (1<<31 - 1), Direction: Direction(dir & 3), FCSError: fcs, Comment: comment, Drops: drops}
		must(t, w.Flush())
		start := out.Len()
		must(t, w.WritePacket(0, p))
		must(t, w.Flush())
		block := bytes.Clone(out.Bytes()[start:])
		must(t, w.WritePacket(0, Packet{At: 2, Data: []byte("after")}))
		must(t, w.Flush())

		r, err := pcapgo.NewNgReader(&out, pcapgo.DefaultNgReaderOptions)
		must(t, err)
		for _, want := range []Packet{{At: 1, Data: []byte("before")}, p, {At: 2, Data: []byte("after")}} {
			got, info, err := r.ReadPacketData()
			must(t, err)
			if !bytes.Equal(got, want.Data) || info.Timestamp.UnixNano() != want.At || info.Length != max(want.Length, len(want.Data)) {
				t.Fatalf("wrote %+v, read %+v with %x", want, info, got)
			}
		}
		if _, _, err := r.ReadPacketData(); err != io.EOF {
			t.Fatalf("after the last packet: %v", err)
		}

		flags, kept, lost := packetOptions(t, block)
		if want := strings.ToValidUTF8(comment, "\uFFFD"); kept != want {
			t.Errorf("comment %q was written as %q", want, kept)
		}
		if want := uint32(dir & 3); flags&3 != want || flags>>24&1 == 1 != fcs {
			t.Errorf("direction %d, FCS error %v were written as flags %#x", want, fcs, flags)
		}
		if lost != drops {
			t.Errorf("%d drops were written as %d", drops, lost)
		}
	})
}

// packetOptions reads the options of an enhanced packet block.
func packetOptions(t *testing.T, block []byte) (flags uint32, comment string, drops uint64) {
	t.Helper()
	le := binary.LittleEndian
	captured := int(le.Uint32(block[20:]))
	rest := block[28+(captured+3)&^3 : len(block)-4]
	for {
		code, n := le.Uint16(rest), int(le.Uint16(rest[2:]))
		value := rest[4 : 4+n]
		rest = rest[4+(n+3)&^3:]
		switch code {
		case 0:
			if len(rest) != 0 {
				t.Fatalf("%d bytes behind the last option", len(rest))
			}
			return flags, comment, drops
		case 1:
			comment = string(value)
		case 2:
			flags = le.Uint32(value)
		case 4:
			drops = le.Uint64(value)
		default:
			t.Fatalf("option %d", code)
		}
	}
}
