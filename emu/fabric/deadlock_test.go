package fabric

import (
	"testing"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// TestUpdateDeadlocks_EndsWhatDoesNotLast: a recorded deadlock whose queues move is over, and
// nothing is recorded.
func TestUpdateDeadlocks_EndsWhatDoesNotLast(t *testing.T) {
	f := run(t, parse(t, `
duration: 1ms
topology:
  kinds: {host: {attach: none}, switch: {buffer: {size: 1MB}, classes: {default: {pfc: {}}}}, link: {rate: 1Gbps}}
  generate: {star: {hosts: 2}}
workload:
  - {cbr: {from: h1, to: h2, rate: 500Mbps, size: 1000B}}
`))
	f.deadlocks = []status.Deadlock{{Cycle: []string{"s1:h1", "s1:h2"}, Class: "default", Since: units.Microsecond}}
	if others := f.UpdateDeadlocks(); len(others) != 0 || len(f.Deadlocks()) != 1 || f.Deadlocks()[0].Ended != f.Now() {
		t.Errorf("%+v, %+v at %v", others, f.Deadlocks(), f.Now())
	}
}
