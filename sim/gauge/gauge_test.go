package gauge

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/units"
)

// TestRead: values come in the order of their gauges, those without a meaning are
// omitted, and they survive JSON.
func TestRead(t *testing.T) {
	gauges := []Gauge{{Name: "limited", Unit: YesNo}, {Name: "alpha", Unit: Share, Brief: true}, {Name: "rate", Unit: BitsPerSecond}, {Name: "rtt", Unit: Seconds}, {Name: "window", Unit: Bytes}, {Name: "stage"}}
	got := Read(gauges, []float64{BoolValue(true), None, RateValue(units.Gbps), TimeValue(2 * units.Microsecond), SizeValue(units.KB), 3})
	want := []Value{
		{"limited", YesNo, 1, false}, {"rate", BitsPerSecond, 1e9, false}, {"rtt", Seconds, 2e-6, false}, {"window", Bytes, 1000, false}, {"stage", Number, 3, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back []Value
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Errorf("%s (-want +got):\n%s", b, diff)
	}
	if err := new(Unit).UnmarshalText([]byte("parsec")); err == nil {
		t.Error("parsec is a unit")
	}
}
