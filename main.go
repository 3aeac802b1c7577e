// Command weft emulates datacenter networks with real programs.
package main

import (
	"os"
	"runtime"

	"github.com/weftlab/weft/cli"
)

func main() {
	runtime.MemProfileRate = 0 // the profile is not used, and its samples take memory
	os.Exit(cli.Main(os.Args[1:]))
}
