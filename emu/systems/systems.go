// Package systems registers weft's built-in systems: importing it registers them with
// their extension points, so that lab files can name them.
package systems

import (
	_ "github.com/weftlab/weft/nicemu/edge/eqdsnic"                // edge service eqds
	_ "github.com/weftlab/weft/nicemu/edge/limit"                  // edge service limit
	_ "github.com/weftlab/weft/nicemu/roguenic"                    // layer rogue
	_ "github.com/weftlab/weft/protocols/accurate"                 // rate control accurate
	_ "github.com/weftlab/weft/protocols/bbr"                      // rate control bbr
	_ "github.com/weftlab/weft/protocols/cubic"                    // rate control cubic
	_ "github.com/weftlab/weft/protocols/dcqcn"                    // rate control dcqcn
	_ "github.com/weftlab/weft/protocols/dctcp"                    // rate control dctcp
	_ "github.com/weftlab/weft/protocols/eqds"                     // dissector eqds
	_ "github.com/weftlab/weft/protocols/hpcc"                     // rate control hpcc
	_ "github.com/weftlab/weft/protocols/ndp"                      // dissector ndp
	_ "github.com/weftlab/weft/protocols/qcn"                      // rate control qcn
	_ "github.com/weftlab/weft/protocols/reno"                     // rate control reno
	_ "github.com/weftlab/weft/protocols/rocc"                     // rate control rocc
	_ "github.com/weftlab/weft/protocols/swift"                    // rate control swift
	_ "github.com/weftlab/weft/protocols/timely"                   // rate control timely
	_ "github.com/weftlab/weft/switches/congestion/accurateswitch" // congestion point accurate
	_ "github.com/weftlab/weft/switches/congestion/qcnswitch"      // congestion point qcn
	_ "github.com/weftlab/weft/switches/congestion/roccswitch"     // congestion point rocc
)
