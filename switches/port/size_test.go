package port

import (
	"testing"
	"unsafe"
)

// TestSize: the sizes of ports, and of the queues of a port, are whole cache lines.
func TestSize(t *testing.T) {
	const line = 64
	if n := unsafe.Sizeof(Port{}); n != 6*line {
		t.Errorf("a port takes %d bytes", n)
	}
	if n := unsafe.Sizeof(classQueue{}); n != 3*line {
		t.Errorf("a class queue takes %d bytes", n)
	}
}
