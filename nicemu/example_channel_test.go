package nicemu_test

import (
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// A program that waits for events of a channel is woken for each completion, or, with
// moderation, for many at once.
func ExampleChannel() {
	for _, moderation := range []nicemu.Moderation{{}, {Count: 8, Period: 100 * units.Microsecond}} {
		f := build(star)
		a, b := open(must(f.DeviceOf("h1")), nicemu.RC), open(must(f.DeviceOf("h2")), nicemu.RC)
		var channel nicemu.Channel
		queue := must(b.qp.Device().CreateCQ(64, &channel))
		check(queue.Moderate(moderation))
		q := must(b.pd.CreateQP(nicemu.QPConfig{
			Type: nicemu.RC, SendCQ: b.cq, RecvCQ: queue, Cap: nicemu.QPCap{MaxRecvWR: 16, MaxRecvSGE: 1},
		}))
		check(nicemu.JoinPair(a.qp, q, nicemu.Join{}))
		for range 16 {
			check(q.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{b.mr.SGE(0, 4096)}}))
		}
		must(f.Go("h1", func(p *sim.Process, d *nicemu.Device) {
			for range 16 {
				check(a.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpSend, SGL: []nicemu.SGE{a.mr.SGE(0, 4096)}}))
			}
		}))
		must(f.Go("h2", func(p *sim.Process, d *nicemu.Device) {
			entries := make([]nicemu.Completion, 16)
			woken, received := 0, 0
			queue.Arm(false)
			for received < 16 {
				q := must(channel.Wait(p, units.Never))
				check(q.Ack(1))
				woken++
				q.Arm(false)
				received += must(q.Poll(entries))
			}
			fmt.Println("woken", woken, "times for", received, "completions")
		}))
		run(f)
	}
	// Output:
	// woken 16 times for 16 completions
	// woken 2 times for 16 completions
}
