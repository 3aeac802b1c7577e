package roce

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/weftlab/weft/wire"
)

// slowICRC computes the ICRC bit by bit, only from the text of the specification:
// Ethernet's polynomial, lowest bit of each byte first.
func slowICRC(ip []byte) []byte {
	m := append(bytes.Repeat([]byte{0xff}, 8), ip[:len(ip)-4]...)
	h, ones := m[8:], []int{1, 8, 10, 11, 20 + 6, 20 + 7, 28 + 4}
	if ip[0]>>4 == 6 {
		h[0] = 0x6f
		ones = []int{1, 2, 3, 7, 40 + 6, 40 + 7, 48 + 4}
	}
	for _, i := range ones {
		h[i] = 0xff
	}
	state := uint32(0xffffffff)
	for _, b := range m {
		for bit := range 8 {
			feedback := state&1 ^ uint32(b>>bit&1)
			state >>= 1
			if feedback != 0 {
				state ^= 0xedb88320
			}
		}
	}
	return binary.LittleEndian.AppendUint32(nil, ^state)
}

// whole returns the IP packet of a frame without Ethernet padding.
func whole(frame []byte) []byte {
	ip := frame[ethernet:]
	if ip[0]>>4 == 4 {
		return ip[:binary.BigEndian.Uint16(ip[2:])]
	}
	return ip[:wire.IPv6Header+int(binary.BigEndian.Uint16(ip[4:]))]
}

func TestICRCAgainstDefinition(t *testing.T) {
	for _, b := range made(t) {
		ip := whole(b)
		if want, got := slowICRC(ip), ip[len(ip)-4:]; !bytes.Equal(want, got) {
			t.Errorf("%x ends in %x, want %x", ip, got, want)
		}
		if err := CheckICRC(b[ethernet:]); err != nil {
			t.Errorf("%x: %v", b, err)
		}
	}
}

// TestICRCKnownAnswers uses packets of other implementations, from scapy's tests
// (test/contrib/roce.uts, where the third vector is marked as not matching).
func TestICRCKnownAnswers(t *testing.T) {
	for name, frame := range map[string]string{
		"a SEND Only of UC": "248a07a8fa22248a07a8fa220800" +
			"45010040047840004011b4d5c0a80007c0a80007" + "c00012b7002caca2" + "2460ffff000000d300cf1710" +
			"4630818be28935d90e9a95505401be885e500000" + "78f353f3",
		"a CNP of a ConnectX-4 Lx": "e41d2dab2bc27cfe90643b320800" +
			"45c2003c718c4000401191610a0011010a001201" + "000012b700280000" + "8100ffff4000011800000000" +
			"00000000000000000000000000000000" + "82fd002a",
	} {
		b, err := hex.DecodeString(frame)
		if err != nil {
			t.Fatal(err)
		}
		ip := b[ethernet:]
		if len(whole(b)) != len(ip) || wire.IPv4Checksum(ip[:wire.IPv4Header]) != 0 {
			t.Fatalf("%s is not as it was sent", name)
		}
		want := bytes.Clone(ip[len(ip)-ICRCLen:])
		if err := CheckICRC(ip); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		clear(ip[len(ip)-ICRCLen:])
		if err := PutICRC(ip); err != nil || !bytes.Equal(ip[len(ip)-ICRCLen:], want) {
			t.Errorf("%s ends in %x, %v; want %x", name, ip[len(ip)-ICRCLen:], err, want)
		}
	}
}

// TestICRCMask flips every bit of packets: only bits that may change in transit go
// undetected.
func TestICRCMask(t *testing.T) {
	variant := map[int][]struct{ byte, mask int }{
		4: {{1, 0xff}, {8, 0xff}, {10, 0xff}, {11, 0xff}, {26, 0xff}, {27, 0xff}, {32, 0xff}},
		6: {{0, 0x0f}, {1, 0xff}, {2, 0xff}, {3, 0xff}, {7, 0xff}, {46, 0xff}, {47, 0xff}, {52, 0xff}},
	}
	for _, b := range made(t) {
		ip := whole(b)
		free := map[int]int{}
		for _, v := range variant[int(ip[0]>>4)] {
			free[v.byte] = v.mask
		}
		for i := range min(len(ip), 100) {
			for bit := range 8 {
				ip[i] ^= 1 << bit
				err := CheckICRC(ip)
				if may := free[i]>>bit&1 != 0; may != (err == nil) {
					t.Errorf("IPv%d, byte %d, bit %d: %v", ip[0]>>4, i, bit, err)
				}
				ip[i] ^= 1 << bit
			}
		}
	}
}

func TestICRCRefuses(t *testing.T) {
	var four, six []byte
	for _, b := range made(t) {
		if ip := whole(b); ip[0]>>4 == 4 && four == nil {
			four = ip
		} else if ip[0]>>4 == 6 && six == nil {
			six = ip
		}
	}
	change := func(ip []byte, f func(ip []byte) []byte) []byte { return f(bytes.Clone(ip)) }
	set := func(at int, v byte) func([]byte) []byte {
		return func(ip []byte) []byte { ip[at] = v; return ip }
	}
	for name, c := range map[string]struct {
		ip   []byte
		want error
	}{
		"nothing":                 {nil, ErrShort},
		"an IPv4 header":          {four[:20], ErrShort},
		"cut UDP header":          {four[:27], ErrShort},
		"cut IPv6":                {six[:39], ErrShort},
		"ICMP":                    {change(four, set(9, 1)), ErrNotRoCE},
		"another port":            {change(four, set(23, 0xb8)), ErrNotRoCE},
		"a first fragment":        {change(four, set(6, 0x20)), ErrNotRoCE},
		"a later fragment":        {change(four, set(7, 1)), ErrNotRoCE},
		"IPv4 options":            {append(append([]byte{0x46}, append(four[1:20:20], 1, 1, 1, 0)...), four[20:]...), ErrNotRoCE},
		"IPv6 hop-by-hop options": {append(append(change(six, set(6, 0))[:40:40], wire.ProtoUDP, 0, 1, 4, 0, 0, 0, 0), six[40:]...), ErrNotRoCE},
		"a UDP length of 8":       {change(change(four, set(25, 8)), set(24, 0)), ErrLength},
		"a UDP length of 23":      {change(change(four, set(25, 23)), set(24, 0)), ErrLength},
		"cut by a byte":           {four[:len(four)-1], ErrTruncated},
		"a wrong bit":             {change(four, set(12, four[12]^1)), ErrICRC},
	} {
		if err := CheckICRC(c.ip); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		want := c.want
		if want == ErrICRC {
			want = nil
		}
		if err := PutICRC(bytes.Clone(c.ip)); err != want {
			t.Errorf("put into %s: %v, want %v", name, err, want)
		}
		if _, err := ICRC(c.ip); err != want {
			t.Errorf("ICRC of %s: %v, want %v", name, err, want)
		}
		if want == ErrTruncated {
			want = nil // Truncated is set
		}
		var p Packet
		if err := p.DecodeIP(c.ip); err != want || p.Truncated != (c.want == ErrTruncated) {
			t.Errorf("%s decoded: %v, truncated %v; want %v", name, err, p.Truncated, want)
		}
	}
}
