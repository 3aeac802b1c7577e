package parallel

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/traffic/pattern"
)

// TestPartition_KeepsPodsWholeAndLoadsEven: pods and leaves stay whole, loads are even, and a
// plan that cannot be cut is refused with the reason.
func TestPartition_KeepsPodsWholeAndLoadsEven(t *testing.T) {
	p := fabrictest.Parse(t, "duration: 1s\ntopology: {generate: {fat-tree: {k: 4, rate: 1Gbps, delay: 1us}}}\n")
	shardOf, err := Partition(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	count := [2]int{}
	for n, s := range shardOf {
		count[s]++
		_ = n
	}
	if count[0] != count[1] {
		t.Errorf("%d nodes in one shard, %d in the other", count[0], count[1])
	}
	for _, l := range p.Links {
		a, b := p.Nodes[l.Ends[0].Node].Name, p.Nodes[l.Ends[1].Node].Name
		if shardOf[l.Ends[0].Node] != shardOf[l.Ends[1].Node] && !strings.HasPrefix(a, "core") && !strings.HasPrefix(b, "core") {
			t.Errorf("the link from %s to %s is cut", a, b)
		}
	}
	for text, want := range map[string]string{
		"{star: {hosts: 6}}":                 "delay below 100ns",
		"{star: {hosts: 2, delay: 1us}}":     "only 3 nodes",
		"{dumbbell: {left: 2, right: 2}}":    "give the links between switches a delay",
		"{fat-tree: {k: 4, delay: 99999ps}}": "delay below 100ns",
	} {
		p := fabrictest.Parse(t, "duration: 1s\ntopology: {generate: "+text+"}\n")
		if _, err := Partition(p, 5); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s in 5 workers: %v, want an error with %q", text, err, want)
		}
	}
}

// TestProcesses_KeepHostsOfTriggersTogether: hosts between which triggers of flows act share a
// process, since they act at once; others do not.
func TestProcesses_KeepHostsOfTriggersTogether(t *testing.T) {
	p := fabrictest.Parse(t, "duration: 1s\ntopology: {generate: {star: {hosts: 4, rate: 1Gbps, delay: 1us}}}\n")
	var hosts []int
	for i, n := range p.Nodes {
		if n.Kind == plan.Host {
			hosts = append(hosts, i)
		}
	}
	list, err := pattern.List{
		Hosts: hosts, Triggers: []pattern.Trigger{{}},
		Flows: []pattern.Listed{{From: 0, To: 1, Size: 1, Sent: 1}, {From: 2, To: 1, Size: 1, Trigger: 1}},
	}.Make()
	if err != nil {
		t.Fatal(err)
	}
	p.Traffic = []plan.Traffic{{Pattern: list}}
	of, _, _ := Processes(p, 8)
	if of[hosts[0]] != of[hosts[2]] {
		t.Error("hosts 0 and 2 are in different processes")
	}
	for _, n := range []int{hosts[1], hosts[3]} {
		if of[n] == of[hosts[0]] {
			t.Errorf("node %d is in the process of hosts 0 and 2", n)
		}
	}
}
