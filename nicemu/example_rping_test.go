package nicemu_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
)

// As with rping(1), a client connects and tells the server where its buffer is; the
// server READs it, and WRITEs an answer into it.
func Example_connection() {
	param := nicemu.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7}
	server := func(p *sim.Process, d *nicemu.Device) {
		listener := must(d.Listen(netip.AddrPortFrom(netip.Addr{}, 7174), 0, nil))
		request := must(listener.Next(p))
		e := open(d, nicemu.RC)
		check(e.qp.Init(0, 0))
		check(e.qp.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{e.mr.SGE(0, 12)}}))
		check(request.Conn.Accept(e.qp, param))

		must(e.cq.WaitOne(p)) // where the client's buffer is
		va, rkey := binary.BigEndian.Uint64(e.buffer), binary.BigEndian.Uint32(e.buffer[8:])
		data := []nicemu.SGE{e.mr.SGE(100, 5)}
		check(e.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpRead, SGL: data, RemoteVA: va, RKey: rkey}))
		must(e.cq.WaitOne(p))
		fmt.Printf("server has read %q\n", e.buffer[100:105])

		copy(e.buffer[100:], "world")
		check(e.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpWriteImm, SGL: data, RemoteVA: va, RKey: rkey}))
		must(e.cq.WaitOne(p))
		request.Conn.WaitDisconnected(p)
		fmt.Println("server:", e.qp.State())
	}
	client := func(p *sim.Process, d *nicemu.Device) {
		e := open(d, nicemu.RC)
		copy(e.buffer, "hello")
		conn := must(d.Connect(e.qp, netip.MustParseAddrPort("10.0.0.2:7174"), param, nil))
		must(conn.WaitEstablished(p))

		check(e.qp.PostRecv(&nicemu.RecvWR{})) // for the WRITE's immediate data
		place := binary.BigEndian.AppendUint64(nil, e.mr.Addr(0))
		place = binary.BigEndian.AppendUint32(place, e.mr.RKey())
		copy(e.buffer[100:], place)
		check(e.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpSend, SGL: []nicemu.SGE{e.mr.SGE(100, 12)}}))
		must(e.cq.WaitOne(p)) // sent
		must(e.cq.WaitOne(p)) // written
		fmt.Printf("client has %q\n", e.buffer[:5])
		check(conn.Disconnect())
		conn.WaitDisconnected(p)
	}
	f := build(star)
	must(f.Go("h1", client))
	must(f.Go("h2", server))
	run(f)
	// Output:
	// server has read "hello"
	// client has "world"
	// server: ERR
}
