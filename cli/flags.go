package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftlab/weft/sim/units"
)

// spanFlag adds a flag for a duration that is not negative. The initial value
// of *to is the default.
func spanFlag(c *cobra.Command, to *units.Time, name, usage string) {
	c.Flags().Var((*span)(to), name, usage)
}

// span is a duration as a flag. It refuses negative values: they would be taken
// for 0, which means "not set".
type span units.Time

// String formats s as Set reads it. The help leaves out a default of "0".
func (s *span) String() string {
	if *s == 0 {
		return "0"
	}
	return units.Time(*s).String()
}

// Type names the argument in the help.
func (s *span) Type() string { return "time" }

// Set reads a time such as 10s.
func (s *span) Set(text string) error {
	t, err := units.ParseTime(text)
	if err != nil {
		return err
	}
	if t < 0 {
		return fmt.Errorf("%v is negative: write for example %v", t, -t)
	}
	*s = span(t)
	return nil
}

// goneFlag adds a hidden flag that has been removed; using it is an error that says so.
func goneFlag(c *cobra.Command, name string) {
	c.Flags().Var(removed{}, name, "")
	_ = c.Flags().MarkHidden(name)
}

// renamedFlag adds the old name of a flag of c. It is hidden, and works with a warning.
func renamedFlag(c *cobra.Command, old, name string) {
	c.Flags().Var(renamed{c.Flags().Lookup(name).Value, old, name}, old, "")
	_ = c.Flags().MarkHidden(old)
}

// renamed is the value of a flag under its old name.
type renamed struct {
	pflag.Value
	old, name string
}

// Set warns and sets the flag.
func (r renamed) Set(text string) error {
	fmt.Fprintf(os.Stderr, "weft: --%s is now --%s; the old name works until the next release\n", r.old, r.name)
	return r.Value.Set(text)
}

type removed struct{}

func (removed) String() string { return "" }

func (removed) Set(string) error {
	return errors.New("this flag no longer has an effect: leave it out")
}

func (removed) Type() string { return "" }

// numberFlag adds a flag for a whole number that is not negative. The initial
// value of *to is the default; short may be empty.
func numberFlag[T int | uint64](c *cobra.Command, to *T, name, short, usage string) {
	c.Flags().VarP(whole[T]{to}, name, short, usage)
}

// whole is a whole number as a flag.
type whole[T int | uint64] struct{ to *T }

// String formats n as Set reads it.
func (n whole[T]) String() string {
	if n.to == nil { // pflag makes a zero value to find out what a default looks like
		return "0"
	}
	return strconv.FormatUint(uint64(*n.to), 10)
}

// Type names the argument in the help.
func (n whole[T]) Type() string { return "number" }

// Set reads a whole number.
func (n whole[T]) Set(text string) error {
	v, err := strconv.ParseUint(text, 0, 64)
	maxValue := uint64(math.MaxUint64)
	if T(0)-1 < 0 { // T is int
		maxValue = math.MaxInt
	}
	switch {
	case errors.Is(err, strconv.ErrRange) || v > maxValue:
		return fmt.Errorf("%s is too large: give at most %d", text, maxValue)
	case err != nil:
		return fmt.Errorf("%q is not a whole number of at least 0", text)
	}
	*n.to = T(v)
	return nil
}
