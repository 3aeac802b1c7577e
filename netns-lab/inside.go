package netnslab

import "os"

// A host's namespaces can be made and entered only by processes that start in them,
// so Create and Exec start their own program again, under one of these names. It then
// does what the name says and never gets as far as main.
const (
	initName  = "weft-init" // the first process of a host: see runInit
	enterName = "weft-exec" // a program in a host, before it is that program: see runEnter
)

// init, and not a call in main: a program that used this package without making the call
// would start itself for ever.
func init() {
	switch os.Args[0] {
	case initName:
		runInit()
	case enterName:
		runEnter(os.Args)
	}
}

// self is the program that this process runs, wherever its file is now.
const self = "/proc/self/exe"
