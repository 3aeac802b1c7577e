package plan

import "time"

// Program is a command that a host runs from when the lab is up, unless something
// fails. The programs of a host start in order, each when the one before is ready.
type Program struct {
	Line  int // in the file, for errors that occur later
	Text  string
	Argv  []string // of /bin/sh for a command written as a string
	Env   []string // KEY=value, in addition to weft's own
	Ready Ready
}

// Ready says what a lab waits for after it has started a program. At most one of Port,
// Output, File and Exit is set; if none is, the lab waits for nothing.
type Ready struct {
	Port   uint16 // something listens on this TCP port
	Output string // a regular expression that a line of its output matches
	File   string // an absolute path that exists in the host
	Exit   bool   // the program has ended with exit code 0
	Within time.Duration
}

// Waits reports whether there is anything to wait for.
func (r *Ready) Waits() bool { return r.Port != 0 || r.Output != "" || r.File != "" || r.Exit }
