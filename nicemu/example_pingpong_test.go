package nicemu_test

import (
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
)

// SENDs go back and forth between two queue pairs, as with ibv_rc_pingpong(1). Programs on real
// hosts would exchange addresses and numbers over a socket.
func Example_pingpong() {
	const size, rounds = 4096, 1000
	f := build(star)
	client, server := open(must(f.DeviceOf("h1")), nicemu.RC), open(must(f.DeviceOf("h2")), nicemu.RC)
	check(nicemu.JoinPair(client.qp, server.qp, nicemu.Join{}))

	receive := func(e ends) { check(e.qp.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{e.mr.SGE(0, size)}})) }
	send := func(e ends) {
		check(e.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpSend, SGL: []nicemu.SGE{e.mr.SGE(0, size)}}))
	}
	// serve answers pings until it has received all of them.
	serve := func(p *sim.Process, e ends) {
		for pings := 0; pings < rounds; {
			c := must(e.cq.WaitOne(p))
			if c.Opcode == nicemu.WCRecv {
				pings++
				receive(e)
				send(e)
			}
		}
	}
	receive(client)
	receive(server)
	must(f.Go("h1", func(p *sim.Process, d *nicemu.Device) {
		send(client)
		serve(p, client)
		fmt.Printf("%d bytes, %d rounds, %v for each way\n", size, rounds, p.Now()/(2*rounds))
	}))
	must(f.Go("h2", func(p *sim.Process, d *nicemu.Device) { serve(p, server) }))
	run(f)
	// Output:
	// 4096 bytes, 1000 rounds, 2675.356ns for each way
}
