package routing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/packet"
)

// TestFatTree_UsesAllShortestPaths: in a fat-tree every host reaches every other, over a
// shortest path, and all equal paths are used.
func TestFatTree_UsesAllShortestPaths(t *testing.T) {
	l := newLab(t, "duration: 1s\ntopology: {generate: {fat-tree: {k: 4}}}\n")
	p := l.plan
	tables := l.Tables(everyNode, nil)
	if len(tables) != 20 {
		t.Errorf("%d tables, want 20", len(tables))
	}
	for _, table := range tables {
		for id, st := range l.Endpoints {
			group := table.Forwarding.Groups[table.Forwarding.Route[id]]
			if len(group) == 0 {
				t.Errorf("%s has no path to %s", p.Nodes[table.Node].Name, p.Nodes[st.Node].Name)
			}
			// The pod decides: edge and aggregation switches have two paths up
			// and one down, the core has one to each pod.
			if name := p.Nodes[table.Node].Name; strings.HasPrefix(name, "core") && len(group) != 1 {
				t.Errorf("%s has %d paths to %s, want 1", name, len(group), p.Nodes[st.Node].Name)
			}
		}
	}
	// h1 and h16 are in different pods: 2 paths up from the edge, each with 2 to the core.
	if got := strings.Fields(l.toHost(t, "edge1", "h16")); len(got) != 2 {
		t.Errorf("edge1 has %d paths to h16, want 2", len(got))
	}
}

// TestStaticRoutes_TakePrecedenceByPrefixAndWeight: which route takes precedence, how weights
// are laid out, and what is left when links die.
func TestStaticRoutes_TakePrecedenceByPrefixAndWeight(t *testing.T) {
	l := newLab(t, `
topology:
  reroute: {after: 0}
  generate: {leaf-spine: {spines: 3, leaves: 2, hosts-per-leaf: 4}}
  nodes:
    h8: {address: 10.0.0.200/16}
    leaf1:
      routes:
        - {to: default, via: spine3}
        - {to: 10.0.0.0/29, via: [{port: spine1, weight: 4}, {port: spine2, weight: 2}]}
        - {to: 10.0.0.7/32, via: [{port: spine1, weight: 2}, {port: spine2, weight: 3}]}
        - {to: h6, via: spine2}
        - {to: h1, via: [h1]}
`)
	hosts := func() (paths []string) {
		for _, h := range []string{"h1", "h2", "h5", "h6", "h7", "h8"} {
			paths = append(paths, l.toHost(t, "leaf1", h))
		}
		return paths
	}
	for _, c := range []struct {
		cut  string
		want []string
	}{
		{"", []string{"h1", "h2", "spine1 spine2 spine1", "spine2", "spine2 spine1 spine2 spine1 spine2", "spine3"}},
		{"leaf1:spine2", []string{"h1", "h2", "spine1", "spine1", "spine1", "spine3"}},
		{"leaf1:spine1", []string{"h1", "h2", "spine3", "spine3", "spine3", "spine3"}},
		{"leaf1:spine3", []string{"h1", "h2", "", "", "", ""}},
	} {
		if c.cut != "" {
			l.cut(t, c.cut)
		}
		if diff := cmp.Diff(c.want, hosts()); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", c.cut, diff)
		}
	}
	if table := l.table(t, "leaf2").Forwarding; table.IsStatic(table.Route[0]) {
		t.Error("a switch has another's static routes")
	}
}

// TestRouterStaticRoutes_TakePrecedenceByPrefixAndWeight: which route takes precedence, how
// weights are laid out, and what is left when links die.
func TestRouterStaticRoutes_TakePrecedenceByPrefixAndWeight(t *testing.T) {
	l := newLab(t, fmt.Sprintf(fabrictest.Diamond, "ecmp", `
      {to: 10.0.1.0/24, via: 3},
      {to: 10.0.1.4/31, via: [{port: 2, weight: 4}, {port: 4, weight: 2}]},
      {to: 10.0.0.0/16, via: 2},
      {to: "h3:eth0", via: 4},
      {to: h2, via: [2, 3]},
      {to: default, via: 2}`, "", `{to: h4, via: 1}, {to: h3, via: 2}`, ""))
	const r2, r3, r4 = "2>r2:1", "3>r3:1", "4>r4:1"
	paths := func() (all []string) {
		for _, a := range []string{"10.0.0.2", "10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "fd00::1:2", "fd00::1:3", "fd00::1:4", "10.255.0.4"} {
			all = append(all, l.toAddress(t, "r1", a))
		}
		return all
	}
	computed := r2 + " " + r3 + " " + r4
	for _, c := range []struct {
		cut  string
		want []string
	}{
		{"", []string{"1", r3, r2 + " " + r3, r4, r2 + " " + r4 + " " + r2, r2 + " " + r3, r4, computed, r4}},
		{"r1:3", []string{"1", r2 + " " + r4, r2, r4, r2 + " " + r4 + " " + r2, r2, r4, r2 + " " + r4, r4}},
		{"r1:2", []string{"1", r4, r4, r4, r4, r4, r4, r4, r4}},
		{"r1:4", []string{"1", "", "", "", "", "", "", "", ""}},
	} {
		if c.cut != "" {
			l.cut(t, c.cut)
		}
		if diff := cmp.Diff(c.want, paths()); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", c.cut, diff)
		}
		if c.cut == "" {
			want := map[string]string{
				"0.0.0.0/0": "2 static", "::/0": "2 static", "10.0.0.0/16": "2 static", "10.0.0.0/24": "1", "10.0.1.0/24": "3 static",
				"10.0.1.4/31": "2*2 4*1 static", "10.0.1.2/32": "2 3 static", "fd00::1:2/128": "2 3 static", "10.0.1.3/32": "4 static", "fd00::1:3/128": "4 static",
				"10.255.0.1/32": "", "10.255.0.2/32": "2", "10.255.0.3/32": "3", "10.255.0.4/32": "4", "10.255.0.5/32": "2 3 4",
				"fd00::/112": "1", "fd00::1:0/112": "2 3 4",
				"fd00:ffff::1/128": "", "fd00:ffff::2/128": "2", "fd00:ffff::3/128": "3", "fd00:ffff::4/128": "4", "fd00:ffff::5/128": "2 3 4",
			}
			if diff := cmp.Diff(want, l.listed(t, "r1")); diff != "" {
				t.Errorf("listed (-want +got):\n%s", diff)
			}
			// h4 is right behind the port; h3 is not behind r5:2, and r2 sends
			// its packets back: it has only one shorter path.
			for a, want := range map[string]string{"10.0.1.4": "1>h4:eth0", "10.0.1.3": "2>r2:2", "10.0.1.2": "1"} {
				if got := l.toAddress(t, "r5", a); got != want {
					t.Errorf("r5 to %s: %q, want %q", a, got, want)
				}
			}
		}
	}
}

// BenchmarkTables measures the computation of all tables of a fat-tree with 1024 hosts.
func BenchmarkTables(b *testing.B) {
	l := newLab(b, "topology: {generate: {fat-tree: {k: 16}}}\n")
	for b.Loop() {
		l.Tables(everyNode, nil)
	}
}

// TestTables_BranchFollowsTheTree: from every switch, the branch to a station leads there. It
// begins outside the tree at a switch with no stations behind it; once on the tree, it stays.
func TestTables_BranchFollowsTheTree(t *testing.T) {
	for _, text := range []string{
		"topology: {generate: {parking-lot: {hops: 3}}}\n",
		"topology: {generate: {leaf-spine: {spines: 3, leaves: 3, hosts-per-leaf: 2}}}\n",
		"topology: {generate: {fat-tree: {k: 4}}}\n",
	} {
		l := newLab(t, text)
		all := map[int]Table{}
		for _, table := range l.Tables(everyNode, nil) {
			all[table.Node] = table
		}
		for start := range all {
			for e, end := range l.Endpoints {
				at, came, on := start, -1, false
				for hop := 0; at != end.Node; hop++ {
					out := all[at].Forwarding.Branch(packet.Endpoint(e))
					if out < 0 || out == came || hop > len(all) {
						t.Fatalf("from %s to %s: port %d after %d hops at %s", l.plan.Nodes[start].Name, l.plan.Nodes[end.Node].Name, out, hop, l.plan.Nodes[at].Name)
					}
					if on && !all[at].Forwarding.Tree[out] {
						t.Fatalf("from %s: port %d of %s is not in the tree", l.plan.Nodes[start].Name, out, l.plan.Nodes[at].Name)
					}
					on = all[at].Forwarding.Tree[out]
					p := l.plan.Nodes[at].Ports[out]
					far := l.plan.Links[p.Link].Ends[1-p.End]
					_, plain := all[far.Node]
					if all[at].Forwarding.Trunk[out] != plain {
						t.Fatalf("port %d of %s: trunk %v", out, l.plan.Nodes[at].Name, !plain)
					}
					at, came = far.Node, far.Port
				}
			}
		}
	}
}

// TestTables_BranchEndsAtACut: there is no branch to a station that is cut off.
func TestTables_BranchEndsAtACut(t *testing.T) {
	l := newLab(t, "topology: {generate: {dumbbell: {left: 1, right: 2}}, reroute: {after: 1ms}}\n")
	l.cut(t, "s1:s2")
	s1 := l.table(t, "s1").Forwarding
	if a, b := s1.Branch(0), s1.Branch(1); a < 0 || b >= 0 {
		t.Errorf("ports %d and %d to a station at the switch and to one that is cut off", a, b)
	}
}
