package report

import (
	"fmt"
	"strings"
)

// TrafficFailures says which of the modelled traffic failed, and why the first did; "" if
// nothing failed. Flows and messages that were under way when the run ended have not failed,
// nor have flows of UDP packets that were lost: nothing answers them.
func (r *Report) TrafficFailures() string {
	var all []string
	if r.Patterns != nil {
		for i := range r.Patterns.Patterns {
			if x := &r.Patterns.Patterns[i]; x.Failed > 0 {
				all = append(all, fmt.Sprintf("%d of %d flows of %s (%s)", x.Failed, x.Flows, x.Pattern, x.FirstFailure))
			}
		}
	}
	if s := r.TransferSums; s != nil && s.Failed > 0 {
		all = append(all, fmt.Sprintf("%d messages in %d of %d transfers (%s)", s.Failed, s.FailedOf, s.Transfers, s.FirstFailure))
	}
	return strings.Join(all, ", ")
}
