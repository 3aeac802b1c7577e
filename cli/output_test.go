package cli

import (
	"errors"
	"fmt"
	"testing"
)

// fullDisk takes some bytes and no more.
type fullDisk struct{ room int }

var errFull = errors.New("no space left")

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.room -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func TestOutput_KeepsItsFirstError(t *testing.T) {
	disk := &fullDisk{room: 10}
	o := &output{to: disk}
	fmt.Fprint(o, "it fits")
	if err := o.firstError(); err != nil {
		t.Errorf("after what fits: %v", err)
	}
	fmt.Fprint(o, "it does not")
	disk.room = 100
	if n, err := fmt.Fprint(o, "late"); n != 0 || !errors.Is(err, errFull) || disk.room != 100 {
		t.Errorf("a write after the error: %d bytes, %v", n, err)
	}
	if err := o.firstError(); !errors.Is(err, errFull) {
		t.Errorf("the first error is %v", err)
	}
}
