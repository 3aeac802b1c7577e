package resolve

import (
	"fmt"
	"strings"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/telemetry"
)

// checkTelemetry reports links from switches with a rate that in-band telemetry
// cannot encode.
func (v *directions) checkTelemetry() {
	if !v.plan.Telemetry() {
		return
	}
	for i, l := range v.plan.Links {
		for d, end := range l.Ends {
			v.checkTelemetryRate(end, l.Dir[d].Rate, v.linkPlaces[i])
		}
	}
}

// checkTelemetryRate reports a rate of the link that leaves a port of a switch if
// in-band telemetry has to encode it and cannot.
func (v *directions) checkTelemetryRate(from plan.End, rate units.Rate, place any) {
	if _, ok := telemetry.RateCode(rate); ok || v.plan.Nodes[from.Node].Kind != plan.Switch {
		return
	}
	var known []string
	for _, r := range telemetry.RateCodes() {
		known = append(known, r.String())
	}
	v.FailOnce(place, fmt.Sprintf("give it one of %s, or the NICs a rate control without telemetry", strings.Join(known, ", ")),
		"in-band telemetry has no code for the rate %v of %s", rate, v.plan.PortName(from.Node, from.Port))
}
