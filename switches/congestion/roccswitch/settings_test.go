package roccswitch

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/protocols/rocc"
	"github.com/weftlab/weft/protocols/rocc/flowtable"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// TestErrors: each mistake gives one error, which says what is valid.
func TestErrors(t *testing.T) {
	kind, err := congestion.Points.Find("rocc")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(s *Settings)
		limit  units.Bytes
		want   string
	}{
		{func(*Settings) {}, 0, ""},
		{func(s *Settings) { *s = *kind.Settings("", 0).(*Settings) }, 0, "f_max: 0 is out of range: give a rate above 0, such as 40Gbps, or give the link a rate"},
		{func(s *Settings) { s.Interval = 0 }, 0, "t: 0s is out of range: give a time from 1us to 3600s, such as 50us"},
		{func(s *Settings) { s.DeltaQ = 0 }, 0, "delta_q: 0B is out of range: give an amount above 0, such as 600B"},
		{func(s *Settings) { s.DeltaF = 1500 }, 0, "delta_f: 1.5Kbps is out of range: give whole kilobits per second, such as 10Mbps"},
		{func(s *Settings) { s.DeltaF, s.FMin = 100*units.Kbps, 100*units.Mbps }, 0, "f_max: 40Gbps is out of range: give at most 65535 times delta_f, 100Kbps: raise delta_f"},
		{func(s *Settings) { s.FMin = units.Mbps }, 0, "f_min: 1Mbps is out of range: give a rate from delta_f, 10Mbps, to f_max, 40Gbps"},
		{func(s *Settings) { s.QRef = 0 }, 0, "q_ref: 0B is out of range: give at least delta_q, 600B, such as 150KB"},
		{func(s *Settings) { s.QMid = 150 * units.KB }, 0, "q_mid: 150KB is out of range: give more than q_ref, 150KB"},
		{func(s *Settings) { s.QMax = 300 * units.KB }, 0, "q_max: 300KB is out of range: give more than q_mid, 300KB"},
		{func(*Settings) {}, 360 * units.KB, "q_max: 360KB is out of range: give less than 360KB, as the queue never grows beyond that"},
		{func(s *Settings) { s.Alpha = 0 }, 0, "alpha: 0 is out of range: give a number above 0, up to 1000, such as 0.3: it brings the queue to q_ref"},
		{func(s *Settings) { s.Beta = -1 }, 0, "beta: -1 is out of range: give a number from 0 to 1000, such as 1.5"},
		{func(s *Settings) { s.FractionBits = 17 }, 0, "fraction_bits: 17 is out of range: give a number from 0 to 16"},
		{func(s *Settings) { s.FStart = 50 * units.Gbps }, 0, "f_start: 50Gbps is out of range: give a rate from f_min, 100Mbps, to f_max, 40Gbps"},
		{func(s *Settings) { s.Rule = "old" }, 0, "rule: old is out of range: give auto-tuned or proportional"},
		{func(s *Settings) { s.Rule, s.Compute = rocc.Proportional, rocc.AtHost }, 0, "rule: proportional is out of range: give auto-tuned beside compute: host, as hosts know no other rule"},
		{func(s *Settings) { s.DSCP = 64 }, 0, "dscp: 64 is out of range: give a number from 0 to 63"},
		{func(s *Settings) { s.Table = "all" }, 0, "table: all is out of range: give one of queued, recent, bounded, afd, elephant-trap or bubble-cache"},
		{func(s *Settings) { s.TableAge = units.Second }, 0, "table_age has no effect on table: queued: leave it out, or choose bounded or bubble-cache"},
	} {
		s := kind.Settings("", 40*units.Gbps).(*Settings)
		c.change(s)
		got := ""
		if err := s.Validate(c.limit); err != nil {
			got = err.Error()
		}
		if first, _, _ := strings.Cut(got, "\n"); first != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestTablesHaveRoomForAll: F_max/F_min bounds the number of flows (§3.4).
func TestTablesHaveRoomForAll(t *testing.T) {
	for kind, want := range map[flowtable.Kind]int{flowtable.Queued: 0, flowtable.Recent: 0, flowtable.Bounded: 400, flowtable.AFD: 1600, flowtable.ElephantTrap: 400, flowtable.BubbleCache: 400} {
		s := &Settings{Params: rocc.PaperParams(40 * units.Gbps), Table: kind}
		if n := s.tableConfig().Size; n != want {
			t.Errorf("%s: room for %d flows, want %d", kind, n, want)
		}
		if s.TableSize = 7; want > 0 && s.tableConfig().Size != 7 {
			t.Errorf("%s: table_size does nothing", kind)
		}
	}
}
