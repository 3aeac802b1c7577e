package fabric

import (
	"github.com/weftlab/weft/emu/parallel"
	"github.com/weftlab/weft/emu/plan"
)

// MaxWorkers is the maximum number of threads that run a fabric.
const MaxWorkers = parallel.MaxWorkers

// CheckWorkers returns why a plan cannot be cut into the number of shards that it asks
// for in the wall clock, nil if it can.
func CheckWorkers(p *plan.Plan) error {
	_, err := parallel.Partition(p, max(1, p.Engine.Workers))
	return err
}

// fewPorts is the least number of ports of a worker: with fewer, it would wait
// for others longer than it works. A lab with fewer stays in the cache anyway,
// and windows would only cost time.
const fewPorts = 32

func portsOf(p *plan.Plan) (n int) {
	for i := range p.Nodes {
		n += len(p.Nodes[i].Ports)
	}
	return n
}
