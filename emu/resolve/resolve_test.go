package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
)

// TestErrors compares the errors for bad files, word by word. Rewrite them with
// go test ./emu/resolve -rewrite and review the differences.
func TestErrors(t *testing.T) { walk(t, "testdata/errors", false) }

// TestPlans compares the plans of good files.
func TestPlans(t *testing.T) { walk(t, "testdata/plans", true) }

func walk(t *testing.T, dir string, good bool) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			file := "lab.yaml"
			d.MaybeScanArgs(t, "file", &file)
			p, err := Parse(file, []byte(d.Input))
			switch {
			case (err == nil) != good:
				t.Errorf("%s: error is %v", d.Pos, err)
				return ""
			case err != nil:
				return err.Error()
			}
			return dump(p)
		})
	})
}

func TestErrorsAsPackageErrorsHasThem(t *testing.T) {
	_, err := Parse("lab.yaml", []byte("nam: x\ntopology: {nodes: {h1: {knd: host}}}\n"))
	var all yamlfile.Errors
	if !errors.As(err, &all) || len(all) != 2 {
		t.Fatalf("%#v", err)
	}
	var first *yamlfile.Error
	if !errors.As(err, &first) {
		t.Fatal("no *yamlfile.Error is found")
	}
	want := yamlfile.Error{
		File: "lab.yaml", Line: 1, Column: 1, Source: "nam: x", Message: `unknown key "nam"`,
		Hint: `did you mean "name"? (a lab has name, seed, duration, dilation, fidelity, engine, clock, addressing, topology, events, workload, window, series)`,
	}
	if diff := cmp.Diff(want, *first, cmpopts.IgnoreUnexported(yamlfile.Error{})); diff != "" {
		t.Error(diff)
	}
}

func TestFile(t *testing.T) {
	if _, err := File("testdata/none.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	path := filepath.Join(t.TempDir(), "ring.yaml")
	src := []byte("seed: 2\ntopology: {generate: {star: {hosts: 2}}}\n")
	if err := os.WriteFile(path, src, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := File(path)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ParseSeed(path, src, 3)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "ring" || p.File != path || p.Seed != 2 || q.Seed != 3 || p.Nodes[0].ECMPSeed == q.Nodes[0].ECMPSeed {
		t.Errorf("%q from %s: seeds %d and %d", p.Name, p.File, p.Seed, q.Seed)
	}
}

// TestParse_RefusesFilesThatWouldTakeLong: files made to slow down the parser are refused before they
// do. What they do is measured by what they allocate: up to 300 times their size.
func TestParse_RefusesFilesThatWouldTakeLong(t *testing.T) {
	const n = 200_000
	for name, src := range map[string]string{
		"brackets":       strings.Repeat("[", n),
		"dashes":         strings.Repeat("- ", n),
		"questions":      strings.Repeat("? a\n", n),
		"keys":           strings.Repeat("a:\n", n),
		"keys in braces": "a: {" + strings.Repeat("b,", n) + "}",
		"anchors":        strings.Repeat("&a ", n),
		"size":           strings.Repeat("#", 2<<20+1),
		"aliases": "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n" +
			"topology: {links: [" + strings.Repeat("{endpoints: *b},", 10_000) + "]}",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Parse("lab.yaml", []byte(src)); err == nil {
			t.Errorf("%s: no error", name)
		}
		runtime.ReadMemStats(&after)
		used := units.Bytes(after.TotalAlloc - before.TotalAlloc)
		if used > units.Bytes(1000*len(src)) {
			t.Errorf("%s: %v of input made it allocate %v", name, units.Bytes(len(src)), used)
		}
	}
}

// dumpVM prints what a virtual machine boots, without defaults.
func dumpVM(b *strings.Builder, m *plan.VM) {
	for _, word := range []struct{ name, value string }{
		{"image", m.Image}, {"kernel", m.Kernel}, {"initrd", m.Initrd}, {"disk", m.Disk}, {"append", m.Append}, {"console", m.Console},
	} {
		if word.value != "" {
			fmt.Fprintf(b, " %s %q", word.name, word.value)
		}
	}
	if m.Persist {
		fmt.Fprint(b, " persist")
	}
	fmt.Fprintf(b, " %v %d cpus %v ready %q in %v", m.Memory, m.CPUs, m.Accel, m.Ready, m.ReadyLimit)
}

// dump prints a plan, without defaults.
func dump(p *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s seed %d duration %v", p.Name, p.Seed, p.Duration)
	if p.Dilation != 1 {
		fmt.Fprintf(&b, " dilation %d", p.Dilation)
	}
	fmt.Fprintf(&b, " fidelity %+v engine %+v%s\n", p.Fidelity, p.Engine, rerouteOf(p))
	for _, n := range p.Nodes {
		fmt.Fprintf(&b, "%s %v", n.Name, n.Kind)
		if n.Kind == plan.Host {
			fmt.Fprintf(&b, " %v", n.Attach)
		}
		if m := n.VM; m != nil {
			dumpVM(&b, m)
		}
		if len(n.Sysctls) > 0 {
			fmt.Fprintf(&b, " sysctls %v", n.Sysctls)
		}
		if len(n.Private) > 0 {
			fmt.Fprintf(&b, " private %v", n.Private)
		}
		if n.Router != nil {
			fmt.Fprintf(&b, " router %v", n.Router.Addresses)
		}
		for _, r := range n.Routes {
			fmt.Fprintf(&b, " route %v via %v", r.To, r.Via)
		}
		fmt.Fprintln(&b, forwardingOf(p, &n))
		for _, x := range n.Exec {
			fmt.Fprintf(&b, "  line %d runs %q env %q ready %+v\n", x.Line, x.Argv, x.Env, x.Ready)
		}
		if n.QoS != nil {
			dumpQoS(&b, n.QoS)
		}
		dumpNIC(&b, n.NIC)
		for _, port := range n.Ports {
			fmt.Fprintf(&b, "  %s", port.Name)
			if n.Kind == plan.Host || n.Router != nil {
				fmt.Fprintf(&b, " %v %v", labfile.MAC(port.MAC), port.Addresses)
			}
			if n.QoS != nil {
				dumpClasses(&b, &port)
				continue
			}
			fmt.Fprintf(&b, " queue %v", port.Queue.Limit)
			dumpMark(&b, port.Queue.Mark)
			fmt.Fprintln(&b)
		}
	}
	for i, l := range p.Links {
		for d, s := range l.Dir {
			fmt.Fprintf(&b, "link %d %s > %s %v\n", i, p.PortName(l.Ends[d].Node, l.Ends[d].Port),
				p.PortName(l.Ends[1-d].Node, l.Ends[1-d].Port), changed(s))
		}
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "at %v link %d %v %v\n", e.At, e.Link, e.Dir, e.Set)
	}
	for _, f := range p.Flows {
		fmt.Fprintln(&b, "flow", strings.Replace(fmt.Sprintf("%+v", f), " FromPort:0 ToPort:0", "", 1))
	}
	for _, t := range p.Transfers {
		dumpTransfer(&b, p, t)
	}
	for _, t := range p.Traffic {
		dumpTraffic(&b, p, &t)
	}
	if p.Measure != (plan.Measure{}) {
		fmt.Fprintf(&b, "measure %+v\n", p.Measure)
	}
	return b.String()
}

func dumpMark(b *strings.Builder, mark congestion.Choice) {
	if mark.Settings != nil {
		fmt.Fprintf(b, " %s %+v", mark.Name, reflect.ValueOf(mark.Settings).Elem())
	}
}

// dumpQoS prints a node's class map, without what maps to the priority Untagged.
func dumpQoS(b *strings.Builder, d *plan.QoS) {
	fmt.Fprintf(b, "  deep untagged %d", d.Map.Untagged)
	for code, priority := range d.Map.DSCP {
		if priority != d.Map.Untagged {
			fmt.Fprintf(b, " dscp %d=%d", code, priority)
		}
	}
	for code, priority := range d.Map.PCP {
		if priority != d.Map.Untagged {
			fmt.Fprintf(b, " pcp %d=%d", code, priority)
		}
	}
	if d.Buffer > 0 {
		fmt.Fprintf(b, " buffer %v", d.Buffer)
	}
	if d.Pause != nil {
		fmt.Fprintf(b, " pause %+v", *d.Pause)
	}
	if d.CutThrough {
		b.WriteString(" cut-through")
	}
	b.WriteString("\n")
}

func dumpClasses(b *strings.Builder, p *plan.Port) {
	if p.Headroom != [class.Count]units.Bytes{} {
		fmt.Fprintf(b, " headroom %v", p.Headroom)
	}
	b.WriteString("\n")
	for _, c := range p.Classes {
		fmt.Fprintf(b, "    %d %s", c.Priority, c.Name)
		for _, f := range []struct {
			name  string
			value any
		}{
			{"weight", c.Weight}, {"fair", c.Fair}, {"limit", c.Limit}, {"reserve", c.Reserve}, {"alpha", c.Alpha}, {"ingress", c.Ingress},
		} {
			if !reflect.ValueOf(f.value).IsZero() {
				fmt.Fprintf(b, " %s %+v", f.name, f.value)
			}
		}
		dumpMark(b, c.Mark)
		if c.Credits != nil {
			fmt.Fprintf(b, " credits %+v", *c.Credits)
		}
		if c.PFC != nil {
			fmt.Fprintf(b, " pfc %+v", *c.PFC)
		}
		if c.Trim != nil {
			fmt.Fprintf(b, " trim %+v", *c.Trim)
		}
		b.WriteString("\n")
	}
}

// changed prints the settings that differ from those of a default link.
func changed(s links.Settings) string {
	var out []string
	v, standard := reflect.ValueOf(s), reflect.ValueOf(change.DefaultLink)
	for i := range v.NumField() {
		if !reflect.DeepEqual(v.Field(i).Interface(), standard.Field(i).Interface()) {
			out = append(out, fmt.Sprintf("%s=%v", v.Type().Field(i).Name, v.Field(i).Interface()))
		}
	}
	return strings.Join(out, " ")
}
