package netnslab

import "os"

// Only processes that start in a host's namespaces can make and enter them, so Create
// and ExecProgram start their own program again under one of these names. It then acts by
// that name and never reaches main.
const (
	initName  = "weft-init" // the first process of a host: see runInit
	enterName = "weft-exec" // a process in a host before it executes its program: see runEnter
)

// This is in init rather than a call in main: a program that used this package without
// that call would start itself for ever.
func init() {
	switch os.Args[0] {
	case initName:
		runInit()
	case enterName:
		runEnter(os.Args)
	}
}

// self is the executable of this process, wherever its file is now.
const self = "/proc/self/exe"
