package fabric

import (
	"fmt"
	"slices"
	"testing"
)

// TestPrefetch_CoversThePortsOfLargeFabrics: each process of a large fabric prefetches all
// ports of its nodes, those of a small fabric and of a single engine prefetch none.
func TestPrefetch_CoversThePortsOfLargeFabrics(t *testing.T) {
	const text = "duration: 1s\ntopology: {generate: {leaf-spine: {spines: 1, leaves: %d, hosts-per-leaf: 20, delay: 1us}}}\n"
	small, large := parse(t, fmt.Sprintf(text, 2)), parse(t, fmt.Sprintf(text, 30))
	if small, large := portsOf(small), portsOf(large); small > cached || large <= cached {
		t.Fatalf("the fabrics have %d and %d ports", small, large)
	}
	for _, f := range []*Fabric{New(large), withWorkers(t, small, 1)} {
		for _, p := range f.processOf {
			if p != nil && p.Prefetch != nil {
				t.Fatalf("a process prefetches %d ports", p.Parts)
			}
		}
	}
	f := withWorkers(t, large, 2)
	of := f.portsByProcess()
	for n, ports := range f.ports {
		p := f.processOf[n]
		if p.Prefetch == nil || p.Parts != len(of[p]) {
			t.Fatalf("a process of %d ports prefetches %d", len(of[p]), p.Parts)
		}
		for _, port := range ports {
			if !slices.Contains(of[p], port) {
				t.Fatalf("port %s is not prefetched", port.Name)
			}
		}
	}
}
