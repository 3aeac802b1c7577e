package fabric

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
)

// equalLab is three hosts that send at exactly the same rate, three times what the link to a
// fourth carries. Their packets arrive at the switch at the same instants.
const equalLab = `
seed: %d
duration: 200ms
topology:
  kinds: {host: {attach: none}, link: {%s}, switch: {queue: {limit: 20KB}}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, h4: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
    - {endpoints: ["h4:eth0", "s1:4"]}
workload:
  - {cbr: {from: [h2, h3, h4], to: h1, rate: 90Mbps, size: 1000B}}
`

// TestEqualSenders_LoseEqually: of senders of exactly the same rate into one drop-tail port none
// wins and none loses for ever, with any seed, with links that take time and links that take
// none. A run depends on the seed, and not on the number of workers.
func TestEqualSenders_LoseEqually(t *testing.T) {
	for _, link := range []string{"rate: 100Mbps, delay: 20us", "rate: 1Gbps, delay: 20us", "delay: 0s"} {
		traces := map[uint64]bool{}
		for seed := range 4 {
			p := parse(t, fmt.Sprintf(equalLab, seed, link))
			f := New(p)
			if err := f.Run(context.Background(), p.Duration); err != nil {
				t.Fatal(err)
			}
			traces[f.Trace()] = true
			// Each loses 64%; the standard deviation of a share of 2250 packets is at most 1%.
			for _, x := range f.Results() {
				if math.Abs(x.LossShare-0.64) > 0.05 {
					t.Errorf("%s, seed %d: %s lost %.1f%%", link, seed, x.Flow, 100*x.LossShare)
				}
			}
			if locks := f.PhaseLocks(); len(locks) != 0 {
				t.Errorf("%s, seed %d: %v", link, seed, locks)
			}
			for workers := 1; workers <= 4; workers++ {
				g, err := NewWithWorkers(p, workers)
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Run(context.Background(), p.Duration); err != nil {
					t.Fatal(err)
				}
				if g.Trace() != f.Trace() {
					t.Errorf("%s, seed %d: another trace with %d workers", link, seed, workers)
				}
			}
		}
		if len(traces) != 4 {
			t.Errorf("%s: four seeds have %d traces", link, len(traces))
		}
	}
}

// TestEqualFlowsOfAHost_LoseEqually: so do flows of one host that is slower than they are.
func TestEqualFlowsOfAHost_LoseEqually(t *testing.T) {
	f := run(t, parse(t, `
duration: 200ms
topology:
  kinds: {host: {attach: none, queue: {limit: 20KB}}, link: {rate: 100Mbps, delay: 20us}}
  generate: {star: {hosts: 2}}
workload:
  - {cbr: {name: a, from: h1, to: h2, rate: 90Mbps, size: 1000B}}
  - {cbr: {name: b, from: h1, to: h2, rate: 90Mbps, size: 1000B}}
`))
	if a, b := result(t, f, "a").LossShare, result(t, f, "b").LossShare; math.Abs(a-b) > 0.1 {
		t.Errorf("they lost %.1f%% and %.1f%%", 100*a, 100*b)
	}
}

// TestPhaseLock_OfAFlowIsNamed: a sender whose packets always arrive a little after those of
// another loses all when the queue is full, which the fair order of one instant cannot change.
// Different rates, a random pattern, another time or another class are no phase lock, nor is a
// flow that loses because all do.
func TestPhaseLock_OfAFlowIsNamed(t *testing.T) {
	const two = `
  - {cbr: {name: a, from: h2, to: h1, rate: 90Mbps, size: 1000B, at: 1ms}}
  - {cbr: {name: b, from: h3, to: h1, rate: 90Mbps, size: 1000B, at: 1.003ms}}
`
	lab, _, _ := strings.Cut(fmt.Sprintf(equalLab, 1, "rate: 100Mbps, delay: 20us"), "  - {cbr")
	for _, c := range []struct{ name, flows, lock string }{
		{"a little later", two, "s1:1 dropped 9"},
		{"another rate", strings.Replace(two, "90Mbps, size: 1000B, at: 1.003ms", "89Mbps, size: 1000B, at: 1.003ms", 1), ""},
		{"poisson", strings.Replace(two, "cbr: {name: b", "poisson: {name: b", 1), ""},
		{"a different time", strings.Replace(strings.Replace(two, "at: 1ms", "at: 1ms, for: 50ms", 1), "1.003ms", "100ms", 1), ""},
	} {
		f := run(t, parse(t, lab+c.flows))
		switch locks := f.PhaseLocks(); {
		case c.lock == "" && len(locks) > 0:
			t.Errorf("%s: %s", c.name, locks[0].Text())
		case c.lock != "" && (len(locks) != 1 || locks[0].Flow != "b" || locks[0].Other != "a" || !strings.HasPrefix(locks[0].Text(), c.lock) || !strings.Contains(locks[0].Remedy(), "write clock: real")):
			t.Errorf("%s: %v", c.name, locks)
		}
	}
}

// TestPhaseLock_OfAQueuePairIsNamed: two senders without rate control and with equal timers
// whose packets meet in a full queue in the same way after each timeout, until they give up.
func TestPhaseLock_OfAQueuePairIsNamed(t *testing.T) {
	const lab = `
duration: 5s
topology:
  kinds: {host: {attach: none, nic: {timeout: 67ms}}, link: {rate: 500Mbps, delay: 20us}}
  generate: {star: {hosts: 3}}
workload:
  - {write: {from: h2, to: h1, size: 65536B, count: unlimited, depth: 128, for: 5s}}
  - {write: {from: h3, to: h1, size: 65536B, count: unlimited, depth: 128, for: 5s, at: 300ms}}
`
	f := run(t, parse(t, lab))
	var named []string
	for _, x := range f.PhaseLocks() {
		named = append(named, x.From)
		if x.Port != "s1:h1" || x.To != "10.0.0.1" || x.Times != 8 || x.QPN == 0 {
			t.Errorf("%+v", x)
		}
	}
	if fmt.Sprint(named) != "[h2:eth0 h3:eth0]" {
		t.Errorf("named: %v", named)
	}
	// If the clocks drift, other ones are no remedy.
	f = run(t, parse(t, "clock: real\n"+lab))
	locks := f.PhaseLocks()
	if len(locks) == 0 || !locks[0].Drifting || !strings.Contains(locks[0].Remedy(), "use PFC") {
		t.Errorf("with real clocks: %+v", locks)
	}
}

// TestPhaseLock_IsNoOverload: the same senders, when their messages fit the queue, or lose
// packets at random, are not in phase.
func TestPhaseLock_IsNoOverload(t *testing.T) {
	for _, lab := range []string{`
topology:
  kinds: {host: {attach: none, nic: roce}, link: {rate: 500Mbps, delay: 20us}}
  generate: {star: {hosts: 3}}
workload:
  - {write: {from: [h2, h3], to: h1, size: 65536B, count: 100, depth: 2}}
`, `
topology:
  kinds: {host: {attach: none, nic: roce}, link: {rate: 500Mbps, delay: 20us, loss: 10%}, switch: {queue: {limit: 100KB}}}
  generate: {star: {hosts: 3}}
workload:
  - {write: {from: [h2, h3], to: h1, size: 65536B, count: 100, depth: 4}}
`} {
		f := run(t, parse(t, lab))
		for _, x := range f.PhaseLocks() {
			t.Errorf("%s\n%s", lab, x.Text())
		}
	}
}
