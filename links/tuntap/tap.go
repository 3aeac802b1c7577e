package tuntap

import (
	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
)

// TAP is a device that carries Ethernet frames.
type TAP struct{ device }

// NewTAP takes over the fd of a TAP opened with IFF_NO_PI and without
// IFF_VNET_HDR.
func NewTAP(fd, mtu int, pool *packet.Pool, entry Entry) *TAP {
	t := &TAP{device{fd: fd, pool: pool, entry: entry}}
	t.SetMTU(mtu)
	return t
}

// Poll reads up to max frames and lets them enter the fabric at now. It
// returns how many it read.
func (t *TAP) Poll(now units.Time, max int) int {
	for i := range max {
		p := t.pool.NewFrame(t.room)
		n := t.read(p.Frame)
		if n == 0 {
			t.pool.Free(p)
			return i
		}
		p.Frame = p.Frame[:n]
		t.entry(now, p)
	}
	return max
}

// Deliver writes a frame to the host and reports whether its kernel took it.
// The packet stays the caller's.
func (t *TAP) Deliver(_ units.Time, p *packet.Packet) bool { return t.write(p.Frame) == nil }
