package resolve

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// checkQoS checks a node against the doc comments of Deep, class.Class and
// pfc.Config.
func checkQoS(t rapid.TB, p *plan.Plan, n *plan.Node) {
	t.Helper()
	if n.QoS == nil {
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
			if c.Weight < 0 || c.Weight > labfile.MaxWeight || c.Limit < 0 || c.Alpha < 0 || c.Ingress.Alpha < 0 {
				t.Errorf("class %+v", c)
			}
			reserved += c.Reserve + c.Ingress.Reserve
			if n.QoS.Buffer == 0 && (c.Alpha > 0 || c.Reserve > 0 || c.Ingress.Alpha > 0 || c.Ingress.Reserve > 0) {
				t.Errorf("class %+v has a share of no buffer", c)
			}
			if f := c.PFC; f != nil {
				if (f.Xoff > 0) == (f.Alpha > 0) || f.Quanta == 0 || f.Offset < 0 || f.Xoff > 0 && f.Offset > f.Xoff || n.QoS.Pause != nil {
					t.Errorf("pfc %+v", *f)
				}
			}
			if f := c.Credits; f != nil {
				if c.PFC != nil || n.QoS.Pause != nil || f.Buffer <= 0 || f.Update <= 0 || f.Update > f.Buffer || f.Period <= 0 {
					t.Errorf("credits %+v", *f)
				}
			}
			if n.Kind == plan.Host && (c.PFC != nil || c.Credits != nil || c.Trim != nil || c.Limit == 0) {
				t.Errorf("the host %s has the class %+v", n.Name, c)
			}
			if c.Trim != nil && n.QoS.Map.DSCP[c.Trim.DSCP] == c.Priority {
				t.Errorf("trimmed packets of %s stay in the class %s", n.Name, c.Name)
			}
		}
		for priority, h := range port.Headroom {
			reserved += h
			if h != 0 && n.QoS.Pause == nil && (!has[priority] || !lossless(port.Classes, uint8(priority))) {
				t.Errorf("headroom of a lossy class at %s", n.Name)
			}
		}
		for _, m := range append(append([]uint8{n.QoS.Map.Untagged}, n.QoS.Map.DSCP[:]...), n.QoS.Map.PCP[:]...) {
			if !has[m] {
				t.Errorf("%s has packets of priority %d and no such class", n.Name, m)
			}
		}
	}
	if n.QoS.Buffer > 0 && reserved >= n.QoS.Buffer {
		t.Errorf("%s reserves %v of a buffer of %v", n.Name, reserved, n.QoS.Buffer)
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

// pick chooses one of several settings of a lab file, by the name of the choice.
type pick func(name string, from ...string) string

func drawPick(t *rapid.T) pick {
	return func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
}

// tryEachAlone calls do for each setting of a file, with a pick that chooses the first one everywhere
// else.
func tryEachAlone(file func(pick), do func(setting string, p pick)) {
	type choice struct{ name, setting string }
	var all []choice
	file(func(name string, from ...string) string {
		for _, setting := range from {
			if c := (choice{name, setting}); !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
		return from[0]
	})
	for _, c := range all {
		do(c.name+" "+c.setting, func(name string, from ...string) string {
			if name == c.name {
				return c.setting
			}
			return from[0]
		})
	}
}

// drawQoSFile returns a lab whose switches have a number of classes.
func drawQoSFile(p pick, number int) []byte {
	var keys []string
	if b := p("buffer", "", "hpcc", "broadcom", "per-port", "{size: 12MB}", "{size: 30MB, alpha: 1/8}"); b != "" {
		keys = append(keys, "buffer: "+b)
	}
	var classes []string
	for i := 1; i <= number; i++ {
		c := fmt.Sprintf("priority: %d, dscp: [%d, %d-%d]", i, 10*i, 10*i+2, 10*i+5)
		c += p("weight", "", ", weight: 1", ", weight: 1000")
		c += p("order", "", ", order: fair")
		c += p("limit", "", "", ", limit: 200KB")
		c += p("loss", "", ", pfc: {xoff: 30KB}", ", pfc: {xoff: 30KB, xon: 20KB, watchdog: {}}", ", pfc: {alpha: 1/4, offset: 9KB}",
			", trim: {dscp: 20}", ", trim: {preset: ndp, dscp: 10}")
		c += p("mark", "", ", mark: {step: {k: 20KB}}")
		classes = append(classes, fmt.Sprintf("c%d: {%s}", i, c))
	}
	if d := p("default", "", "default: {}", "default: {limit: 300KB, weight: 5}", "default: {priority: 6}"); d != "" {
		classes = append(classes, d)
	}
	if len(classes) > 0 {
		keys = append(keys, "classes: {"+strings.Join(classes, ", ")+"}")
	}
	if s := p("pause", "", "", "", "{xoff: 100KB}", "{}"); s != "" {
		keys = append(keys, "pause: "+s)
	}
	keys = append(keys, "cut-through: "+p("cut-through", "true", "false"))
	return []byte("topology: {kinds: {switch: {" + strings.Join(keys, ", ") + "}}, " +
		"generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, rate: 25Gbps, delay: 1us}}}")
}

// checkDepths checks that all switches of a plan, and their hosts, have classes or none have.
func checkDepths(t rapid.TB, p *plan.Plan) {
	t.Helper()
	for i, n := range p.Nodes {
		if (n.QoS == nil) != (p.Nodes[0].QoS == nil) {
			t.Errorf("%s and %s differ in depth", p.Nodes[0].Name, p.Nodes[i].Name)
		}
	}
}

// TestSwitchClasses_AcceptedFileIsASoundPlan draws the settings of switches.
func TestSwitchClasses_AcceptedFileIsASoundPlan(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		p, err := Parse("lab.yaml", drawQoSFile(drawPick(t), rapid.IntRange(0, 4).Draw(t, "classes")))
		if err != nil {
			return
		}
		accepted++
		checkPlan(t, p)
		checkDepths(t, p)
	})
	t.Logf("%d plans were accepted", accepted)
}

// TestSwitchClasses_EachSettingAloneIsASoundPlan: the file with one class is accepted with each
// setting, but for those that need another one.
func TestSwitchClasses_EachSettingAloneIsASoundPlan(t *testing.T) {
	needs := map[string]string{
		"loss , pfc: {alpha: 1/4, offset: 9KB}": "the switch has no buffer",
		"loss , trim: {dscp: 20}":               "no class has the dscp 20",
		"loss , trim: {preset: ndp, dscp: 10}":  "would stay in that class",
		"pause {}":                              "pause lacks xoff",
	}
	tryEachAlone(func(p pick) { drawQoSFile(p, 1) }, func(setting string, p pick) {
		plan, err := Parse("lab.yaml", drawQoSFile(p, 1))
		if want, bad := needs[setting]; bad != (err != nil) || bad && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
		if err == nil {
			checkPlan(t, plan)
			checkDepths(t, plan)
		}
	})
}
