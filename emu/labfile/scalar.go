package labfile

import (
	"fmt"

	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/emu/yamlfile"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// MaxNodes bounds the nodes of a lab, and maxRadix the ports of a fat-tree's switches.
const (
	MaxNodes = 20_000
	maxRadix = 48
)

// Count is a count of things that a generator makes.
type Count int

// UnmarshalText reads a number from 1 to MaxNodes.
func (c *Count) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, MaxNodes)
	*c = Count(n)
	return err
}

// Dilation is the factor by which a lab in the wall clock is slower than real
// time.
type Dilation int

// UnmarshalText reads a number from 1 to wall.MaxDilation.
func (d *Dilation) UnmarshalText(b []byte) error {
	n, err := ParseDilation(string(b))
	*d = Dilation(n)
	return err
}

// ParseDilation reads a dilation, such as "100": 1 to wall.MaxDilation.
func ParseDilation(s string) (int, error) {
	n, err := yamlfile.ParseInt([]byte(s), 1, wall.MaxDilation)
	if err != nil {
		return n, fmt.Errorf("%w: dilation is the number of seconds of real time that one second of the lab takes", err)
	}
	return n, nil
}

// Radix is the number of ports of a fat-tree's switches.
type Radix int

// UnmarshalText reads an even number from 2 to maxRadix.
func (k *Radix) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 2, maxRadix)
	if err == nil && n%2 != 0 {
		return fmt.Errorf("%d is odd: half of a switch's ports go up and half go down, so write %d or %d", n, n-1, n+1)
	}
	*k = Radix(n)
	return err
}

// DSCP is a differentiated services code point.
type DSCP uint8

// UnmarshalText reads a number from 0 to 63.
func (d *DSCP) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 0, 63)
	*d = DSCP(n)
	return err
}

// IPVersion is 4 or 6.
type IPVersion uint8

// UnmarshalText reads 4 or 6.
func (v *IPVersion) UnmarshalText(b []byte) error {
	switch string(b) {
	case "4":
		*v = 4
	case "6":
		*v = 6
	default:
		return fmt.Errorf("%q must be one of 4, 6", b)
	}
	return nil
}

// PrivateDir is a directory of which a host has its own copy.
type PrivateDir string

// UnmarshalText reads a path, such as /tmp.
func (d *PrivateDir) UnmarshalText(b []byte) error {
	*d = PrivateDir(b)
	return netnslab.CheckPrivate(string(b))
}

// setTo overrides *to with a setting of the file; from is nil if the file does not set it.
func setFrom[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
