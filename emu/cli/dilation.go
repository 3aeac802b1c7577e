package cli

import (
	"strconv"

	"github.com/weftlab/weft/emu/spec"
)

// dilationFlag is a dilation in place of the file's; 0 is none.
type dilationFlag int

// String, Set and Type are of a flag.
func (d *dilationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return strconv.Itoa(int(*d))
}

// Set reads 1 to plan.MaxDilation.
func (d *dilationFlag) Set(s string) error {
	n, err := spec.ParseDilation(s)
	*d = dilationFlag(n)
	return err
}

// Type is what help says it is.
func (d *dilationFlag) Type() string { return "number" }
