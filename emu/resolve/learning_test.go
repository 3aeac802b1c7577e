package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/mactable"
)

// TestLearning_NodeOverridesKindKeyByKey: a switch takes age and size from its kind where it sets
// none; off and on replace each other; routers learn nothing.
func TestLearning_NodeOverridesKindKeyByKey(t *testing.T) {
	table := func(age units.Time, size int) *mactable.Config { return &mactable.Config{Age: age, Size: size} }
	standard := table(300*units.Second, 8192)
	for _, c := range []struct {
		kind, node string
		want       *mactable.Config
	}{
		{"", "", standard},
		{"", "learning: on", standard},
		{"", "learning: off", nil},
		{"", "learning: {}", standard},
		{"", "learning: {age: 1ms, size: 1048576}", table(units.Millisecond, 1048576)},
		{"learning: {age: 5s, size: 7}", "", table(5*units.Second, 7)},
		{"learning: {age: 5s, size: 7}", "learning: on", table(5*units.Second, 7)},
		{"learning: {age: 5s, size: 7}", "learning: {size: 9}", table(5*units.Second, 9)},
		{"learning: {size: 7}", "learning: {age: 1000000s}", table(1_000_000*units.Second, 7)},
		{"learning: {age: 5s}", "learning: off", nil},
		{"learning: off", "", nil},
		{"learning: off", "learning: on", standard},
		{"learning: off", "learning: {size: 9}", table(300*units.Second, 9)},
		{"learning: {age: 5s}", "address: auto", nil},
	} {
		text := "topology: {kinds: {switch: {" + c.kind + "}}, nodes: {s1: {kind: switch, " + c.node + "}}}\n"
		p, err := Parse("lab.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s%v", text, err)
			continue
		}
		if diff := cmp.Diff(c.want, p.Nodes[0].Learning); diff != "" {
			t.Errorf("%s%s", text, diff)
		}
	}
}
