package report

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/traffic/workload"
)

// TestTrafficFailures_AreInTheFirstLines: the second line of a report says what failed, also
// after that of a partial run; and there is none if flows are only unfinished.
func TestTrafficFailures_AreInTheFirstLines(t *testing.T) {
	for _, c := range []struct {
		report Report
		want   string
	}{
		{Report{}, ""},
		{Report{Patterns: &Patterns{Patterns: []PatternFlows{{Pattern: "a", Flows: 5, Done: 3, Unfinished: 1, Waiting: 1}}}}, ""},
		{Report{TransferSums: &workload.TransferSums{Transfers: 2}}, ""},
		{Report{Patterns: &Patterns{Patterns: []PatternFlows{
			{Pattern: "a", Flows: 5, Done: 1, Failed: 4, FirstFailure: "IBV_WC_RETRY_EXC_ERR"}, {Pattern: "b", Flows: 1, Done: 1},
		}}}, "4 of 5 flows of a (IBV_WC_RETRY_EXC_ERR)"},
		{Report{
			Patterns:     &Patterns{Patterns: []PatternFlows{{Pattern: "a", Flows: 5, Failed: 5, FirstFailure: "x"}}},
			TransferSums: &workload.TransferSums{Transfers: 4, Failed: 3, FailedOf: 2, FirstFailure: "IBV_WC_RNR_RETRY_EXC_ERR"},
		}, "5 of 5 flows of a (x), 3 messages in 2 of 4 transfers (IBV_WC_RNR_RETRY_EXC_ERR)"},
	} {
		if got := c.report.TrafficFailures(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		for _, partial := range []*Partial{nil, {Why: "interrupted"}} {
			r := c.report
			r.Partial = partial
			var b strings.Builder
			r.Write(&b)
			lines := strings.Split(b.String(), "\n")
			at := 1
			if partial != nil {
				at = 2
			}
			if says := strings.HasPrefix(lines[at], "FAILED "); says != (c.want != "") || says && lines[at] != "FAILED   "+c.want {
				t.Errorf("line %d is %q, want %q", at+1, lines[at], c.want)
			}
		}
	}
}
