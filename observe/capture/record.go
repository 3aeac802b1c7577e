package capture

import (
	"encoding/binary"

	"github.com/weftlab/weft/sim/units"
)

// recordHeader is the length of the header before the bytes of a packet in its
// record: time, queue depth and overruns in 8 bytes each, port and original
// length in 4 each, then direction, fate and FCS error in 1 each, and 5 unused
// bytes.
const recordHeader = 40

// encodeRecord writes p into record b, with as much of its data as b has room for.
// overruns is how many packets of p's port have been lost so far.
func encodeRecord(b []byte, p *Packet, overruns uint64) {
	le := binary.LittleEndian
	h := b[:recordHeader]
	le.PutUint64(h[0:], uint64(p.At))
	le.PutUint64(h[8:], uint64(p.Queue))
	le.PutUint64(h[16:], overruns)
	le.PutUint32(h[24:], uint32(p.Port))
	le.PutUint32(h[28:], uint32(max(p.Length, int32(len(p.Data)))))
	h[32] = uint8(p.Dir)
	h[33] = p.Fate
	h[34] = 0
	if p.FCSError {
		h[34] = 1
	}
	copy(b[recordHeader:], p.Data)
}

// decodeRecord is the inverse of encode. The packet's data points into b.
func decodeRecord(b []byte) (p Packet, overruns uint64) {
	le := binary.LittleEndian
	h := b[:recordHeader]
	return Packet{
		At:       units.Time(le.Uint64(h[0:])),
		Queue:    units.Bytes(le.Uint64(h[8:])),
		Port:     int32(le.Uint32(h[24:])),
		Length:   int32(le.Uint32(h[28:])),
		Dir:      Direction(h[32]),
		Fate:     h[33],
		FCSError: h[34] == 1,
		Data:     b[recordHeader:],
	}, le.Uint64(h[16:])
}
