//go:build amd64 || arm64

package prefetch

import "unsafe"

// lines prefetches the cache lines of n bytes starting at p; n is above 0.
//
//go:noescape
func lines(p unsafe.Pointer, n uintptr)
