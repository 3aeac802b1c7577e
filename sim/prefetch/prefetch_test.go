package prefetch

import (
	"testing"
	"unsafe"
)

// TestPrefetch: prefetched memory is unchanged, and nothing faults, neither at the end
// of readable memory nor at nil.
func TestPrefetch(t *testing.T) {
	type value struct {
		a int
		_ [1000]byte
		z int
	}
	v := &value{a: 1, z: 2}
	PrefetchBytes(unsafe.Pointer(v), unsafe.Sizeof(*v))
	PrefetchHead(v, 1)
	PrefetchHead(v, 2*unsafe.Sizeof(*v))
	PrefetchBytes(unsafe.Pointer(&v.z), 10*Line)
	PrefetchHead[value](nil, 1)
	if v.a != 1 || v.z != 2 {
		t.Errorf("%d and %d became %d and %d", 1, 2, v.a, v.z)
	}
	if allocs := testing.AllocsPerRun(10, func() {
		var local value
		PrefetchHead(&local, Line)
	}); allocs != 0 {
		t.Errorf("%v allocations: what is prefetched escapes", allocs)
	}
}

// BenchmarkSum reads one line of each of many pages, with and without prefetching.
func BenchmarkSum(b *testing.B) {
	type page [4096]byte
	pages := make([]page, 1<<14)
	for i := range pages {
		pages[i][0] = 1
	}
	for _, ahead := range []int{0, 8} {
		b.Run(map[int]string{0: "without", 8: "with"}[ahead], func(b *testing.B) {
			sum, at := 0, 0
			for range b.N {
				// The next address depends on what was read: without a prefetch the processor
				// waits for each line.
				if ahead > 0 {
					PrefetchHead(&pages[(at+ahead*7919)%len(pages)], 1)
				}
				n := int(pages[at][0])
				sum += n
				at = (at + 7919*n) % len(pages)
			}
			if sum != b.N {
				b.Fatal(sum)
			}
		})
	}
}
