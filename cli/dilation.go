package cli

import (
	"strconv"

	"github.com/weftlab/weft/emu/labfile"
)

// dilationFlag is a dilation that overrides the file's; 0 means none.
type dilationFlag int

// String, Set and Type implement pflag.Value.
func (d *dilationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return strconv.Itoa(int(*d))
}

// Set reads 1 to labfile.MaxDilation.
func (d *dilationFlag) Set(s string) error {
	n, err := labfile.ParseDilation(s)
	*d = dilationFlag(n)
	return err
}

// Type names the argument in the help.
func (d *dilationFlag) Type() string { return "number" }
