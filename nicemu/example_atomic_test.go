package nicemu_test

import (
	"encoding/binary"
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
)

// Four clients count on one server, each by 1000.
func Example_atomics() {
	f := build(star)
	server := open(must(f.DeviceOf("h1")), nicemu.RC)
	client := func(p *sim.Process, d *nicemu.Device) {
		e := open(d, nicemu.RC)
		q := must(server.pd.CreateQP(nicemu.QPConfig{Type: nicemu.RC, SendCQ: server.cq, RecvCQ: server.cq}))
		check(nicemu.JoinPair(e.qp, q, nicemu.Join{Access: nicemu.RemoteAtomic, RdAtomic: 1}))
		for range 1000 {
			check(e.qp.PostSend(&nicemu.SendWR{
				Op: nicemu.OpFetchAdd, Swap: 1, SGL: []nicemu.SGE{e.mr.SGE(0, 8)}, RemoteVA: server.mr.Addr(0), RKey: server.mr.RKey(),
			}))
			must(e.cq.WaitOne(p))
		}
		before := binary.LittleEndian.Uint64(e.buffer)
		fmt.Println(d.Name(), "has counted to", before+1)
	}
	for _, host := range []string{"h2", "h3", "h4", "h5"} {
		must(f.Go(host, client))
	}
	run(f)
	fmt.Println("in all", binary.LittleEndian.Uint64(server.buffer))
	// Output:
	// h3:eth0 has counted to 3997
	// h2:eth0 has counted to 3998
	// h4:eth0 has counted to 3999
	// h5:eth0 has counted to 4000
	// in all 4000
}
