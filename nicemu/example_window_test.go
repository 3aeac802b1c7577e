package nicemu_test

import (
	"errors"
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// A memory window of type 2 lets a peer write to a part of a region, until the peer revokes the
// right with a SEND with Invalidate.
func ExampleMW() {
	f := build(star)
	a, b := open(must(f.DeviceOf("h1")), nicemu.RC), open(must(f.DeviceOf("h2")), nicemu.RC)
	check(nicemu.JoinPair(a.qp, b.qp, nicemu.Join{Access: nicemu.RemoteWrite}))

	window := must(a.pd.AllocMW(nicemu.MWType2))
	binding := window.Binding(a.mr, 1000, 100, nicemu.RemoteWrite)
	must(f.Go("h1", func(p *sim.Process, d *nicemu.Device) {
		check(a.qp.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{a.mr.SGE(0, 4)}}))
		check(a.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpBindWindow, Bind: binding}))
		must(a.cq.WaitOne(p))
		c := must(a.cq.WaitOne(p))
		fmt.Printf("%q was written, %q was sent\n", a.buffer[1000:1005], a.buffer[:4])
		fmt.Println("key taken back:", c.Flags&nicemu.WCWithInv != 0 && c.Imm == binding.Key())
	}))
	must(f.Go("h2", func(p *sim.Process, d *nicemu.Device) {
		p.Sleep(units.Microsecond) // the window is bound by then
		copy(b.buffer, "hellodone")
		write := nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{b.mr.SGE(0, 5)}, RemoteVA: a.mr.Addr(1000), RKey: binding.Key()}
		must(b.qp.PostSendList([]nicemu.SendWR{
			write,
			{Op: nicemu.OpSendInvalidate, SGL: []nicemu.SGE{b.mr.SGE(5, 4)}, RKey: binding.Key()},
			write,
		}))
		for range 3 {
			_, err := b.cq.WaitOne(p)
			fmt.Println(err, errors.Is(err, cq.RemAccessErr))
		}
	}))
	run(f)
	// Output:
	// "hello" was written, "done" was sent
	// key taken back: true
	// <nil> false
	// <nil> false
	// IBV_WC_REM_ACCESS_ERR: work request 0 of queue pair 17 true
}
