package accurate

import "fmt"

// Overhead selects where the capacity for FRPs comes from.
type Overhead uint8

const (
	// ReserveOverhead takes it from α, as the paper does (§II).
	ReserveOverhead Overhead = iota
	// MeasureOverhead subtracts from the capacity what FRPs and responses took
	// in the last period, so that α is headroom only.
	MeasureOverhead
)

var overheadNames = [...]string{"reserve", "measure"}

// String returns the name used in lab files.
func (o Overhead) String() string { return overheadNames[o] }

// Names returns the names that a lab file can use.
func (Overhead) Names() []string { return overheadNames[:] }

// MarshalText returns the name used in lab files.
func (o Overhead) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the name used in lab files.
func (o *Overhead) UnmarshalText(b []byte) error {
	for i, name := range overheadNames {
		if name == string(b) {
			*o = Overhead(i)
			return nil
		}
	}
	return fmt.Errorf("unknown overhead %q: must be reserve or measure", b)
}
