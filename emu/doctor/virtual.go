package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/sim/units"
)

// virtualSpeed is the name of the measurement, for LeftOut.
const virtualSpeed = "virtual time"

// VirtualTime is the speed of the engine in virtual time.
type VirtualTime struct {
	Hops float64 `json:"packet_hops_per_second"` // packets sent by a port
}

// fatTree returns the lab that the engine runs: 128 hosts at 60% load, each
// sending to another pod, as in BenchmarkFabric.
func fatTree() (*plan.Plan, error) {
	const hosts = 128
	var b strings.Builder
	b.WriteString("duration: 1h\ntopology: {generate: {fat-tree: {k: 8, rate: 100Gbps, delay: 1us}}}\nworkload:\n")
	for i := range hosts {
		fmt.Fprintf(&b, "  - {cbr: {from: h%d, to: h%d, rate: 60Gbps, size: 1000B}}\n", i+1, (i+hosts/2)%hosts+1)
	}
	return resolve.Parse("doctor", []byte(b.String()))
}

func virtualTime(ctx context.Context, e effort) (*VirtualTime, error) {
	plan, err := fatTree()
	if err != nil {
		return nil, err
	}
	fb, err := fabric.NewParallel(plan, 1) // measure one core
	if err != nil {
		return nil, err
	}
	const step = 20 * units.Microsecond // a few thousand hops
	at := 5 * step
	if err := fb.Run(ctx, at); err != nil { // until queues and pools have reached their size
		return nil, err
	}
	var rates []float64
	for range e.rounds {
		before, start := countHops(fb), time.Now()
		for time.Since(start) < e.virtual {
			at += step
			if err := fb.Run(ctx, at); err != nil {
				return nil, err
			}
		}
		took := time.Since(start)
		rates = append(rates, float64(countHops(fb)-before)/took.Seconds())
	}
	return &VirtualTime{keepDigits(medianValue(rates), 3)}, nil
}

func countHops(fb *fabric.Fabric) (n uint64) {
	for _, p := range fb.Status() {
		n += p.TxPackets
	}
	return n
}
