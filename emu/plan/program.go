package plan

import "time"

// Program is a command that a host runs from when the lab is up, as far as nothing
// fails. A host's start in their order, each when the one before is ready.
type Program struct {
	Line  int // in the file, for what goes wrong later
	Text  string
	Argv  []string // of /bin/sh for what is written as a text
	Env   []string // KEY=value, beside weft's own
	Ready Ready
}

// Ready says what a lab waits for after it has started a program. At most one of Port,
// Output, File and Exit is there; none waits for nothing.
type Ready struct {
	Port   uint16 // something listens there by TCP
	Output string // a regular expression that a line of its output matches
	File   string // an absolute path that is there in the host
	Exit   bool   // it has ended, with exit code 0
	Within time.Duration
}

// Waits tells whether there is anything to wait for.
func (r *Ready) Waits() bool { return r.Port != 0 || r.Output != "" || r.File != "" || r.Exit }
