package router

import (
	"encoding/binary"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Fragmenter cuts an IPv4 packet into fragments (RFC 791 §3.2). Fragment returns
// one.
type Fragmenter struct {
	ip         []byte
	header     int
	at         int // of the next fragment's payload in ip
	maxPayload int // payload bytes of each fragment except the last
}

// NewFragmenter begins to cut ip for a link with this MTU. It returns false if ip must
// not be cut: it is IPv6 or incomplete, its DF bit is set, or the MTU leaves no
// room after its header. ip may be a fragment itself, and may be longer than the
// packet.
func NewFragmenter(ip []byte, mtu units.Bytes) (Fragmenter, bool) {
	const dontFragment = 0x4000
	if len(ip) < wire.IPv4Header || ip[0]>>4 != 4 {
		return Fragmenter{}, false
	}
	ip, h, ok := trimPadding(ip)
	if !ok || binary.BigEndian.Uint16(ip[6:])&dontFragment != 0 {
		return Fragmenter{}, false
	}
	if offset := int(binary.BigEndian.Uint16(ip[6:])&0x1fff) * 8; offset+len(ip) > 1<<16-1 {
		return Fragmenter{}, false // it would end beyond the longest packet
	}
	maxPayload := (int(mtu) - h.Header) &^ 7
	return Fragmenter{ip: ip, header: h.Header, at: h.Header, maxPayload: maxPayload}, maxPayload > 0
}

// Next appends the next fragment to b. It returns nil after the last.
func (f *Fragmenter) Next(b []byte) []byte {
	if f.at >= len(f.ip) {
		return nil
	}
	payload := f.ip[f.at:min(f.at+f.maxPayload, len(f.ip))]
	start := len(b)
	b = append(append(b, f.ip[:f.header]...), payload...)
	ip := b[start:]
	// If the packet is itself a fragment, its offset counts, and its More Fragments
	// bit applies to its last fragment.
	offset := binary.BigEndian.Uint16(ip[6:])&0x3fff + uint16((f.at-f.header)/8)
	if f.at+len(payload) < len(f.ip) {
		offset |= 0x2000
	}
	if f.at > f.header {
		dropOptions(ip[wire.IPv4Header:f.header])
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[6:], offset)
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], wire.IPv4Checksum(ip[:f.header]))
	f.at += len(payload)
	return b
}

// dropOptions replaces options that belong only into the first fragment by
// no-operations (RFC 791 §3.1; ip_options_fragment in Linux).
func dropOptions(options []byte) {
	const end, nop, copied = 0, 1, 0x80
	for len(options) > 0 && options[0] != end {
		n := 1
		if options[0] != nop {
			if len(options) < 2 || options[1] < 2 || int(options[1]) > len(options) {
				return
			}
			n = int(options[1])
			if options[0]&copied == 0 {
				for i := range n {
					options[i] = nop
				}
			}
		}
		options = options[n:]
	}
}
