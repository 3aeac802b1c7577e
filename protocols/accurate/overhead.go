package accurate

import "fmt"

// Overhead is what FRPs are paid from.
type Overhead uint8

const (
	// ReserveOverhead pays FRPs from α, as the paper does (§II).
	ReserveOverhead Overhead = iota
	// MeasureOverhead takes what FRPs and responses took in the last period off the
	// capacity, so that α is headroom alone.
	MeasureOverhead
)

var overheadNames = [...]string{"reserve", "measure"}

// String gives the name that a lab file uses.
func (o Overhead) String() string { return overheadNames[o] }

// Names are those that a lab file can use.
func (Overhead) Names() []string { return overheadNames[:] }

// MarshalText gives the name that a lab file uses.
func (o Overhead) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the name that a lab file uses.
func (o *Overhead) UnmarshalText(b []byte) error {
	for i, name := range overheadNames {
		if name == string(b) {
			*o = Overhead(i)
			return nil
		}
	}
	return fmt.Errorf("%q is nothing that FRPs are paid from (there are reserve, measure)", b)
}
