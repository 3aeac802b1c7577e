package fabric

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/protocols/dcqcn"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// threeFlows is three flows that share nothing: a and b cross s1 in separate classes
// and between separate ports, c crosses s2 in the class of a. Each has a bottleneck
// at its receiver.
const threeFlows = `
duration: 4ms
topology:
  kinds:
    host: {attach: none, nic: {%s}}
    switch:
      buffer: {size: 100MB, alpha: none}
      classes:
        cnp: {dscp: 48, priority: 6}
        first: {dscp: 26, priority: 3, weight: 1, %s}
        second: {dscp: 27, priority: 4, weight: 1, %s}
        default: {weight: 1}
    link: {rate: 40Gbps, delay: 1us}
  nodes:
    a1: {%s}
    a2: {%s}
    b1: {%s}
    b2: {%s}
    c1: {%s}
    c2: {%s}
    s1: {%s}
    s2: {%s}
  links:
    - {endpoints: ["a1:eth0", "s1:a1"]}
    - {endpoints: ["a2:eth0", "s1:a2"], from: {"s1:a2": {rate: 10Gbps}}}
    - {endpoints: ["b1:eth0", "s1:b1"]}
    - {endpoints: ["b2:eth0", "s1:b2"], from: {"s1:b2": {rate: 10Gbps}}}
    - {endpoints: ["c1:eth0", "s2:c1"]}
    - {endpoints: ["c2:eth0", "s2:c2"], from: {"s2:c2": {rate: 10Gbps}}}
    - {endpoints: ["s1:s2", "s2:s1"]}
workload:
  - {write: {name: a, from: a1, to: a2, size: 1MB, count: unlimited, dscp: 26}}
  - {write: {name: b, from: b1, to: b2, size: 1MB, count: unlimited, dscp: 27}}
  - {write: {name: c, from: c1, to: c2, size: 1MB, count: unlimited, dscp: 26}}
`

// setting is the text in the file for one of the nodes.
type setting struct{ node, text string }

// outcomeOf is the visible behaviour of a flow: its progress, and the counters
// of its NICs and the ports on its path.
type outcomeOf struct {
	received []int64 // every 100 us
	counters workload.TransferCounters
	ports    []status.Port
}

// classOf returns the class of a flow.
func classOf(flow string) string {
	if flow == "b" {
		return "second"
	}
	return "first"
}

// outcomes runs three flows.
func outcomes(t *testing.T, nic, class string, s ...setting) map[string]outcomeOf {
	t.Helper()
	text := map[string][]string{}
	for _, x := range s {
		text[x.node] = append(text[x.node], x.text)
	}
	args := []any{nic, class, class}
	for _, node := range []string{"a1", "a2", "b1", "b2", "c1", "c2", "s1", "s2"} {
		kind := "kind: host"
		if node[0] == 's' {
			kind = "kind: switch"
		}
		args = append(args, strings.Join(append([]string{kind}, text[node]...), ", "))
	}
	f := New(parse(t, fmt.Sprintf(threeFlows, args...)))
	got := map[string]outcomeOf{}
	for at := 100 * units.Microsecond; at <= f.Plan.Duration; at += 100 * units.Microsecond {
		runTo(t, f, at)
		for _, r := range f.Transfers() {
			o := got[r.Transfer]
			o.received, o.counters = append(o.received, r.Received), r.TransferCounters
			got[r.Transfer] = o
		}
	}
	for flow, o := range got {
		sw := "s1:"
		if flow == "c" {
			sw = "s2:"
		}
		for _, p := range []string{flow + "1:eth0", sw + flow + "1", sw + flow + "2", flow + "2:eth0"} {
			x := portNamed(t, f, p)
			x.QueueLimit = 0 // a setting, not a result
			x.Classes = slices.DeleteFunc(x.Classes, func(c status.Class) bool { return c.Name != "cnp" && c.Name != classOf(flow) })
			for i := range x.Classes {
				c := &x.Classes[i]
				c.QueueLimit, c.Xoff, c.Headroom = 0, 0, 0
			}
			o.ports = append(o.ports, x)
		}
		got[flow] = o
	}
	return got
}

// changed returns the names of the flows that differ between two runs.
func changed(was, is map[string]outcomeOf) (flows []string) {
	for _, flow := range []string{"a", "b", "c"} {
		if !reflect.DeepEqual(was[flow], is[flow]) {
			flows = append(flows, flow)
		}
	}
	return flows
}

const red = "mark: {red: {kmin: 20KB, kmax: 80KB, pmax: 10%}}"

// TestDCQCNParameters_ChangeOnlyTheirNICsFlow sets each parameter of DCQCN on one NIC.
// Parameters of the reaction point change the flow that this NIC sends, those of the
// notification point the flow that it receives, and no other.
func TestDCQCNParameters_ChangeOnlyTheirNICsFlow(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const sender, receiver = "sender", "receiver"
	// Increases and decreases alternate within this short run. fast has the timer
	// alone decide about stages.
	const preset, fast = "rpg_time_reset: 30us, rpg_byte_reset: 100KB, rpg_ai_rate: 100Mbps", "rpg_time_reset: 30us, rpg_byte_reset: 0, rpg_ai_rate: 100Mbps"
	rows := []struct {
		key, value string
		reacts     string // whose parameter it is
		beside     string
	}{
		{"dce_tcp_g", "900", sender, preset},
		{"dce_tcp_rtt", "20us", sender, preset},
		{"initial_alpha_value", "100", sender, preset},
		{"rate_to_set_on_first_cnp", "5Gbps", sender, preset},
		{"rpg_min_dec_fac", "95%", sender, preset},
		{"rpg_min_rate", "12Gbps", sender, preset},
		{"rpg_gd", "13", sender, preset},
		{"rate_reduce_monitor_period", "50us", sender, preset},
		{"clamp_tgt_rate", "true", sender, preset},
		{"clamp_tgt_rate_after_time_inc", "false", sender, fast},
		{"rpg_time_reset", "100us", sender, "rpg_byte_reset: 100KB"},
		{"rpg_byte_reset", "30KB", sender, "rpg_time_reset: 30us"},
		{"rpg_threshold", "5", sender, preset},
		{"rpg_max_rate", "6Gbps", sender, preset},
		{"release_at_max_rate", "false", sender, preset + ", rpg_max_rate: 6Gbps"},
		{"rpg_ai_rate", "200Mbps", sender, "rpg_time_reset: 30us, rpg_byte_reset: 100KB"},
		{"rpg_hai_rate", "1Gbps", sender, fast},
		{"np_min_time_between_cnps", "100us", receiver, preset},
		{"np_cnp_dscp", "10", receiver, preset},
	}
	var keys []string
	for _, r := range rows {
		keys = append(keys, r.key)
		nic := "cc: {dcqcn: {" + r.beside + "}}"
		here := "nic: {cc: {dcqcn: {" + r.key + ": " + r.value + "}}}"
		was := outcomes(t, nic, red)
		for node, who := range map[string]string{"b1": sender, "b2": receiver} {
			var want []string
			if r.reacts == who {
				want = []string{"b"}
			}
			if got := changed(was, outcomes(t, nic, red, setting{node, here})); !slices.Equal(got, want) {
				t.Errorf("%s: %s at the %s, %s, changes %v, want %v", r.key, r.value, who, node, got, want)
			}
		}
	}
	var all []string
	for i, c := 0, reflect.TypeFor[dcqcn.Config](); i < c.NumField(); i++ {
		key, _, _ := strings.Cut(c.Field(i).Tag.Get("yaml"), ",")
		all = append(all, key)
	}
	slices.Sort(all)
	if slices.Sort(keys); !slices.Equal(keys, all) {
		t.Errorf("parameters tested: %s; there are %s", keys, all)
	}
}

// TestSwitchSettings_ChangeOnlyTheirClass sets each threshold of ECN and PFC for one class of
// one switch, or of one of its ports, and checks which flows are affected.
func TestSwitchSettings_ChangeOnlyTheirClass(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const controlled, uncontrolled = "cc: {dcqcn: {rpg_time_reset: 30us, rpg_ai_rate: 1Gbps}}", "cc: none"
	const pfc = "pfc: {xoff: 100KB, xon: 90KB, headroom: 60KB}"
	for _, c := range []struct{ key, nic, all, other string }{
		{"kmin", controlled, red, "mark: {red: {kmin: 30KB, kmax: 80KB, pmax: 10%}}"},
		{"kmax", controlled, red, "mark: {red: {kmin: 20KB, kmax: 60KB, pmax: 10%}}"},
		{"pmax", controlled, red, "mark: {red: {kmin: 20KB, kmax: 80KB, pmax: 20%}}"},
		{"xoff", uncontrolled, pfc, "pfc: {xoff: 120KB, xon: 90KB, headroom: 60KB}"},
		{"xon", uncontrolled, pfc, "pfc: {xoff: 100KB, xon: 50KB, headroom: 60KB}"},
		{"headroom", uncontrolled, pfc, "pfc: {xoff: 100KB, xon: 90KB, headroom: 2KB}"},
		{"no pfc", uncontrolled, pfc, "pfc: none"},
		{"no mark", controlled, red, "mark: none"},
	} {
		was := outcomes(t, c.nic, c.all)
		for _, where := range []struct{ node, class, flow string }{{"s1", "first", "a"}, {"s1", "second", "b"}, {"s2", "first", "c"}} {
			s := setting{where.node, fmt.Sprintf("classes: {%s: {%s}}", where.class, c.other)}
			if got := changed(was, outcomes(t, c.nic, c.all, s)); !slices.Equal(got, []string{where.flow}) {
				t.Errorf("%s of class %s of %s changes %v, want %s", c.key, where.class, where.node, got, where.flow)
			}
		}
	}
	beside := []setting{{"s1", "queue: {" + red + "}"}, {"s2", "queue: {" + red + "}"}}
	was := outcomes(t, controlled, "order: fifo", beside...)
	for _, c := range []struct{ key, other string }{
		{"kmin", "mark: {red: {kmin: 30KB, kmax: 80KB, pmax: 10%}}"},
		{"kmax", "mark: {red: {kmin: 20KB, kmax: 60KB, pmax: 10%}}"},
		{"pmax", "mark: {red: {kmin: 20KB, kmax: 80KB, pmax: 20%}}"},
	} {
		for port, flow := range map[string]string{"a2": "a", "b2": "b"} {
			s := setting{"s1", fmt.Sprintf("ports: {%s: {queue: {%s}}}", port, c.other)}
			if got := changed(was, outcomes(t, controlled, "order: fifo", append(slices.Clone(beside), s)...)); !slices.Equal(got, []string{flow}) {
				t.Errorf("%s of port s1:%s changes %v, want %s", c.key, port, got, flow)
			}
		}
	}
}

// TestPFC_FillsToXoffThenHeadroom: what arrives through a port fills up to the xoff of its
// switch and class, and then the headroom.
func TestPFC_FillsToXoffThenHeadroom(t *testing.T) {
	set := func(node, class string, xoff units.Bytes) setting {
		return setting{node, fmt.Sprintf("classes: {%s: {pfc: {xoff: %v, xon: 40KB, headroom: 60KB}}}", class, xoff)}
	}
	got := outcomes(t, "cc: none", "pfc: {xoff: 50KB, xon: 40KB, headroom: 60KB}", set("s1", "second", 200*units.KB), set("s2", "first", 400*units.KB))
	for flow, xoff := range map[string]units.Bytes{"a": 50 * units.KB, "b": 200 * units.KB, "c": 400 * units.KB} {
		c := classNamed(t, got[flow].ports[1], classOf(flow))
		if c.IngressMax > xoff || c.IngressMax < xoff-2*units.KB || c.HeadroomMax == 0 || c.HeadroomMax > 60*units.KB || c.PauseFramesTx == 0 || got[flow].counters.Retransmitted > 0 {
			t.Errorf("%s: xoff %v, %v came in and %v of the headroom was used, %d pauses", flow, xoff, c.IngressMax, c.HeadroomMax, c.PauseFramesTx)
		}
	}
}

// TestCNPs_KeepTheirReceiversDistance: a flow gets no more CNPs than np_min_time_between_cnps
// of its receiver allows, and nearly as many while congestion lasts. It lasts here, because
// the sender never goes below the bottleneck.
func TestCNPs_KeepTheirReceiversDistance(t *testing.T) {
	set := func(node, distance string) setting {
		return setting{node, "nic: {cc: {dcqcn: {np_min_time_between_cnps: " + distance + "}}}"}
	}
	got := outcomes(t, "cc: {dcqcn: {rpg_min_rate: 11Gbps}}", red, set("a2", "20us"), set("b2", "50us"), set("c1", "1us"))
	for flow, distance := range map[string]units.Time{"a": 20 * units.Microsecond, "b": 50 * units.Microsecond, "c": 4 * units.Microsecond} {
		maxEvents := uint64(4*units.Millisecond/distance) + 1
		if n := got[flow].counters.CNPs; n > maxEvents || n < maxEvents*8/10 {
			t.Errorf("%s: %d CNPs, %v apart would be %d", flow, n, distance, maxEvents)
		}
	}
}
