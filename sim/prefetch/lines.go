//go:build amd64 || arm64

package prefetch

import "unsafe"

// lines fetches the lines of n bytes from p on; n is above 0.
//
//go:noescape
func lines(p unsafe.Pointer, n uintptr)
