package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/nodeclock"
)

// NodeClock is the clock of a node that is not exact.
type NodeClock struct {
	Node   string  `json:"node"`
	PPM    float64 `json:"ppm"`              // by how much it is fast
	Jitter string  `json:"jitter,omitempty"` // bound of the delay of a packet: a time, or packet
}

// NodeClocks returns the clocks of a plan that are not exact.
func NodeClocks(p *plan.Plan) (all []NodeClock) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Clock.IsExact() {
			continue
		}
		c := NodeClock{Node: n.Name, PPM: float64(n.Clock.Error) / float64(nodeclock.PPM)}
		if n.Clock.Jitter != (nodeclock.Jitter{}) {
			c.Jitter = n.Clock.Jitter.String()
		}
		all = append(all, c)
	}
	return all
}

// maxClocks is how many clocks fit the line of a text report; JSON has them all.
const maxClocks = 6

// WriteNodeClocks prints clocks that are not exact, each if there are few or all is set.
func WriteNodeClocks(w io.Writer, clocks []NodeClock, all bool) {
	if len(clocks) == 0 {
		return
	}
	jitter, low, high := clocks[0].Jitter, clocks[0], clocks[0]
	for _, c := range clocks {
		if c.Jitter != jitter {
			jitter = "several"
		}
		if c.PPM < low.PPM {
			low = c
		}
		if c.PPM > high.PPM {
			high = c
		}
	}
	if len(clocks) > maxClocks && !all {
		fmt.Fprintf(w, "clocks   %d not exact, %s (%s) to %s (%s)", len(clocks), ppmText(low.PPM), low.Node, ppmText(high.PPM), high.Node)
		if jitter != "" {
			fmt.Fprintf(w, ", jitter %s", jitter)
		}
		fmt.Fprintln(w)
		return
	}
	texts := make([]string, len(clocks))
	for i, c := range clocks {
		if texts[i] = c.Node + " " + ppmText(c.PPM); jitter == "several" && c.Jitter != "" {
			texts[i] += " jitter " + c.Jitter
		}
	}
	fmt.Fprintf(w, "clocks   %s", strings.Join(texts, ", "))
	if jitter != "" && jitter != "several" {
		fmt.Fprintf(w, ", jitter %s", jitter)
	}
	fmt.Fprintln(w)
}

// ppmText formats an error in parts per million.
func ppmText(ppm float64) string {
	return nodeclock.PPB(math.Round(ppm * float64(nodeclock.PPM))).String()
}
