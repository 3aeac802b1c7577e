package flowtable

import (
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string // "" means valid
	}{
		{Config{}, ""},
		{Config{Kind: Bounded, Size: 1, Age: units.Picosecond}, ""},
		{Config{Kind: AFD, Size: 1 << 16, Sample: 1 << 16}, ""},
		{Config{Kind: BubbleCache, Size: 1, Age: units.Hour, Sample: 1}, ""},
		{Config{Kind: "lru"}, "table: lru is out of range: give one of queued, recent, bounded, afd, elephant-trap or bubble-cache"},
		{Config{Size: 5}, "table_size has no effect on table: queued: leave it out, or choose bounded, afd, elephant-trap or bubble-cache"},
		{Config{Kind: Recent, Sample: -5}, "table_sample has no effect on table: recent: leave it out, or choose afd, elephant-trap or bubble-cache"},
		{Config{Kind: AFD, Age: 5}, "table_age has no effect on table: afd: leave it out, or choose bounded or bubble-cache"},
		{Config{Kind: Bounded, Size: -1, Age: -1}, "table_size: -1 is out of range: give a number from 1 to 65536\ntable_age: -1ps is out of range: give a time above 0, up to 3600s, such as 50us"},
		{Config{Kind: ElephantTrap, Sample: 1<<16 + 1}, "table_sample: 65537 is out of range: give a number from 1 to 65536"},
	} {
		got := ""
		if err := c.config.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s\nnot %s", c.config, got, c.want)
		}
	}
}

// TestDefaults: every kind has a summary and valid, complete defaults.
func TestDefaults(t *testing.T) {
	keys := map[Kind][]string{
		Queued: nil, Recent: nil, Bounded: {KeySize, KeyAge}, AFD: {KeySize, KeySample},
		ElephantTrap: {KeySize, KeySample}, BubbleCache: {KeySize, KeyAge, KeySample},
	}
	for _, k := range Kinds {
		d := k.Defaults()
		if err := d.Validate(); err != nil || k.Summary() == "" || d.Kind != k {
			t.Errorf("%s: %v, %q, %+v", k, err, k.Summary(), d)
		}
		if got := (Config{Kind: k}).WithDefaults(); got != d {
			t.Errorf("%s: %+v, not %+v", k, got, d)
		}
		if got := k.Keys(); !slices.Equal(got, keys[k]) {
			t.Errorf("%s has %v, not %v", k, got, keys[k])
		}
	}
	want := Config{Kind: AFD, Size: 5, Sample: 8}
	if got := (Config{Kind: AFD, Size: 5}).WithDefaults(); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}
