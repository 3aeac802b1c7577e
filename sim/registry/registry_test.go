package registry

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

func TestRegistry(t *testing.T) {
	r := New[int]("rate control")
	r.Register("timely", 2)
	r.Register("dcqcn", 1)
	if v, err := r.Find("timely"); v != 2 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	_, err := r.Find("hpc")
	if err == nil || err.Error() != `"hpc" is not a rate control (there are dcqcn, timely)` {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"dcqcn", "", "none"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is registered", name)
				}
			}()
			r.Register(name, 3)
		}()
	}
}

// TestCheck: each parameter out of range is named once, with what would be valid.
func TestCheck(t *testing.T) {
	var c Check
	c.CheckNumber("n", 3, 0, 3)
	c.CheckShare("s", 1, 0, 1)
	c.CheckTime("t", units.Hour, 0)
	c.CheckRate("r", units.Gbps, units.Gbps, "1Gbps")
	if err := c.Err(); err != nil {
		t.Errorf("nothing is wrong: %v", err)
	}
	c.CheckNumber("n", 4, 0, 3)
	c.CheckShare("s", units.Fraction(math.NaN()), 0, 1)
	c.CheckTime("t", 0, units.Picosecond)
	c.CheckTime("u", 0, units.Microsecond)
	c.CheckRate("r", 2*units.Gbps, units.Gbps, "1Gbps")
	c.CheckRate("q", 0, 0, "1Gbps")
	c.AddError(errors.New("the port has no rate"))
	var keys []string
	for _, err := range c.Err().(interface{ Unwrap() []error }).Unwrap() {
		var bad *RangeError
		if errors.As(err, &bad) {
			keys = append(keys, bad.Key+": "+bad.Fix)
		}
	}
	want := "n: a number from 0 to 3|s: a share from 0% to 100%|t: a time above 0, up to 3600s, such as 50us|u: a time from 1us to 3600s, such as 50us|r: a rate up to the link's, 1Gbps|q: a rate above 0, such as 1Gbps"
	if got := strings.Join(keys, "|"); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	if !strings.Contains(c.Err().Error(), "the port has no rate") {
		t.Errorf("%v", c.Err())
	}
}

// TestChoice_ZeroIsNone: the zero Choice is none and of no kind; another is of the kind that has
// its name.
func TestChoice_ZeroIsNone(t *testing.T) {
	r := New[int]("rate control")
	r.Register("dcqcn", 1)
	var none Choice[error]
	if !none.IsNone() || none.String() != "none" || r.Kind(none.Name) != 0 {
		t.Errorf("%q, %v, kind %d", none, none.IsNone(), r.Kind(none.Name))
	}
	one := Choice[error]{Name: "dcqcn", Settings: errors.New("parameters")}
	if one.IsNone() || one.String() != "dcqcn" || r.Kind(one.Name) != 1 {
		t.Errorf("%q, %v, kind %d", one, one.IsNone(), r.Kind(one.Name))
	}
	if r.Kind("unknown") != 0 {
		t.Errorf("kind %d of an unknown name", r.Kind("unknown"))
	}
}
