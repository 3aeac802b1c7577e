package units

import (
	"encoding/json"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTimeOfIsExact compares with arithmetic of unlimited precision, from a byte to
// a flow's traffic of a year, and over every rate.
func TestTimeOfIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Bytes(rapid.OneOf(rapid.Int64Range(0, 10_000), rapid.Int64Range(1<<20-2, 1<<20+2), rapid.Int64Range(0, 1<<62)).Draw(t, "bytes"))
		r := Rate(rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(int64(Kbps), int64(Tbps)), rapid.Int64Range(1, 1<<63-1)).Draw(t, "rate"))
		want := new(big.Int).Mul(big.NewInt(int64(n)), big.NewInt(int64(8*Second)))
		want.Add(want, big.NewInt(int64(r)-1)).Quo(want, big.NewInt(int64(r)))
		if never := big.NewInt(int64(Never)); want.Cmp(never) > 0 {
			want = never
		}
		if got := r.TimeOf(n); int64(got) != want.Int64() {
			t.Fatalf("%d bytes at %d b/s take %d ps, want %v", n, r, got, want)
		}
	})
}

func TestPer(t *testing.T) {
	for _, c := range []struct {
		r    Rate
		t    Time
		want Bytes
	}{{10 * Gbps, Microsecond, 1250}, {1 * Gbps, 8 * Nanosecond, 1}, {1 * Gbps, 7 * Nanosecond, 0}, {0, Second, 0}} {
		if got := c.r.BytesIn(c.t); got != c.want {
			t.Errorf("%v carries %d bytes in %v, want %d", c.r, got, c.t, c.want)
		}
	}
}

// TestText: JSON carries every quantity as the text of a lab file.
func TestText(t *testing.T) {
	type quantities struct {
		T Time
		R Rate
		B Bytes
		F Fraction
	}
	want := quantities{1500 * Nanosecond, 2500 * Mbps, 64 * KB, 0.001}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if s := `{"T":"1.5us","R":"2.5Gbps","B":"64KB","F":"0.1%"}`; string(text) != s {
		t.Errorf("JSON %s, want %s", text, s)
	}
	var got quantities
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	for _, bad := range []string{`{"T":"5 parsecs"}`, `{"R":"0Gbps"}`, `{"B":"1Mb"}`, `{"F":"120%"}`} {
		if json.Unmarshal([]byte(bad), &got) == nil {
			t.Errorf("%s was read without an error", bad)
		}
	}
}

func TestFractionPrintsShort(t *testing.T) {
	for f, want := range map[Fraction]string{0: "0%", 1: "100%", 0.07: "7%", 1e-6: "0.0001%", 1.0 / 3: "33.3333333333%"} {
		if f.String() != want {
			t.Errorf("%v prints %s, want %s", float64(f), f, want)
		}
	}
}

func TestTimeConversions(t *testing.T) {
	if got := FromDuration(1500 * time.Microsecond); got != 1500*Microsecond {
		t.Errorf("FromDuration gives %v", got)
	}
	if got := (1999 * Picosecond).Duration(); got != time.Nanosecond {
		t.Errorf("1999 ps are %v, want 1ns: towards zero", got)
	}
	if s, us := (1500 * Millisecond).Seconds(), (1500 * Nanosecond).Micros(); s != 1.5 || us != 1.5 {
		t.Errorf("seconds %v, microseconds %v; want 1.5 of each", s, us)
	}
	if Never.String() != "never" || (-1500*Nanosecond).String() != "-1.5us" || Time(1).String() != "1ps" {
		t.Errorf("printed %v, %v, %v", Never, -1500*Nanosecond, Time(1))
	}
}
