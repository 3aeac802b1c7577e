package spec

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// checkDeep checks a node against the doc comments of Deep, class.Class and
// pfc.Config.
func checkDeep(t rapid.TB, p *plan.Plan, n *plan.Node) {
	t.Helper()
	if n.Deep == nil {
		for _, port := range n.Ports {
			if port.Classes != nil || port.Headroom != [class.Count]units.Bytes{} {
				t.Errorf("%s of the plain %s has classes", port.Name, n.Name)
			}
		}
		return
	}
	reserved := units.Bytes(0)
	for _, port := range n.Ports {
		has := [class.Count]bool{}
		for i, c := range port.Classes {
			has[c.Priority] = true
			if i > 0 && c.Priority <= port.Classes[i-1].Priority {
				t.Errorf("the classes of %s are out of order", n.Name)
			}
			if first := n.Ports[0].Classes[i]; first.Name != c.Name || first.Priority != c.Priority {
				t.Errorf("ports of %s have different classes", n.Name)
			}
			if c.Weight < 0 || c.Weight > maxWeight || c.Limit < 0 || c.Alpha < 0 || c.Ingress.Alpha < 0 {
				t.Errorf("class %+v", c)
			}
			reserved += c.Reserve + c.Ingress.Reserve
			if n.Deep.Buffer == 0 && (c.Alpha > 0 || c.Reserve > 0 || c.Ingress.Alpha > 0 || c.Ingress.Reserve > 0) {
				t.Errorf("class %+v has a share of no buffer", c)
			}
			if f := c.PFC; f != nil {
				if (f.Xoff > 0) == (f.Alpha > 0) || f.Quanta == 0 || f.Offset < 0 || f.Xoff > 0 && f.Offset > f.Xoff || n.Deep.Pause != nil {
					t.Errorf("pfc %+v", *f)
				}
			}
			if f := c.Credits; f != nil {
				if c.PFC != nil || n.Deep.Pause != nil || f.Buffer <= 0 || f.Update <= 0 || f.Update > f.Buffer || f.Period <= 0 {
					t.Errorf("credits %+v", *f)
				}
			}
			if n.Kind == plan.Host && (c.PFC != nil || c.Credits != nil || c.Trim != nil || c.Limit == 0) {
				t.Errorf("the host %s has the class %+v", n.Name, c)
			}
			if c.Trim != nil && n.Deep.Map.DSCP[c.Trim.DSCP] == c.Priority {
				t.Errorf("trimmed packets of %s stay in the class %s", n.Name, c.Name)
			}
		}
		for priority, h := range port.Headroom {
			reserved += h
			if h != 0 && n.Deep.Pause == nil && (!has[priority] || !lossless(port.Classes, uint8(priority))) {
				t.Errorf("headroom of a lossy class at %s", n.Name)
			}
		}
		for _, m := range append(append([]uint8{n.Deep.Map.Untagged}, n.Deep.Map.DSCP[:]...), n.Deep.Map.PCP[:]...) {
			if !has[m] {
				t.Errorf("%s has packets of priority %d and no such class", n.Name, m)
			}
		}
	}
	if n.Deep.Buffer > 0 && reserved >= n.Deep.Buffer {
		t.Errorf("%s reserves %v of a buffer of %v", n.Name, reserved, n.Deep.Buffer)
	}
}

func lossless(classes []class.Class, priority uint8) bool {
	for _, c := range classes {
		if c.Priority == priority {
			return c.PFC != nil
		}
	}
	return false
}

// TestHeadroom compares with sums computed by hand, in bytes on the wire.
func TestHeadroom(t *testing.T) {
	fast := extreme{100 * units.Gbps, 100 * units.Gbps, units.Microsecond, 1500}
	slow := extreme{units.Gbps, units.Gbps, 0, 1000}
	for _, test := range []struct {
		name    string
		in, out extreme
		want    units.Bytes
	}{
		{"two delays, three frames and a request", fast, fast, 2*12500 + 3*1538 + 84},
		{"a slow way back delays the request", fast, slow, 12500 + 100*(1038+84) + 2*1538},
		{"a link without delay", slow, slow, 3*1038 + 84},
	} {
		if got := headroom(test.in, test.out); got != test.want {
			t.Errorf("%s: %v, not %v", test.name, got, test.want)
		}
	}
}

// TestClassesMakeSoundPlans tries switches in depth: what is accepted is a
// sound plan, and most of it is accepted.
func TestClassesMakeSoundPlans(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		var keys []string
		pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
		if b := pick("buffer", "", "hpcc", "broadcom", "per-port", "{size: 12MB}", "{size: 30MB, alpha: 1/8}"); b != "" {
			keys = append(keys, "buffer: "+b)
		}
		var classes []string
		for i := 1; i <= rapid.IntRange(0, 4).Draw(t, "classes"); i++ {
			c := fmt.Sprintf("priority: %d, dscp: [%d, %d-%d]", i, 10*i, 10*i+2, 10*i+5)
			c += pick("weight", "", ", weight: 1", ", weight: 1000")
			c += pick("order", "", ", order: fair")
			c += pick("limit", "", "", ", limit: 200KB")
			c += pick("loss", "", ", pfc: {xoff: 30KB}", ", pfc: {xoff: 30KB, xon: 20KB, watchdog: {}}", ", pfc: {alpha: 1/4, offset: 9KB}",
				", trim: {dscp: 20}", ", trim: {preset: ndp, dscp: 10}")
			c += pick("mark", "", ", mark: {step: {k: 20KB}}")
			classes = append(classes, fmt.Sprintf("c%d: {%s}", i, c))
		}
		if d := pick("default", "", "default: {}", "default: {limit: 300KB, weight: 5}", "default: {priority: 6}"); d != "" {
			classes = append(classes, d)
		}
		if len(classes) > 0 {
			keys = append(keys, "classes: {"+strings.Join(classes, ", ")+"}")
		}
		if p := pick("pause", "", "", "", "{xoff: 100KB}", "{}"); p != "" {
			keys = append(keys, "pause: "+p)
		}
		keys = append(keys, "cut-through: "+pick("cut-through", "true", "false"))
		p, err := Parse("lab.yaml", []byte("topology: {kinds: {switch: {"+strings.Join(keys, ", ")+"}}, "+
			"generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, rate: 25Gbps, delay: 1us}}}"))
		if err != nil {
			return
		}
		accepted++
		checkPlan(t, p)
		for i, n := range p.Nodes {
			if (n.Deep == nil) != (p.Nodes[0].Deep == nil) {
				t.Errorf("%s and %s differ in depth", p.Nodes[0].Name, p.Nodes[i].Name)
			}
		}
	})
	if accepted < 3 { // of 20 with -short, more than half of which are good
		t.Errorf("only %d plans were accepted", accepted)
	}
}
