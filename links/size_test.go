package links

import (
	"testing"
	"unsafe"
)

// TestSize: what a packet needs of a link is whole cache lines: the last of the near half, the
// first of the far half.
func TestSize(t *testing.T) {
	const line = 64
	if n := unsafe.Sizeof(Link{}); n != 4*line {
		t.Errorf("a link takes %d bytes", n)
	}
	if at := unsafe.Offsetof(Link{}.flight); at != unsafe.Sizeof(Link{})-NearSize {
		t.Errorf("what a packet needs begins at byte %d", at)
	}
	if at := unsafe.Offsetof(Flight{}.late); at != FarSize {
		t.Errorf("what a packet needs of the far half ends at byte %d", at)
	}
}
