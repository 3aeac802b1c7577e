//go:build amd64 || arm64

package prefetch

import "unsafe"

// prefetchLines prefetches the cache lines of n bytes starting at p; n is above 0.
//
//go:noescape
func prefetchLines(p unsafe.Pointer, n uintptr)
