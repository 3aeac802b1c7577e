package nicemu_test

import (
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// A datagram to a group reaches all queue pairs attached to it, and each answers.
func ExampleQP_AttachMcast() {
	const qkey = 0x11111111
	group := netip.MustParseAddr("239.1.2.3")
	// A receive buffer has room for the header in front of a datagram.
	const room = nicemu.GRHLen + 100

	member := func(p *sim.Process, d *nicemu.Device) {
		e := open(d, nicemu.UD)
		check(e.qp.Join(nicemu.Join{QKey: qkey}))
		check(e.qp.AttachMcast(nicemu.GID(group)))
		check(e.qp.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{e.mr.SGE(0, room)}}))
		c := must(e.cq.WaitOne(p))
		fmt.Printf("%s has %q\n", d.Name(), e.buffer[nicemu.GRHLen:c.ByteLen])

		answer := copy(e.buffer[1000:], d.Name())
		sender := must(e.pd.CreateAHFromWC(&c, e.buffer[:nicemu.GRHLen]))
		check(e.qp.PostSend(&nicemu.SendWR{
			Op: nicemu.OpSend, SGL: []nicemu.SGE{e.mr.SGE(1000, units.Bytes(answer))},
			Path: sender.Path(), DestQP: c.SrcQP, QKey: qkey,
		}))
	}
	sender := func(p *sim.Process, d *nicemu.Device) {
		e := open(d, nicemu.UD)
		check(e.qp.Join(nicemu.Join{QKey: qkey}))
		for i := range uint64(2) {
			check(e.qp.PostRecv(&nicemu.RecvWR{ID: i, SGL: []nicemu.SGE{e.mr.SGE(units.Bytes(i)*room, room)}}))
		}
		n := copy(e.buffer[1000:], "who is there?")
		all := must(e.pd.CreateAHTo(group))
		p.Sleep(units.Microsecond) // until they are attached
		check(e.qp.PostSend(&nicemu.SendWR{
			Op: nicemu.OpSend, SGL: []nicemu.SGE{e.mr.SGE(1000, units.Bytes(n))},
			Path: all.Path(), DestQP: nicemu.MulticastQPN, QKey: qkey,
		}))
		must(e.cq.WaitOne(p)) // sent
		for range 2 {
			c := must(e.cq.WaitOne(p))
			at := c.ID * room
			fmt.Printf("answer of %s\n", e.buffer[at+nicemu.GRHLen:at+uint64(c.ByteLen)])
		}
	}
	f := build(star)
	must(f.Go("h1", sender))
	must(f.Go("h2", member))
	must(f.Go("h3", member))
	run(f)
	// Output:
	// h2:eth0 has "who is there?"
	// h3:eth0 has "who is there?"
	// answer of h3:eth0
	// answer of h2:eth0
}
