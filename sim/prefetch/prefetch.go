// Package prefetch asks the processor to bring memory into its caches before it is needed.
// It only gains time: where a processor has no such instruction that Go's assembler knows,
// it does nothing.
package prefetch

import "unsafe"

// Line is how many bytes a processor fetches at once.
const Line = 64

// All fetches what p points to. A nil p is fine: a prefetch never faults.
func All[T any](p *T) { lines(unsafe.Pointer(p), unsafe.Sizeof(*p)) }

// Head fetches the first n bytes of what p points to, at most all of them.
func Head[T any](p *T, n uintptr) { lines(unsafe.Pointer(p), min(n, unsafe.Sizeof(*p))) }
