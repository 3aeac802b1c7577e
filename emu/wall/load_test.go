package wall

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// The watch judges successive seconds.
func TestWatch_WarnsOfLateness(t *testing.T) {
	second := func(busy float64, packets, late uint64) Load {
		return Load{
			At: units.Second, Idle: units.Time((1 - busy) * float64(units.Second)),
			Deliveries: packets, Beyond: late, Packets: packets, Bytes: 1250 * packets,
		}
	}
	calm, quiet := second(0.5, 10_000, 50), second(0, 5, 5)
	full, robbed := second(0.97, 80_000, 4000), second(0.4, 80_000, 4000)
	// The process was stopped for 8 s, and the engine had to catch up.
	stopped := full
	stopped.At, stopped.Stood, stopped.Absent = 2*units.Second, 7*units.Second, 8*units.Second
	type step struct {
		load  Load
		taken Taken
		want  []string // contained in the message; nil means no message
	}
	for name, steps := range map[string][]step{
		"on time": {{calm, Taken{}, nil}, {quiet, Taken{}, nil}, {calm, Taken{}, nil}},
		"full, and well again": {
			{calm, Taken{}, nil},
			{full, Taken{}, []string{"does not keep up: 5% of 80000 deliveries", "later than 1ms", "full at 80k packets/s (800Mbps)", "about 64k packets/s (640Mbps", "with dilation: 2 or more"}},
			{full, Taken{}, nil}, {calm, Taken{}, nil}, {calm, Taken{}, nil}, {calm, Taken{}, []string{"keeps up again"}}, {calm, Taken{}, nil},
		},
		"stopped": {
			{calm, Taken{}, nil},
			{stopped, Taken{}, []string{"the engine did not run for 8s of the last 9s: its process was stopped (SIGSTOP, Ctrl-Z)", "emulated time stood still for 7s"}},
			{calm, Taken{}, nil},
		},
		"suspended":                {{Load{At: units.Second, Suspended: 2 * units.Hour}, Taken{}, []string{"the machine was suspended for 2h0m0s"}}, {calm, Taken{}, nil}},
		"robbed by the hypervisor": {{robbed, Taken{Stolen: 0.2}, []string{"needed only 40% of a core", "the hypervisor gave 20%"}}},
		"held back by a limit":     {{full, Taken{Stolen: 0.2, Throttled: 0.3}, []string{"A limit on processor time held the engine back for 30% of it", "CPUQuota=", "dilation: 2"}}},
		"robbed by programs":       {{robbed, Taken{}, []string{"needed only 40% of a core", "programs in the hosts", "dilation: 2"}}},
		"lasting": append([]step{{full, Taken{}, []string{"does not keep up"}}},
			append(make([]step, 0), repeat(step{full, Taken{}, nil}, 9, step{full, Taken{}, []string{"does not keep up"}})...)...),
	} {
		w := Watch{Limit: units.Millisecond}
		for i, s := range steps {
			got := w.JudgeLoad(s.load, s.taken)
			if (got == "") != (len(s.want) == 0) {
				t.Errorf("%s: in second %d it says %q, want %q", name, i, got, s.want)
			}
			for _, part := range s.want {
				if !strings.Contains(got, part) {
					t.Errorf("%s: in second %d it says %q, without %q", name, i, got, part)
				}
			}
		}
	}
}

// The suggested dilation lets the engine carry, in real time, everything that the sending
// hosts may send, and keeps lateness within the limit, which is in emulated time.
func TestWatch_SuggestsADilationThatSuffices(t *testing.T) {
	// In a second of real time 80,000 packets of 1250 bytes: 800 Mb/s, 640 of them on
	// time.
	full := Load{At: units.Second, Idle: units.Second / 50, Deliveries: 80_000, Beyond: 8000, Packets: 80_000, Bytes: 100_000_000}
	robbed := full
	robbed.Idle = units.Second / 2
	dilated := func(l Load, d units.Time) Load { l.At, l.Idle = l.At/d, l.Idle/d; return l }
	demand := func(l Load, r units.Rate) Load { l.Demand = r; return l }
	late := func(l Load, t units.Time) Load { l.Late = t; return l }
	for name, c := range map[string]struct {
		dilation int
		load     Load
		want     string
	}{
		"twice, where nothing is known":          {1, full, "with dilation: 2 or more."},
		"what the hosts may send":                {1, demand(full, 40*units.Gbps), "with dilation: 63 it carries the full rate"},
		"as much more at a dilation":             {10, demand(dilated(full, 10), 40*units.Gbps), "full at 80k packets/s (800Mbps)"},
		"of real time":                           {10, demand(dilated(full, 10), 40*units.Gbps), "with dilation: 63 it carries the full rate"},
		"more than there is":                     {10, demand(dilated(full, 10), units.Gbps), "with dilation: 11 it carries the full rate"},
		"no more than the limit":                 {1, demand(full, 900*units.Tbps), "the largest dilation, 1000000, does not suffice"},
		"lateness beyond the limit":              {1, late(robbed, 3600*units.Second), "with dilation: 1000000, they would matter less"},
		"twice the limit":                        {MaxDilation, full, "with dilation: 1000000 or more."},
		"two digits":                             {1, demand(full, 400*units.Gbps), "with dilation: 630 it carries the full rate"},
		"lateness within the limit":              {1, late(robbed, 7500*units.Microsecond), "with dilation: 8, they would matter less"},
		"lateness within the limit, at dilation": {10, late(dilated(robbed, 10), 2500*units.Microsecond), "with dilation: 25, they would matter less"},
	} {
		w := Watch{Limit: units.Millisecond, Dilation: c.dilation}
		if said := w.JudgeLoad(c.load, Taken{}); !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, without %q", name, said, c.want)
		}
	}
	stood := demand(full, 8*units.Gbps)
	stood.At, stood.Stood = units.Second/4, 3*units.Second/4
	w := Watch{Limit: units.Millisecond, Dilation: 100}
	if said := w.JudgeLoad(dilated(stood, 100), Taken{}); !strings.Contains(said, "stood still for") {
		t.Error(said)
	}
}

// TestWatch_NamesCopiesAsTheCause: if switches made more copies than packets entered, the message says
// so, and computes nothing from the rate of what entered.
func TestWatch_NamesCopiesAsTheCause(t *testing.T) {
	for name, l := range map[string]Load{
		"full":      {At: units.Second / 10, Stood: 9 * units.Second / 10, Deliveries: 371_357, Packets: 1255, Bytes: 112_950, Copies: 370_102, Demand: 300 * units.Gbps, Late: units.Second},
		"not full":  {At: units.Second, Idle: units.Second / 2, Deliveries: 371_357, Beyond: 300_000, Packets: 1255, Bytes: 112_950, Copies: 370_102, Demand: 300 * units.Gbps, Late: units.Second},
		"as a rate": {At: 2 * units.Second, Deliveries: 742_714, Beyond: 742_714, Packets: 2510, Bytes: 225_900, Copies: 740_204, Demand: 300 * units.Gbps},
	} {
		w := Watch{Limit: units.Millisecond}
		for _, said := range []string{w.JudgeLoad(l, Taken{}), w.Summary()} {
			if !strings.Contains(said, "It handled 1.25k packets/s and 370k copies/s that switches made of them") && !strings.Contains(said, "It handled 1.26k packets/s and 370k copies/s that switches made of them") || strings.Contains(said, "dilation: ") {
				t.Errorf("%s: %q", name, said)
			}
		}
	}
	few := Load{At: units.Second, Deliveries: 80_000, Beyond: 80_000, Packets: 80_000, Bytes: 100_000_000, Copies: 1000}
	w := Watch{Limit: units.Millisecond}
	if said := w.JudgeLoad(few, Taken{}); strings.Contains(said, "copies") {
		t.Error(said)
	}
}

func repeat[T any](x T, n int, last T) (out []T) {
	for range n {
		out = append(out, x)
	}
	return append(out, last)
}

// A share of late deliveries that the file allows is not reported, and a run that kept up
// has no summary.
func TestWatch_AllowsWhatTheFileAllows(t *testing.T) {
	l := Load{At: units.Second, Deliveries: 1000, Beyond: 100, Packets: 1000}
	w := Watch{Allowed: 0.1}
	if said := w.JudgeLoad(l, Taken{}); said != "" || w.Summary() != "" {
		t.Errorf("10%% late, 10%% allowed: %q, %q", said, w.Summary())
	}
	l.Beyond++
	if said := w.JudgeLoad(l, Taken{}); said == "" || !strings.HasPrefix(w.Summary(), "late in 1 of 2 seconds") || !w.IsLate() {
		t.Errorf("10.1%% late, 10%% allowed: %q, %q", said, w.Summary())
	}
}

// Neither the messages nor the summary blame the load.
func TestWatch_DoesNotBlameTheLoadForAStop(t *testing.T) {
	w := Watch{Limit: units.Millisecond}
	w.JudgeLoad(Load{At: 9 * units.Second, Absent: 8 * units.Second, Deliveries: 1000, Beyond: 1000, Packets: 1000}, Taken{})
	if got, want := w.Summary(), "the engine did not run for 8s: its process was stopped, or the machine was"; got != want || w.IsLate() {
		t.Errorf("%q, want %q", got, want)
	}
	w.JudgeLoad(Load{At: units.Second, Deliveries: 1000, Beyond: 1000, Packets: 1000}, Taken{})
	if got := w.Summary(); !strings.Contains(got, "was; late in 1 of 1 seconds") {
		t.Errorf("%q", got)
	}
}

// The summary names the same cause as the message of the worst period.
func TestWatch_SummaryNamesTheCauseOfTheWorstPeriod(t *testing.T) {
	full := Load{At: units.Second, Deliveries: 80_000, Beyond: 4000, Packets: 80_000, Bytes: 100_000_000}
	robbed := full
	robbed.Idle, robbed.Beyond = units.Second*6/10, 8000
	for want, taken := range map[string]Taken{"the hypervisor gave 20%": {Stolen: 0.2}, "A limit on processor time": {Throttled: 0.2}, "programs in the hosts": {}} {
		w := Watch{Limit: units.Millisecond}
		w.JudgeLoad(full, Taken{})
		w.JudgeLoad(robbed, taken)
		if got := w.Summary(); !strings.Contains(got, want) {
			t.Errorf("%q, without %q", got, want)
		}
	}
}
