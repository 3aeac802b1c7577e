// Command weft emulates datacenter networks with real programs.
package main

import (
	"os"

	"github.com/weftlab/weft/emu/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
