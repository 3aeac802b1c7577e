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

// Diamond is a lab of r1 and r5 with three routers between them. Behind r5 is a plain
// switch with three hosts. Its places are the forwarding of the switches, the static
// routes of r1, r2 and r5, and the workload.
const Diamond = `
duration: 200ms
topology:
  reroute: {after: 0}
  kinds: {switch: {address: auto, forwarding: %s}, link: {rate: 1Gbps, delay: 1us}}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
    h4: {kind: host}
    r1: {kind: switch, routes: [%s]}
    r2: {kind: switch, routes: [%s]}
    r3: {kind: switch}
    r4: {kind: switch}
    r5: {kind: switch, routes: [%s]}
    s1: {kind: switch, address: none}
  links:
    - {endpoints: ["h1:eth0", "r1:1"]}
    - {endpoints: ["r1:2", "r2:1"]}
    - {endpoints: ["r1:3", "r3:1"]}
    - {endpoints: ["r1:4", "r4:1"]}
    - {endpoints: ["r2:2", "r5:2"]}
    - {endpoints: ["r3:2", "r5:3"]}
    - {endpoints: ["r4:2", "r5:4"]}
    - {endpoints: ["r5:1", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
    - {endpoints: ["h4:eth0", "s1:4"]}
workload: [%s]
`

// FlowLab is a leaf-spine fabric with transfers of every verb, over RC and UC, and with two
// rate controls, DCQCN and Swift.
const FlowLab = `
duration: 3ms
topology:
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
  kinds: {host: {nic: {cc: dcqcn}}, switch: {queue: {mark: {red: {kmin: 1KB, kmax: 20KB, pmax: 20%}}}}}
  nodes: {h3: {nic: {cc: swift}}}
workload:
  - {write: {name: a, from: h1, to: h4, size: 300KB, depth: 2, for: 3ms}}
  - {write: {name: b, from: h3, to: h4, size: 300KB, depth: 2, at: 500us, count: 3}}
  - {read: {name: c, from: h4, to: h2, size: 100KB, at: 1ms}}
  - {send: {name: d, from: h2, to: h1, size: 100KB, service: uc, count: 4}}
`
