package netnslab

import "path/filepath"

// VerbsSocket is the socket by which RDMA programs of a host reach its NICs, in a
// lab's state directory. It is there if the host has any.
func VerbsSocket(dir, host string) string { return filepath.Join(dir, "verbs", host) }
