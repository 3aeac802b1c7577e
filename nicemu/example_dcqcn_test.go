package nicemu_test

import (
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Two hosts WRITE to a third, the switch marks packets, and DCQCN slows them down.
func ExampleQP_Rate() {
	f := build(`
name: congested
topology:
  generate: {star: {hosts: 3, rate: 25Gbps, delay: 1us, mtu: 4200}}
  kinds:
    host: {attach: none, nic: {cc: dcqcn, dscp: 26}}
    switch:
      buffer: {size: 12MB}
      classes:
        cnp: {dscp: 48, priority: 6}
        data: {dscp: 26, priority: 3, mark: {step: {k: 100KB}}, pfc: {xoff: 1MB}}
        default: {weight: 1}
`)
	to := open(must(f.DeviceOf("h1")), nicemu.RC)
	mr := must(to.pd.RegisterSize(5*units.MB, everything))
	sender := func(p *sim.Process, d *nicemu.Device) {
		e := open(d, nicemu.RC)
		q := must(to.pd.CreateQP(nicemu.QPConfig{Type: nicemu.RC, SendCQ: to.cq, RecvCQ: to.cq}))
		check(nicemu.JoinPair(e.qp, q, nicemu.Join{Access: nicemu.RemoteWrite}))
		from := must(e.pd.RegisterSize(5*units.MB, 0))
		check(e.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{from.SGE(0, 5*units.MB)}, RemoteVA: mr.Addr(0), RKey: mr.RKey()}))
		for d.Name() == "h2:eth0" && e.cq.Len() == 0 {
			rate, _ := e.qp.Rate()
			_, counters := e.qp.Counters()
			fmt.Printf("%-5v %3d CNPs, %5.2f Gb/s\n", p.Now(), counters.CNPsHandled, float64(rate)/1e9)
			p.Sleep(500 * units.Microsecond)
		}
	}
	must(f.Go("h2", sender))
	must(f.Go("h3", sender))
	run(f)
	// Output:
	// 0s      0 CNPs, 25.00 Gb/s
	// 500us  22 CNPs, 10.63 Gb/s
	// 1ms    35 CNPs, 11.86 Gb/s
	// 1.5ms  56 CNPs, 10.09 Gb/s
	// 2ms    56 CNPs, 13.02 Gb/s
	// 2.5ms  87 CNPs,  5.50 Gb/s
	// 3ms    87 CNPs, 12.24 Gb/s
	// 3.5ms  87 CNPs, 13.37 Gb/s
	// 4ms   115 CNPs,  6.24 Gb/s
}
