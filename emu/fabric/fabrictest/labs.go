package fabrictest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
)

// Parse returns the plan of a lab file's text.
func Parse(t rapid.TB, text string) *plan.Plan {
	t.Helper()
	p, err := resolve.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

// ParseFile reads a lab that comes with weft, with another seed and with parts of its text
// replaced: old, new, old, new, ... The path starts at the repository's root, which is two
// directories above that of the test.
func ParseFile(t testing.TB, path string, seed int, changes ...string) *plan.Plan {
	t.Helper()
	b, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s does not say %q", path, changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return Parse(t, fmt.Sprintf("seed: %d\n%s", seed, text))
}

// Star returns hosts with NICs at one switch. nic is the settings of the NICs, and more is
// the lab file's text after the topology.
func Star(t testing.TB, hosts int, nic, more string) *plan.Plan {
	t.Helper()
	return Parse(t, fmt.Sprintf(`
topology:
  kinds: {host: {attach: none, nic: %s}}
  generate: {star: {hosts: %d, rate: 10Gbps, delay: 1us}}
%s`, nic, hosts, more))
}

// Hosts returns the hosts of a plan.
func Hosts(p *plan.Plan) (hosts []int) {
	for i, n := range p.Nodes {
		if n.Kind == plan.Host {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

// SkipUnderRace skips a test that takes long with the race detector, which has nothing to
// find in it: one goroutine runs one engine.
func SkipUnderRace(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("SKIPPED: a long run of one engine; it runs without the race detector")
	}
}
