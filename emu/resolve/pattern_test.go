package resolve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// dumpTraffic prints a pattern: its carrier, its hosts, and the first of the flows that
// it starts by its clock alone.
func dumpTraffic(b *strings.Builder, p *plan.Plan, t *plan.Traffic) {
	fmt.Fprintf(b, "traffic %s", t.Name)
	if t.RDMA != nil {
		fmt.Fprintf(b, " rdma %+v", *t.RDMA)
	}
	if t.UDP != nil {
		fmt.Fprintf(b, " udp %+v", *t.UDP)
	}
	if t.NDP != nil {
		fmt.Fprintf(b, " ndp %+v", *t.NDP)
	}
	var hosts []string
	for _, h := range t.Pattern.Hosts() {
		hosts = append(hosts, p.Nodes[h].Name)
	}
	fmt.Fprintf(b, " among %s\n", strings.Join(hosts, " "))
	for _, f := range flowsOf(t.Pattern, 4) {
		fmt.Fprintf(b, "  %v %s > %s %dB tag %d group %d\n", f.At, p.Nodes[f.From].Name, p.Nodes[f.To].Name, f.Size, f.Tag, f.Group)
	}
}

// flowsOf returns the first flows that a pattern starts by its clock alone.
func flowsOf(p pattern.Pattern, maxCount int) (flows []pattern.Flow) {
	for f := range pattern.PlayFlows(p, units.Second) {
		if flows = append(flows, f); len(flows) == maxCount {
			break
		}
	}
	return flows
}

// samePattern compares patterns by their hosts and the flows that they start, since they
// contain functions.
var samePattern = cmp.Comparer(func(a, b pattern.Pattern) bool {
	return cmp.Equal(a.Hosts(), b.Hosts()) && cmp.Equal(flowsOf(a, 1000), flowsOf(b, 1000))
})

const filesLab = `topology:
  generate: {star: {hosts: 3, rate: 10Gbps}}
  kinds: {host: {nic: roce}}
workload:
  - {arrivals: {load: 50%%, sizes: {cdf: %s}, count: 10, to: {matrix: %s}}}
  - {flow-list: {hpcc: %s}}
`

// TestFilesAreRelative checks that files are searched for beside the lab file, or beside
// the file of the patch that names them, and that the text of a patched lab needs none of
// them.
func TestFilesAreRelative(t *testing.T) {
	lab, other := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(lab, "sizes.txt"): "0 0\n1000 100\n", filepath.Join(lab, "matrix.txt"): "0 1 1\n1 0 1\n1 1 0\n",
		filepath.Join(lab, "flows.txt"): "1\n0 1 3 100 1000 0.001\n", filepath.Join(other, "sizes.txt"): "1000000 0\n2000000 100\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(lab, "lab.yaml")
	src := []byte(fmt.Sprintf(filesLab, "sizes.txt", "matrix.txt", filepath.Join(lab, "flows.txt")))
	p, err := Parse(path, src)
	if err != nil {
		t.Fatal(err)
	}
	flows := flowsOf(p.Traffic[0].Pattern, 100)
	if len(p.Traffic) != 2 || len(flows) != 10 || flows[0].Size > 1000 {
		t.Errorf("%d patterns, flows %+v", len(p.Traffic), flows)
	}

	patches := patchesOf(t, filepath.Join(other, "experiment.yaml"), "sizes.txt")
	q, text, err := ParsePatched(path, src, 1, patches)
	if err != nil {
		t.Fatal(err)
	}
	if f := flowsOf(q.Traffic[0].Pattern, 1); f[0].Size < 1_000_000 {
		t.Errorf("the patch names another file: %+v", f)
	}
	again, err := ParseSeed("elsewhere.yaml", []byte(text), 1)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for i := range q.Traffic {
		if !cmp.Equal(q.Traffic[i].Pattern, again.Traffic[i].Pattern, samePattern) {
			t.Errorf("the text of %s makes another pattern:\n%s", q.Traffic[i].Name, text)
		}
	}

	if err := os.WriteFile(filepath.Join(other, "sizes.txt"), []byte("0 0\n1 100\n"+strings.Repeat("#\n", 1<<20)), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ParsePatched(path, src, 1, patches); err == nil || !strings.Contains(err.Error(), "exceed the size limit of a lab file") {
		t.Errorf("a lab that could not be read again: %v", err)
	}
}

// patchesOf returns a patch of the first entry's sizes, from a separate file.
func patchesOf(t *testing.T, file, sizes string) []labfile.Patch {
	r := yamlfile.New(file, []byte(sizes+"\n"))
	var value yamlfile.Scalar
	r.Read(&value, r.Parse(), "a value")
	v, ok := r.ValueOf(&value)
	if !ok {
		t.Fatal(r.Err())
	}
	return []labfile.Patch{{Path: "workload[0].arrivals.sizes.cdf", Value: v, At: v}}
}

// TestSeedsOfPatterns checks that a pattern's flows depend on the lab's seed and on its
// name.
func TestSeedsOfPatterns(t *testing.T) {
	const lab = `topology: {generate: {star: {hosts: 3, rate: 10Gbps}}, kinds: {host: {nic: roce}}}
workload:
  - {arrivals: {load: 50%, sizes: websearch, count: 10}}
  - {arrivals: {load: 50%, sizes: websearch, count: 10}}
  - {arrivals: {name: arrivals-2, load: 50%, sizes: websearch, count: 10}}
`
	p, err := Parse("lab.yaml", []byte(lab))
	if err != nil {
		t.Fatal(err)
	}
	q, err := ParseSeed("lab.yaml", []byte(lab), 2)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range p.Traffic {
		names = append(names, p.Traffic[i].Name)
		for _, other := range []pattern.Pattern{q.Traffic[i].Pattern, p.Traffic[(i+1)%3].Pattern} {
			if cmp.Equal(flowsOf(p.Traffic[i].Pattern, 5), flowsOf(other, 5)) {
				t.Errorf("%s has the flows of another pattern, or of another seed", p.Traffic[i].Name)
			}
		}
	}
	if diff := cmp.Diff([]string{"arrivals", "arrivals-3", "arrivals-2"}, names); diff != "" {
		t.Error(diff)
	}
}
