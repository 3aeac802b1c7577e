package packet

import (
	"testing"
	"unsafe"
)

// TestSize: packets are in arrays, so a length that is not a multiple of a cache
// line would spread the fields that a hop reads over two lines.
func TestSize(t *testing.T) {
	const line = 64
	var p Packet
	if n := unsafe.Sizeof(p); n != 3*line {
		t.Errorf("a packet takes %d bytes, not %d", n, 3*line)
	}
	if at := unsafe.Offsetof(p.home); at != line-1 {
		t.Errorf("the first line ends at byte %d", at+1)
	}
	if at := unsafe.Offsetof(p.RoCE); at < 2*line {
		t.Errorf("what a NIC's packet carries is at byte %d, before the last line", at)
	}
	// The content of a NIC's packet takes two lines, also in the pages in which arrays of it
	// are allocated.
	if n := unsafe.Sizeof(RoCE{}); n != 2*line {
		t.Errorf("what a NIC's packet carries takes %d bytes", n)
	}
}
