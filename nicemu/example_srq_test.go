package nicemu_test

import (
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Two queue pairs of a server share one queue of receives. When few are left, the server gets an
// event and posts more.
func ExampleSRQ() {
	f := build(star)
	d := must(f.DeviceOf("h1"))
	e := open(d, nicemu.RC) // only its memory and completion queue are used
	srq := must(e.pd.CreateSRQ(nicemu.SRQAttr{MaxWR: 8, MaxSGE: 1}))
	refill := func() {
		for srq.Len() < 8 {
			check(srq.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{e.mr.SGE(0, 100)}}))
		}
		check(srq.Modify(nicemu.SRQAttr{Limit: 3}, nicemu.SRQLimit))
	}
	refill()

	client := func(p *sim.Process, d *nicemu.Device) {
		c := open(d, nicemu.RC)
		q := must(e.pd.CreateQP(nicemu.QPConfig{Type: nicemu.RC, SendCQ: e.cq, RecvCQ: e.cq, SRQ: srq}))
		check(nicemu.JoinPair(c.qp, q, nicemu.Join{}))
		for range 5 {
			check(c.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpSend, SGL: []nicemu.SGE{c.mr.SGE(0, 100)}}))
		}
	}
	server := func(p *sim.Process, d *nicemu.Device) {
		event := must(d.WaitEvent(p, units.Never))
		fmt.Println(event.Kind, "at", event.SRQ.Len())
		refill()
	}
	must(f.Go("h1", server))
	must(f.Go("h2", client))
	must(f.Go("h3", client))
	run(f)
	fmt.Println(e.cq.Len(), "messages,", srq.Len(), "receives")
	// Output:
	// IBV_EVENT_SRQ_LIMIT_REACHED at 2
	// 10 messages, 4 receives
}
