// Package prefetch asks the processor to bring memory into its caches before it is needed.
// It only affects speed: where Go's assembler has no such instruction for a processor, it
// does nothing.
package prefetch

import "unsafe"

// Line is how many bytes a processor fetches at once.
const Line = 64

// PrefetchBytes prefetches the n bytes from p on, which need not be readable; n is above 0.
func PrefetchBytes(p unsafe.Pointer, n uintptr) { prefetchLines(p, n) }

// PrefetchHead prefetches the first n bytes of the value that p points to, at most all of them.
// p may be nil.
func PrefetchHead[T any](p *T, n uintptr) {
	prefetchLines(unsafe.Pointer(p), min(n, unsafe.Sizeof(*p)))
}
