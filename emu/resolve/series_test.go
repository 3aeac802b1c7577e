package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/units"
)

// TestSeries checks the settings of series in a file and their meaning.
func TestSeries(t *testing.T) {
	const topology = "topology: {generate: {leaf-spine: {spines: 1, leaves: 2, hosts-per-leaf: 1, rate: 1Gbps}}}\n"
	for text, want := range map[string]struct {
		every units.Time
		ports string
	}{
		"series: {}":                                       {units.Millisecond, "spine1:leaf1 spine1:leaf2 leaf1:spine1 leaf1:h1 leaf2:spine1 leaf2:h2"},
		"series: {every: 10us}":                            {10 * units.Microsecond, "spine1:leaf1 spine1:leaf2 leaf1:spine1 leaf1:h1 leaf2:spine1 leaf2:h2"},
		`series: {ports: "leaf2:h2"}`:                      {units.Millisecond, "leaf2:h2"},
		`series: {every: 1us, ports: ["h?:*", leaf1:h1]}`:  {units.Microsecond, "leaf1:h1 h1:eth0 h2:eth0"},
		`series: {every: 1us, ports: ["leaf[12]:spine1"]}`: {units.Microsecond, "leaf1:spine1 leaf2:spine1"},
	} {
		p, err := Parse("lab.yaml", []byte(topology+text))
		if err != nil {
			t.Error(err)
			continue
		}
		var names []string
		for _, e := range p.Series.Ports {
			names = append(names, p.PortName(e.Node, e.Port))
		}
		got := map[string]bool{}
		for _, n := range names {
			got[n] = true
		}
		wanted := map[string]bool{}
		for _, n := range strings.Fields(want.ports) {
			wanted[n] = true
		}
		if diff := cmp.Diff(wanted, got); diff != "" || p.Series.Every != want.every || len(names) != len(wanted) {
			t.Errorf("%s: every %v (-want +got):\n%s", text, p.Series.Every, diff)
		}
	}
	for text, want := range map[string]string{
		"series: {every: 999ns}":                                       "every 999ns is outside 1us to 1000000s",
		"series: {every: 0s}":                                          "outside",
		"series: {every: 10}":                                          "no unit",
		`series: {ports: ["leaf1:h9"]}`:                                `did you mean "h1"?`,
		`series: {ports: ["laef1:h1"]}`:                                `did you mean "leaf1"?`,
		`series: {ports: ["leaf*"]}`:                                   "write leaf*:*",
		`series: {ports: ["leaf[1:*"]}`:                                "needs its ]",
		`series: {ports: ["rack*:*"]}`:                                 `no port matches "rack*:*"`,
		"series: {port: x}":                                            `did you mean "ports"?`,
		"series: {ports: [" + strings.Repeat("leaf1:h1, ", 101) + "]}": "101 patterns",
	} {
		if _, err := Parse("lab.yaml", []byte(topology+text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "lab.yaml:2:") {
			t.Errorf("%.60s: error %v, want %q", text, err, want)
		}
	}
	if _, err := Parse("lab.yaml", []byte("topology: {nodes: {h1: {kind: host}}}\nseries: {}")); err == nil || !strings.Contains(err.Error(), "name ports of hosts") {
		t.Errorf("a lab without switches: %v", err)
	}
	if p, err := Parse("lab.yaml", []byte(topology)); err != nil || p.Series != nil {
		t.Errorf("a file without series: %v, %v", p, err)
	}
}
