// Command weft-brake is weft with one more congestion point and one more rate control.
package main

import (
	"os"

	_ "example.com/weft-brake/brake" // registers its systems

	"github.com/weftlab/weft/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
