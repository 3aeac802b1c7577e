package port

import (
	"testing"
	"unsafe"
)

// TestSize: the sizes of ports, and of the queues of a port, are whole cache lines, and what a
// packet needs of a port is six lines in a row.
func TestSize(t *testing.T) {
	const line = 64
	if n := unsafe.Sizeof(Port{}); n != 14*line {
		t.Errorf("a port takes %d bytes", n)
	}
	if needed%line != 0 || neededEnd-needed != 6*line {
		t.Errorf("a packet needs bytes %d to %d of a port", needed, neededEnd)
	}
	if at := unsafe.Offsetof(Port{}.owner); at != needed+3*line {
		t.Errorf("what an arriving packet needs begins at byte %d", at)
	}
	if n := unsafe.Sizeof(classQueue{}); n != 3*line {
		t.Errorf("a class queue takes %d bytes", n)
	}
}
