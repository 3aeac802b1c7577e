package packet

import (
	"testing"
	"unsafe"

	"github.com/weftlab/weft/sim/prefetch"
)

// TestPrefetch: what a NIC reads of a packet, with its RoCE, is within Received, what a switch
// reads is less, and a packet whose memory ends sooner may be prefetched as well.
func TestPrefetch(t *testing.T) {
	pool := NewPools(1)[0]
	p := pool.NewRoCE()
	if end := uintptr(unsafe.Pointer(p.RoCE)) + unsafe.Sizeof(*p.RoCE) - uintptr(unsafe.Pointer(p)); end != uintptr(Received) {
		t.Errorf("the RoCE of a packet ends %d bytes after the packet's beginning, and %d are prefetched", end, Received)
	}
	if at := uintptr(unsafe.Pointer(p)); at%prefetch.Line != 0 {
		t.Errorf("the packet at %#x does not begin a cache line", at)
	}
	if Forwarded >= Received {
		t.Errorf("a switch reads %d bytes, a NIC %d", Forwarded, Received)
	}
	p.Size, p.RoCE.Length = 1000, 900
	p.Prefetch(Received)
	p.Prefetch(Forwarded)
	bare := &Packet{Size: 7}
	bare.Prefetch(Received)
	if p.Size != 1000 || p.RoCE.Length != 900 || bare.Size != 7 {
		t.Errorf("prefetched packets have %v, %v and %v", p.Size, p.RoCE.Length, bare.Size)
	}
}
