package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/weftlab/weft/protocols/rocc/loop"
	"github.com/weftlab/weft/sim/units"
)

// relation is how our value should relate to the paper's.
type relation string

const (
	about   relation = ""
	above   relation = "above"
	atLeast relation = "at least"
)

const degree = "°"

// row is a number in the paper's text beside ours.
type row struct {
	what, source string
	unit         string
	relation     relation
	paper, ours  float64
	tolerance    float64     // of about, in the row's unit
	known        *[2]float64 // range of our value if it is known to differ: from, to
	note         string
}

// agreesWithPaper reports whether our value is as the paper says.
func (r *row) agreesWithPaper() bool {
	switch r.relation {
	case above:
		return r.ours > r.paper
	case atLeast:
		return r.ours >= r.paper
	}
	return math.Abs(r.ours-r.paper) <= r.tolerance
}

// isExplained reports whether our value agrees, or differs only as far as the note explains.
func (r *row) isExplained() bool {
	if r.known == nil {
		return r.agreesWithPaper()
	}
	return r.note != "" && r.ours >= r.known[0] && r.ours <= r.known[1]
}

// formatNumber formats a value in the row's unit.
func (r *row) formatNumber(v float64) string {
	switch r.unit {
	case "":
		return units.FormatDigits(v, 4)
	case degree:
		return formatDegrees(v)
	}
	return units.FormatDigits(v, 4) + " " + r.unit
}

// comparePaper returns the difference of angles, and otherwise the ratio.
func (r *row) comparePaper() string {
	if r.unit == degree {
		return fmt.Sprintf("%+.1f°", r.ours-r.paper)
	}
	return "× " + units.FormatDigits(r.ours/r.paper, 3)
}

func (r *row) verdictOf() string {
	v := "DIFFERS, not explained"
	switch {
	case r.agreesWithPaper():
		v = "agrees"
	case r.isExplained():
		v = "differs"
	}
	if r.note != "" {
		v += ": " + r.note
	}
	return v
}

func formatDegrees(v float64) string { return fmt.Sprintf("%.1f°", v) }

// formatTable prints rows as Markdown.
func formatTable(rows []row) string {
	var b strings.Builder
	b.WriteString("| What | Paper (where) | Ours | Difference or ratio | Verdict |\n| --- | --- | --- | --- | --- |\n")
	for i := range rows {
		r := &rows[i]
		says := strings.TrimSpace(string(r.relation) + " " + r.formatNumber(r.paper))
		fmt.Fprintf(&b, "| %s | %s (%s) | %s | %s | %s |\n", r.what, says, r.source, r.formatNumber(r.ours), r.comparePaper(), r.verdictOf())
	}
	return b.String()
}

// findExtremes returns the least and the greatest value of a function for a range of numbers of
// flows.
func findExtremes(from, to int, of func(n int) float64) (lowest, greatest float64) {
	lowest, greatest = math.Inf(1), math.Inf(-1)
	for n := from; n <= to; n++ {
		v := of(n)
		lowest, greatest = min(lowest, v), max(greatest, v)
	}
	return lowest, greatest
}

// paperRows returns what §5 says in its text, and what §6 says about stability, beside the
// model.
func paperRows() []row {
	analysis, smallest := loop.AnalysisSettings(), loop.AnalysisSettings()
	smallest.Alpha, smallest.Beta = 0.0093, 0.0937
	margin := func(s loop.Settings) func(int) float64 {
		return func(n int) float64 { return s.Loop(n).Margin() }
	}
	tunedMargin := func(s loop.Settings) func(int) float64 {
		return func(n int) float64 { return s.TunedFor(n).Loop(n).Margin() }
	}
	atTwo := analysis.Loop(2).Margin()
	// With this much of the loop gain, N = 10 has the margin that the paper prints.
	part := analysis.FlowsAt(-50) / 10
	minMargin, _ := findExtremes(2, 128, margin(smallest))
	minTuned, greatestTuned := findExtremes(2, 64, tunedMargin(analysis))
	slow, fast := findExtremes(2, 64, func(n int) float64 { return analysis.TunedFor(n).Loop(n).Crossover() })
	evaluated := func(s loop.Settings) float64 {
		m := tunedMargin(s)
		return min(m(2), m(10), m(100))
	}
	bandwidthDelay := float64((40 * units.Gbps).BytesIn(loop.Interval)) / 1e3 // KB
	return []row{
		{what: "phase margin of 0.3:3, N = 2", source: "§5.2, Fig. 6", unit: degree, paper: 50, ours: atTwo, tolerance: 1},
		{
			what: "the same, N = 10", source: "§5.2, Fig. 6", unit: degree, paper: -50, ours: analysis.Loop(10).Margin(), known: &[2]float64{-63, -62},
			note: fmt.Sprintf("both of the paper's margins come out with %.0f%% of our loop gain: %s and %s. §5 gives no ΔF and ΔQ; ours are those of §6",
				100*part, formatDegrees(divideGains(analysis, 1/part).Loop(2).Margin()), formatDegrees(divideGains(analysis, 1/part).Loop(10).Margin())),
		},
		{
			what: "least margin of 0.0093:0.0937, N = 2 to 128", source: "§5.2", unit: degree, relation: above, paper: 20, ours: minMargin,
			note: fmt.Sprintf("the least is at N = 2, for with little gain the margin falls too; N = 128 has %s", formatDegrees(smallest.Loop(128).Margin())),
		},
		{
			what: "α of the sixth pair, 0.3 halved five times", source: "§5.2", paper: 0.0093, ours: halvedPairs()[5].Alpha, tolerance: 0.0001,
			note: fmt.Sprintf("the paper cuts digits off; its β of 0.0937 is %s", formatShort(halvedPairs()[5].Beta)),
		},
		{
			what: "auto-tuned 0.3:3, least margin, N = 2 to 64", source: "§5.3: the same for all N; ours at N = 2", unit: degree, paper: atTwo, ours: minTuned, tolerance: 1,
			note: fmt.Sprintf("the greatest is %s: within a level, fewer flows have more", formatDegrees(greatestTuned)),
		},
		{
			what: "the same, N = 128", source: "§5.3, likewise", unit: degree, paper: atTwo, ours: analysis.TunedFor(128).Loop(128).Margin(), known: &[2]float64{24, 25},
			note: "AUTO_TUNE has no level beyond 64 flows, so 128 have the margin of 4 with 0.3:3",
		},
		{
			what: "auto-tuned 0.3:3, greatest bandwidth over the least, N = 2 to 64", source: "§5.3: the same response time for all N", paper: 1, ours: fast / slow, known: &[2]float64{1.5, 2},
			note: "within a level the bandwidth grows with N, which about doubles",
		},
		{
			what: "auto-tuned 0.3:1.5, least margin of N = 2, 10, 100", source: "§6.1: stable, 40 Gb/s", unit: degree, relation: above, paper: 0, ours: evaluated(loop.Evaluation40G()),
			note: "§5 analyses 0.3:3, and the evaluation has half of that β",
		},
		{
			what: "auto-tuned 0.45:2.25, least margin of N = 2, 10, 100", source: "§6.1: stable, 100 Gb/s", unit: degree, relation: above, paper: 0, ours: evaluated(loop.Evaluation100G()),
		},
		{
			what: "flows with which auto-tuned 0.3:1.5 is stable", source: "§6.3: up to 60 on a link of 40 Gb/s", relation: atLeast, paper: 60, ours: float64(loop.Evaluation40G().MaxTunedFlows()),
		},
		{
			what: "flows with which auto-tuned 0.45:2.25 is stable", source: "§6.3: up to 300 on a link of 100 Gb/s", relation: atLeast, paper: 300, ours: float64(loop.Evaluation100G().MaxTunedFlows()), known: &[2]float64{222, 222},
			note: "the paper reports no instability. The model's feedback takes all of T, 40 µs; that of §6 takes 15 µs in the NIC and 1.5 µs on each link, which leaves more margin. The model cannot say whether it is enough for 300",
		},
		{
			what: "Q_ref by the rule of §5.2, half of T·C, at 40 Gb/s", source: "§6, system parameters", unit: "KB", paper: 150, ours: bandwidthDelay / 2, known: &[2]float64{100, 100},
			note: "the evaluation does not keep to the rule, at 100 Gb/s neither (300 KB; half is 250). The model does not depend on Q_ref",
		},
	}
}

// pairTable prints margins, limits and bandwidths of the pairs of Fig. 7 and of §6.
func pairTable() string {
	var b strings.Builder
	b.WriteString("| α:β, T = 40 µs | Margin, N = 2 | N = 10 | N = 128 | Stable up to | Auto-tuned | Bandwidth, N = 2 |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range append(halvedPairs(), loop.Evaluation40G(), loop.Evaluation100G()) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | N = %d | N = %d | %s |\n", formatPair(s), formatDegrees(s.Loop(2).Margin()), formatDegrees(s.Loop(10).Margin()), formatDegrees(s.Loop(128).Margin()),
			s.MaxFlows(), s.MaxTunedFlows(), formatBandwidth(s.Loop(2)))
	}
	b.WriteString("\nThe bandwidth is the frequency at which the gain is 1. The paper's text gives no unit for it.\n")
	return b.String()
}

// formatBandwidth formats a crossover in both units that the paper may mean.
func formatBandwidth(l loop.Loop) string {
	w := l.Crossover()
	return fmt.Sprintf("%s rad/s (%s Hz)", units.FormatDigits(w, 4), units.FormatDigits(w/(2*math.Pi), 4))
}

// evaluateSettings prints the results of the user's settings for some numbers of flows.
func evaluateSettings(s loop.Settings, flows []int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "α = %s, β = %s, T = %v, ΔF = %v, ΔQ = %v, so κ = %s/s.\n", formatShort(s.Alpha), formatShort(s.Beta), s.Interval, s.DeltaF, s.DeltaQ, units.FormatDigits(s.Kappa(), 4))
	fmt.Fprintf(&b, "%s with fixed gains; %s with auto-tuning.\n\n", describeStability(s.MaxFlows()), strings.ToLower(describeStability(s.MaxTunedFlows())))
	b.WriteString("| Flows | Margin | Bandwidth | Auto-tuned α:β | Margin | Bandwidth |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, n := range flows {
		t := s.TunedFor(n)
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", n, formatDegrees(s.Loop(n).Margin()), formatBandwidth(s.Loop(n)), formatPair(t), formatDegrees(t.Loop(n).Margin()), formatBandwidth(t.Loop(n)))
	}
	return b.String()
}

func describeStability(flows int) string {
	switch flows {
	case 0:
		return "Unstable with any number of flows"
	case 1:
		return "Stable with 1 flow alone"
	case math.MaxInt32:
		return "Stable with any number of flows"
	}
	return fmt.Sprintf("Stable with up to %d flows", flows)
}
