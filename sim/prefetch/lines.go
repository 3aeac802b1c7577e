//go:build amd64 || arm64

package prefetch

import "unsafe"

// lines prefetches the cache lines of n bytes starting at p; n is above 0.
//
//go:noescape
func lines(p unsafe.Pointer, n uintptr)

// ranges prefetches the cache lines of the n ranges starting at r; n is above 0.
//
//go:noescape
func ranges(r *Range, n uintptr)
