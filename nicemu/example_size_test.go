package nicemu_test

import (
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// A message of which only the size is modelled takes no memory, and the same time as one of bytes.
func ExamplePD_RegisterSize() {
	const size = 100 * units.MB
	f := build(star)
	a, b := open(must(f.DeviceOf("h1")), nicemu.RC), open(must(f.DeviceOf("h2")), nicemu.RC)
	check(nicemu.JoinPair(a.qp, b.qp, nicemu.Join{Access: nicemu.RemoteWrite}))
	from, to := must(a.pd.RegisterSize(size, 0)), must(b.pd.RegisterSize(size, everything))
	must(f.Go("h1", func(p *sim.Process, d *nicemu.Device) {
		check(a.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{from.SGE(0, size)}, RemoteVA: to.Addr(0), RKey: to.RKey()}))
		must(a.cq.WaitOne(p))
		fmt.Println(size, "in", p.Now())
		fmt.Printf("goodput %.2f Gb/s\n", float64(size)*8/float64(p.Now())*float64(units.Second)/1e9)
	}))
	run(f)
	// Output:
	// 100MB in 8164512.96ns
	// goodput 97.99 Gb/s
}
