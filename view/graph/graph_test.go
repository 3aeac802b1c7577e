package graph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// labs are the topologies that must be drawn well.
var labs = map[string]string{
	"star":        `generate: {star: {hosts: 8}}`,
	"big-star":    `generate: {star: {hosts: 64}}`,
	"dumbbell":    `generate: {dumbbell: {left: 2, right: 2, bottleneck: {rate: 1Gbps, loss: 0.1%}}}`,
	"parking-lot": `generate: {parking-lot: {hops: 3}}`,
	"leaf-spine":  `generate: {leaf-spine: {spines: 2, leaves: 4, hosts-per-leaf: 4, uplink: {rate: 40Gbps}}}`,
	"fat-tree-4":  `generate: {fat-tree: {k: 4}}`,
	"fat-tree-8":  `generate: {fat-tree: {k: 8}}`,
	"routers":     "kinds: {switch: {address: auto}}\n  generate: {leaf-spine: {spines: 2, leaves: 4, hosts-per-leaf: 2}}",
	"mixed": `
  generate: {leaf-spine: {spines: 2, leaves: 4, hosts-per-leaf: 4}}
  nodes: {slow: {kind: host}, cut: {kind: host}, dual: {kind: host}}
  links:
    - {endpoints: ["slow:eth0", "leaf2:slow"], rate: 100Mbps}
    - {endpoints: ["cut:eth0", "leaf2:cut"], state: down}
    - {endpoints: ["dual:eth0", "leaf3:dual"]}
    - {endpoints: ["dual:eth1", "leaf4:dual"]}
    - {endpoints: ["spine1:twin", "leaf1:twin"], from: {"spine1:twin": {rate: 1Gbps}}}`,
}

func lab(t *testing.T, name string) *plan.Plan {
	p, err := resolve.Parse(name+".yaml", []byte("topology:\n  "+strings.TrimSpace(labs[name])))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mesh makes a plan from kinds, and pairs of nodes to join.
func mesh(kinds []plan.Kind, pairs ...[2]int) *plan.Plan {
	p := &plan.Plan{Name: "mesh"}
	for i, k := range kinds {
		p.Nodes = append(p.Nodes, plan.Node{Name: fmt.Sprintf("%s-%d", k, i), Kind: k})
	}
	for i, pair := range pairs {
		var l plan.Link
		for end, n := range pair {
			node := &p.Nodes[n]
			l.Ends[end] = plan.End{Node: n, Port: len(node.Ports)}
			l.Dir[end] = links.Settings{Rate: units.Gbps * units.Rate(1+i%3), Up: i%4 != 3}
			node.Ports = append(node.Ports, plan.Port{Name: fmt.Sprint("p", i), Link: i, End: end})
		}
		p.Links = append(p.Links, l)
	}
	return p
}

func eachPlan(t *testing.T, check func(t *testing.T, p *plan.Plan)) {
	plans := map[string]*plan.Plan{
		"nothing":    {},
		"one-host":   {Nodes: []plan.Node{{Name: "h", Ports: []plan.Port{{Name: "eth0", Link: -1}}}}},
		"one-switch": mesh([]plan.Kind{plan.Switch}),
		"no-hosts":   mesh([]plan.Kind{plan.Switch, plan.Switch, plan.Switch}, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}),
		"two-hosts":  mesh([]plan.Kind{plan.Host, plan.Host}, [2]int{0, 1}, [2]int{0, 1}),
	}
	strange := mesh([]plan.Kind{plan.Host, plan.Switch}, [2]int{0, 1})
	strange.Name, strange.Nodes[0].Name, strange.Nodes[1].Name = `a "lab"`, `<&"h\`, "graph\n\\"
	strange.Nodes[1].Ports[0].Name = `]"--\`
	plans["strange-names"] = strange
	for name := range labs {
		plans[name] = lab(t, name)
	}
	for name, p := range plans {
		t.Run(name, func(t *testing.T) { check(t, p) })
	}
}

func TestSVG(t *testing.T) {
	eachPlan(t, func(t *testing.T, p *plan.Plan) {
		var b, again bytes.Buffer
		if err := errors.Join(WriteSVG(&b, p), WriteSVG(&again, p)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Error("drawn twice, not the same")
		}
		count := map[string]int{}
		for _, text := range texts(t, &b) {
			count[text]++
		}
		for _, n := range p.Nodes {
			if count[n.Name] != 1 {
				t.Errorf("%q is there %d times", n.Name, count[n.Name])
			}
			if a := addressOf(n); a != "" && count[a] != 1 {
				t.Errorf("%q is there %d times", a, count[a])
			}
		}
	})
}

// texts returns the texts in an SVG, and fails if it is not well-formed.
func texts(t *testing.T, r io.Reader) (found []string) {
	d := xml.NewDecoder(r)
	for {
		token, err := d.Token()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "text" {
			var text string
			if err := d.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			found = append(found, text)
		}
	}
}

func place(p *plan.Plan) *layout {
	r := newRows(p)
	labels, _ := r.labelLinks()
	return newLayout(r, labels)
}

// checkLayout finds boxes that overlap, hosts above switches, and links that
// do not end at the boxes that they join.
func checkLayout(t interface{ Errorf(string, ...any) }, l *layout) {
	for i, a := range l.boxes {
		for j, b := range l.boxes {
			if i < j && a.overlaps(b) {
				t.Errorf("%s and %s overlap", l.Nodes[i].Name, l.Nodes[j].Name)
			}
			one, other := l.blocksOf(i, j)
			if l.isHost(i) && !l.isHost(j) && (one == other || other == nil) && a.top() < b.bottom() {
				t.Errorf("%s is not below %s", l.Nodes[i].Name, l.Nodes[j].Name)
			}
		}
	}
	for i, line := range l.drawLinks() {
		first := l.higherEnd(l.Links[i])
		for k, at := range []point{line.points[0], line.points[len(line.points)-1]} {
			b := l.boxes[l.Links[i].Ends[first^k].Node]
			if !growBox(b, 0.1).overlaps(box{x: at.x, y: at.y}) || growBox(b, -0.1).overlaps(box{x: at.x, y: at.y}) {
				t.Errorf("link %d ends at %v, not at the edge of %v", i, at, b)
			}
		}
	}
}

func TestLayout(t *testing.T) {
	eachPlan(t, func(t *testing.T, p *plan.Plan) { checkLayout(t, place(p)) })
}

// TestShape: large labs are not strips, and a folded drawing has no overlaps.
func TestShape(t *testing.T) {
	for _, topology := range []string{
		`generate: {fat-tree: {k: 8}}`,
		`generate: {fat-tree: {k: 16}}`,
		`generate: {leaf-spine: {spines: 16, leaves: 32, hosts-per-leaf: 32}}`,
		`generate: {leaf-spine: {spines: 4, leaves: 256, hosts-per-leaf: 4}}`,
		`generate: {leaf-spine: {spines: 2, leaves: 100, hosts-per-leaf: 1}}`,
		`generate: {star: {hosts: 1024}}`,
		`generate: {dumbbell: {left: 512, right: 512}}`,
		`generate: {parking-lot: {hops: 100}}`,
	} {
		t.Run(topology, func(t *testing.T) {
			p, err := resolve.Parse("shape.yaml", []byte("topology: {kinds: {host: {attach: none}}, "+topology+"}"))
			if err != nil {
				t.Fatal(err)
			}
			l := place(p)
			checkLayout(t, l)
			if all := l.areaOf(l.drawLinks(), nil); all.w > 3.2*all.h || all.h > 1.5*all.w {
				t.Errorf("it is %.0f wide and %.0f high", all.w, all.h)
			}
		})
	}
}

func TestLayoutOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]plan.Kind{plan.Host, plan.Switch}), 2, 40).Draw(t, "kinds")
		var pairs [][2]int
		for range rapid.IntRange(0, 80).Draw(t, "links") {
			a := rapid.IntRange(0, len(kinds)-1).Draw(t, "a")
			b := rapid.IntRange(0, len(kinds)-2).Draw(t, "b")
			if b >= a {
				b++
			}
			pairs = append(pairs, [2]int{a, b})
		}
		p := mesh(kinds, pairs...)
		checkLayout(t, place(p))
		if err := errors.Join(WriteSVG(io.Discard, p), WriteDOT(io.Discard, p)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTiers(t *testing.T) {
	r := newRows(lab(t, "fat-tree-4"))
	for n, node := range r.Nodes {
		want := slices.Index([]string{"h", "edge", "agg", "core"}, strings.TrimRight(node.Name, "0123456789"))
		if r.tier[n] != want {
			t.Errorf("%s is in row %d, not %d", node.Name, r.tier[n], want)
		}
	}
}

// TestChain gives the switches of a chain out of order.
func TestChain(t *testing.T) {
	const h, s = plan.Host, plan.Switch
	r := newRows(mesh([]plan.Kind{s, s, s, s, h, h, h, h},
		[2]int{4, 0}, [2]int{5, 1}, [2]int{6, 2}, [2]int{7, 3}, [2]int{2, 0}, [2]int{0, 3}, [2]int{3, 1}))
	want := [][]int{{5, 7, 4, 6}, {1, 3, 0, 2}}
	if !slices.EqualFunc(r.order, want, slices.Equal) {
		t.Errorf("order %v, want %v", r.order, want)
	}
	if c := r.countCrossings(); c != 0 {
		t.Errorf("%d crossings in a chain", c)
	}
}

func TestCrossings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.IntRange(0, 6)
		lines := rapid.SliceOf(rapid.Custom(func(t *rapid.T) [2]int { return [2]int{end.Draw(t, "a"), end.Draw(t, "b")} })).Draw(t, "lines")
		want := 0
		for i, a := range lines {
			for _, b := range lines[:i] {
				if (a[0]-b[0])*(a[1]-b[1]) < 0 {
					want++
				}
			}
		}
		if got := countInversions(lines, 7); got != want {
			t.Fatalf("%d crossings, want %d", got, want)
		}
	})
}

func TestSpread(t *testing.T) {
	var row []*column
	for _, x := range []float64{0, 5, 5, 300} {
		row = append(row, &column{anchor: 1, box: box{x: x, w: 20}})
	}
	spreadColumns(row)
	for i, want := range []float64{-50. / 3, 10. / 3, 70. / 3, 300} {
		if math.Abs(row[i].box.x-want) > 1e-9 {
			t.Errorf("column %d is at %g, want %g", i, row[i].box.x, want)
		}
	}
}

func TestLabels(t *testing.T) {
	for name, want := range map[string]string{
		"star":       "all links 10Gbps 1us",
		"dumbbell":   "host links 10Gbps 1us",
		"leaf-spine": "host links 10Gbps 1us · switch links 40Gbps 1us",
		"mixed":      "other host links 10Gbps 1us · other switch links 10Gbps 1us",
	} {
		p := lab(t, name)
		for i := range p.Links {
			for end := range 2 {
				if p.Links[i].Dir[end].Rate == 0 {
					p.Links[i].Dir[end].Rate = 10 * units.Gbps
				}
				p.Links[i].Dir[end].Delay = units.Microsecond
			}
		}
		labels, legend := newRows(p).labelLinks()
		if got := strings.Join(legend, " · "); got != want {
			t.Errorf("%s: legend %q, want %q", name, got, want)
		}
		own := slices.DeleteFunc(labels, func(s string) bool { return s == "" })
		switch name {
		case "dumbbell":
			if !slices.Equal(own, []string{"1Gbps 1us loss 0.1%"}) {
				t.Errorf("%s: labels %q", name, own)
			}
		case "mixed":
			if !slices.Equal(own, []string{"100Mbps 1us", "10Gbps 1us down", "↓ 1Gbps 1us, ↑ 10Gbps 1us"}) {
				t.Errorf("%s: labels %q", name, own)
			}
		}
	}
}

func TestAddress(t *testing.T) {
	r := plan.Node{Router: &plan.Router{Addresses: []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.255.0.1")}}, Ports: []plan.Port{{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}}}
	if got := addressOf(r); got != "10.255.0.1" {
		t.Errorf("a router is drawn with %s", got)
	}
	four, six := netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fd00::1/64")
	for want, ports := range map[string][]plan.Port{
		"":         {{}},
		"fd00::1":  {{Addresses: []netip.Prefix{six}}},
		"10.0.0.1": {{Addresses: []netip.Prefix{six}}, {Addresses: []netip.Prefix{six, four}}},
	} {
		if got := addressOf(plan.Node{Ports: ports}); got != want {
			t.Errorf("address %q, want %q", got, want)
		}
	}
}

// TestDOT lets dot read every plan and place hosts below their switches.
func TestDOT(t *testing.T) {
	program, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("NOT TESTED: no dot on this machine; install the package graphviz")
	}
	eachPlan(t, func(t *testing.T, p *plan.Plan) {
		var source bytes.Buffer
		if err := WriteDOT(&source, p); err != nil {
			t.Fatal(err)
		}
		dot := exec.Command(program, "-Tplain")
		dot.Stdin = &source
		var complaints bytes.Buffer
		dot.Stderr = &complaints
		out, err := dot.Output()
		if err != nil || complaints.Len() > 0 {
			t.Fatalf("dot: %v\n%s", err, &complaints)
		}
		height := map[string]float64{}
		for line := range strings.Lines(string(out)) {
			var name string
			var x, y float64
			if n, _ := fmt.Sscanf(line, "node %s %g %g", &name, &x, &y); n == 3 {
				height[strings.Trim(name, `"`)] = y
			}
		}
		for _, l := range p.Links {
			a, b := p.Nodes[l.Ends[0].Node], p.Nodes[l.Ends[1].Node]
			if a.Kind == plan.Host && b.Kind == plan.Switch && height[a.Name] >= height[b.Name] && p.Name != `a "lab"` {
				t.Errorf("%s is not below %s", a.Name, b.Name)
			}
		}
	})
}
