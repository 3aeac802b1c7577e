package netnslab

import "os"

// A host's namespaces can be made and entered only by processes that start in them,
// so Create and Exec start the program that they are part of anew, under one of these
// names. It then does what the name says and never comes as far as main.
const (
	initName  = "weft-init" // the first process of a host: see runInit
	enterName = "weft-exec" // a program in a host, before it is that program: see runEnter
)

// init, and not a call in main, lest a program that uses this package and does not
// make the call started itself for ever.
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
