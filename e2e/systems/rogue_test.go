package systems

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/roguenic"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
)

// underRoGUE is senders h1 to hN and a receiver r at a switch, with settings of the NICs
// and of r's link.
func underRoGUE(t rapid.TB, senders int, nic, link, workload string) *fabric.Fabric {
	t.Helper()
	nodes, links := "r: {kind: host}", `    - {endpoints: ["r:eth0", "s:0"]`+link+"}\n"
	for i := 1; i <= senders; i++ {
		nodes += fmt.Sprintf(", h%d: {kind: host}", i)
		links += fmt.Sprintf("    - {endpoints: [\"h%d:eth0\", \"s:%d\"]}\n", i, i)
	}
	f, err := fabric.NewSharded(fabrictest.Parse(t, fmt.Sprintf(`
duration: 1s
topology:
  kinds: {switch: {queue: {limit: 10MB}}, host: {attach: none, nic: {mtu: 1024, timeout: 1ms, rate-limiter: connectx-3, %s}}, link: {rate: 10Gbps, delay: 1us}}
  nodes: {s: {kind: switch}, %s}
  links:
%s%s`, nic, nodes, links, workload)), 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// layerOf returns the layer of a host's NIC.
func layerOf(t rapid.TB, f *fabric.Fabric, host string) *roguenic.Layer {
	t.Helper()
	d, err := f.DeviceOf(host)
	if err != nil {
		t.Fatal(err)
	}
	return d.Layer().(*roguenic.Layer)
}

// TestRoGUE_SendersShareALinkWithoutLoss: senders share a link evenly, and nothing is lost
// although there is no PFC. Without the layer they fill the buffer.
func TestRoGUE_SendersShareALinkWithoutLoss(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	workload := "workload:\n"
	for i := 1; i <= 4; i++ {
		workload += fmt.Sprintf("  - {VERB: {from: h%d, to: r, size: SIZE, count: unlimited}}\n", i)
	}
	for verb, size := range map[string]string{"write": "1MB", "send": "50KB"} {
		f := underRoGUE(t, 4, "layer: rogue", "", strings.NewReplacer("VERB", verb, "SIZE", size).Replace(workload))
		runTo(t, f, 100*ms)
		var sum float64
		var received []float64
		for _, r := range f.Transfers() {
			if r.Failed > 0 || r.Completed == 0 {
				t.Errorf("%s: %d messages failed (%s), %d completed", verb, r.Failed, r.FirstFailure, r.Completed)
			}
			x := float64(r.Received)
			sum, received = sum+x, append(received, x)
		}
		share, jain := sum*8/100e-3/10e9, fairness.Jain(received...)
		t.Logf("%s: %.3f of the line, Jain's index %.3f", verb, share, jain)
		if share < 0.8 || jain < 0.9 {
			t.Errorf("%s: %.3f of the line, Jain's index %.3f", verb, share, jain)
		}
		for _, n := range f.NICs() {
			if again := n.Counters.Of("retransmitted_packets"); again > 0 {
				t.Errorf("%s: %s sent %d packets again", verb, n.Name, again)
			}
		}
		if w := layerOf(t, f, "h1").Done(); w.Samples == 0 || w.Held == 0 || w.Limits == 0 || w.Verbs < 16*w.Requests && verb == "write" {
			t.Errorf("%s: %+v", verb, w)
		}
	}
}

// TestRoGUE_RequesterLimitsReadResponses: the requester limits the rate of READ responses.
func TestRoGUE_RequesterLimitsReadResponses(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f := underRoGUE(t, 3, "layer: rogue", "", `workload:
  - {read: {from: r, to: h1, size: 1MB, count: unlimited}}
  - {read: {from: r, to: h2, size: 1MB, count: unlimited}}
  - {read: {from: r, to: h3, size: 1MB, count: unlimited}}
`)
	runTo(t, f, 50*ms)
	var sum float64
	for _, r := range f.Transfers() {
		if r.Failed > 0 {
			t.Errorf("%d READs failed: %s", r.Failed, r.FirstFailure)
		}
		sum += float64(r.Received)
	}
	if share := sum * 8 / 50e-3 / 10e9; share < 0.7 {
		t.Errorf("%.3f of the line", share)
	}
	if w := layerOf(t, f, "r").Done(); w.Messages == 0 {
		t.Errorf("nobody was told how fast to answer: %+v", w)
	}
}

// TestRoGUE_ShadowQueuePairsTakeOverInOrder: on a link with so much loss that the NIC gives
// up, shadow queue pairs take over. Every SEND arrives once, in order and unchanged.
func TestRoGUE_ShadowQueuePairsTakeOverInOrder(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, loss := range []float64{0.01, 0.1} {
		f := underRoGUE(t, 1, "layer: rogue, retries: 1", fmt.Sprintf(", loss: %v", loss), "")
		const count, size, depth = 400, 6000, 8
		a, b := deviceAt(t, f, "h1"), deviceAt(t, f, "r")
		x, xm, xb := open(t, a, depth, size)
		y, ym, yb := open(t, b, depth, size)
		join := nicemu.Join{Access: nicemu.RemoteWrite}
		join.Remote, join.RemoteQPN = b.Addresses()[0], y.Number()
		must(t, x.Join(join))
		join.Remote, join.RemoteQPN = a.Addresses()[0], x.Number()
		must(t, y.Join(join))
		receive := func(slot uint64) {
			must(t, y.PostRecv(&nicemu.RecvWR{ID: slot, SGL: []nicemu.SGE{ym.SGE(units.Bytes(slot*size), size)}}))
		}
		for i := range uint64(depth) {
			receive(i)
		}
		sent, came := 0, 0
		start(t, f, "h1", func(p *sim.Process, _ *nicemu.Device) {
			p.Sleep(100 * us) // the layers have found each other
			post := func(n int) {
				at := n % depth * size
				for i := range size {
					xb[at+i] = byte(n + i)
				}
				must(t, x.PostSend(&nicemu.SendWR{ID: uint64(n), Op: nicemu.OpSendImm, Imm: uint32(n), SGL: []nicemu.SGE{xm.SGE(units.Bytes(at), size)}}))
			}
			for n := range depth {
				post(n)
			}
			for sent < count {
				c, err := cqOf(x).WaitOne(p)
				if err != nil || c.ID != uint64(sent) {
					t.Errorf("loss %v: SEND %d: completion %+v, %v", loss, sent, c, err)
					return
				}
				if sent++; sent+depth <= count {
					post(sent + depth - 1)
				}
			}
		})
		start(t, f, "r", func(p *sim.Process, _ *nicemu.Device) {
			for came < count {
				c, err := cqOf(y).WaitOne(p)
				if err != nil || c.Imm != uint32(came) || c.ByteLen != size || c.QP != y.Number() {
					t.Errorf("loss %v: message %d: completion %+v, %v", loss, came, c, err)
					return
				}
				for i := range size {
					if got := yb[int(c.ID)*size+i]; got != byte(came+i) {
						t.Errorf("loss %v: byte %d of message %d is %d", loss, i, came, got)
						return
					}
				}
				came++
				receive(c.ID)
			}
		})
		runTo(t, f, 20*units.Second)
		w := layerOf(t, f, "h1").Done()
		t.Logf("loss %v: %d of %d SENDs, %d came, %+v", loss, sent, count, came, w)
		if sent != count || came != count {
			t.Errorf("loss %v: %d SENDs have completed and %d have come, of %d", loss, sent, came, count)
		}
		if w.Failovers == 0 && loss == 0.1 {
			t.Error("no shadow queue pair took over")
		}
	}
}

func deviceAt(t rapid.TB, f *fabric.Fabric, host string) *nicemu.Device {
	t.Helper()
	d, err := f.DeviceOf(host)
	must(t, err)
	return d
}

func start(t rapid.TB, f *fabric.Fabric, host string, program func(*sim.Process, *nicemu.Device)) {
	t.Helper()
	_, err := f.Go(host, program)
	must(t, err)
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open makes a queue pair with room for depth messages of size bytes.
func open(t rapid.TB, d *nicemu.Device, depth, size int) (*nicemu.QP, *nicemu.MR, []byte) {
	t.Helper()
	pd, err := d.AllocPD()
	must(t, err)
	buffer := make([]byte, depth*size)
	mr, err := pd.Register(buffer, nicemu.LocalWrite|nicemu.RemoteWrite|nicemu.RemoteRead)
	must(t, err)
	c, err := d.CreateCQ(4*depth, nil)
	must(t, err)
	q, err := pd.CreateQP(nicemu.QPConfig{Type: nicemu.RC, SendCQ: c, RecvCQ: c, SignalAll: true,
		Cap: nicemu.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must(t, err)
	return q, mr, buffer
}

// TestRoGUE_ServesAPlainPeer: a peer without the layer is served plainly, and the sender's
// window still applies.
func TestRoGUE_ServesAPlainPeer(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f, err := fabric.NewSharded(fabrictest.Parse(t, `
duration: 1s
topology:
  kinds: {host: {attach: none, nic: {mtu: 1024, layer: rogue}}, link: {rate: 10Gbps, delay: 1us}}
  nodes: {s: {kind: switch}, r: {kind: host, nic: {layer: none}}, h1: {kind: host}, h2: {kind: host}}
  links:
    - {endpoints: ["r:eth0", "s:0"]}
    - {endpoints: ["h1:eth0", "s:1"]}
    - {endpoints: ["h2:eth0", "s:2"]}
workload:
  - {write: {from: h1, to: r, size: 100KB, count: 50}}
  - {read: {from: h2, to: r, size: 100KB, count: 50}}
  - {send: {from: r, to: h1, size: 100KB, count: 50}}
`), 1)
	must(t, err)
	runTo(t, f, 200*ms)
	for _, r := range f.Transfers() {
		if r.Completed != 50 || r.Failed != 0 {
			t.Errorf("%d messages completed and %d failed: %s", r.Completed, r.Failed, r.FirstFailure)
		}
	}
	if w := layerOf(t, f, "h1").Done(); w.Samples == 0 || w.Failovers > 0 {
		t.Errorf("%+v", w)
	}
}

// TestRoGUE_ReportsErrorsLikeAPlainQueuePair: failures for other reasons than loss are the
// same as without the layer.
func TestRoGUE_ReportsErrorsLikeAPlainQueuePair(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, layer := range []string{"none", "rogue"} {
		f := underRoGUE(t, 1, "layer: "+layer, "", "")
		a, b := deviceAt(t, f, "h1"), deviceAt(t, f, "r")
		x, xm, _ := open(t, a, 8, 1<<16)
		y, ym, _ := open(t, b, 8, 1<<16)
		join := nicemu.Join{Access: nicemu.RemoteWrite, Remote: b.Addresses()[0], RemoteQPN: y.Number()}
		must(t, x.Join(join))
		join.Remote, join.RemoteQPN = a.Addresses()[0], x.Number()
		must(t, y.Join(join))
		var got []cq.Status
		start(t, f, "h1", func(p *sim.Process, _ *nicemu.Device) {
			for i, key := range []uint32{ym.RKey(), ym.RKey() + 77, ym.RKey()} {
				must(t, x.PostSend(&nicemu.SendWR{ID: uint64(i), Op: nicemu.OpWrite, SGL: []nicemu.SGE{xm.SGE(0, 200_000)}, RemoteVA: ym.Addr(0), RKey: key}))
			}
			for i := range 3 {
				c, _ := cqOf(x).WaitOne(p)
				if c.ID != uint64(i) || c.QP != x.Number() {
					t.Errorf("layer %s: completion %+v", layer, c)
				}
				got = append(got, c.Status)
			}
		})
		runTo(t, f, 100*ms)
		if fmt.Sprint(got) != fmt.Sprint([]cq.Status{cq.Success, cq.RemAccessErr, cq.WRFlushErr}) || x.State() != qp.Err {
			t.Errorf("layer %s: %v, and the queue pair is in %v", layer, got, x.State())
		}
	}
}

// cqOf returns the completion queue of a queue pair made by open.
func cqOf(q *nicemu.QP) *nicemu.CQ {
	_, c := q.Query()
	return c.SendCQ
}

// TestRoGUE_MeasuresAStableRTT: on an idle path the measured round-trip time is stable,
// however many batches follow each other, and nearly that of an empty WRITE (Table 1 of the
// paper).
func TestRoGUE_MeasuresAStableRTT(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, verb := range []string{"write", "send", "read"} {
		f := underRoGUE(t, 1, "layer: rogue", "", fmt.Sprintf("workload:\n  - {%s: {from: h1, to: r, size: 64KiB, count: unlimited, depth: 4}}\n", verb))
		d := deviceAt(t, f, "h1")
		var seen []float64
		for _, at := range []units.Time{1 * ms, 10 * ms, 40 * ms} {
			runTo(t, f, at)
			for _, g := range d.QP(17).Status().Gauges {
				if g.Name == "rtt" {
					seen = append(seen, g.Value)
				}
			}
		}
		// Two links of 1 us each way, a packet through the switch and its answer through both.
		frame, ack := (10 * units.Gbps).TimeOf(1024+16+4+42+24), (10 * units.Gbps).TimeOf(16+4+42+24)
		want := (4*us + frame + 2*ack).Seconds()
		for _, rtt := range seen {
			if len(seen) != 3 || rtt < want-100e-9 || rtt > want+300e-9 || rtt != seen[0] {
				t.Errorf("%s: round-trip times %v, want about %v", verb, seen, want)
				break
			}
		}
	}
}

// TestRoGUE_ResponderInRTRChangesToItsShadow: a queue pair that only responds, and stays in
// RTR like those of ib_read_bw's server, is told its rate, and changes to its shadow.
func TestRoGUE_ResponderInRTRChangesToItsShadow(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f := underRoGUE(t, 1, "layer: rogue, retries: 1", ", loss: 5%", "")
	const count, size = 300, 20_000
	a, b := deviceAt(t, f, "h1"), deviceAt(t, f, "r")
	x, xm, xb := open(t, a, 8, size)
	y, ym, yb := open(t, b, 8, size)
	for i := range yb {
		yb[i] = byte(i * 7)
	}
	must(t, y.Init(nicemu.RemoteRead, 0))
	must(t, y.Modify(qp.Attr{
		State: qp.RTR, PathMTU: qp.MTU1024, DestQPN: x.Number(), MaxDestRdAtomic: 8,
		AV: qp.AV{Global: true, Port: 1, DGID: nicemu.GID(a.Addresses()[0])},
	}, qp.MaskState|qp.MaskAV|qp.MaskPathMTU|qp.MaskDestQPN|qp.MaskRQPSN|qp.MaskMaxDestRdAtomic|qp.MaskMinRNRTimer))
	done := 0
	start(t, f, "h1", func(p *sim.Process, _ *nicemu.Device) {
		p.Sleep(100 * us)
		must(t, x.Join(nicemu.Join{Remote: b.Addresses()[0], RemoteQPN: y.Number(), RdAtomic: 8}))
		p.Sleep(100 * us)
		for posted := 0; done < count; done++ {
			for ; posted < count && posted < done+8; posted++ {
				at := units.Bytes(posted % 8 * size)
				must(t, x.PostSend(&nicemu.SendWR{ID: uint64(posted), Op: nicemu.OpRead, SGL: []nicemu.SGE{xm.SGE(at, size)}, RemoteVA: ym.Addr(at), RKey: ym.RKey()}))
			}
			c, err := cqOf(x).WaitOne(p)
			if err != nil || c.ID != uint64(done) || c.ByteLen != size {
				t.Errorf("READ %d: %+v, %v", done, c, err)
				return
			}
		}
	})
	runTo(t, f, 10*units.Second)
	w := layerOf(t, f, "h1").Done()
	t.Logf("%d READs, %+v", done, w)
	if done != count || w.Failovers == 0 || string(xb) != string(yb) {
		t.Errorf("%d of %d READs are done, %+v", done, count, w)
	}
}

// TestRoGUE_FlowsOfOneNICShareItsLink: flows of one NIC fill its link and share it evenly.
// They share less evenly if there are more of them than the NIC has limiters, so that some
// have none.
func TestRoGUE_FlowsOfOneNICShareItsLink(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for flows, minShare := range map[int]float64{2: 0.95, 6: 0.95, 12: 0.6} {
		workload := "workload:\n"
		for range flows {
			workload += "  - {write: {from: h1, to: r, size: 1MB, count: unlimited}}\n"
		}
		f := underRoGUE(t, 1, "layer: rogue", "", workload)
		runTo(t, f, 100*ms)
		var sum float64
		var received []float64
		for _, r := range f.Transfers() {
			x := float64(r.Received)
			sum, received = sum+x, append(received, x)
		}
		share, jain := sum*8/100e-3/10e9, fairness.Jain(received...)
		w := layerOf(t, f, "h1").Done()
		t.Logf("%d flows: %.3f of the line, Jain's index %.3f, %+v", flows, share, jain, w)
		if share < 0.85 || jain < minShare {
			t.Errorf("%d flows: %.3f of the line, Jain's index %.3f", flows, share, jain)
		}
		if (w.NoLimiter > 0) != (flows > 8) {
			t.Errorf("%d flows: %d limits found no limiter, and the NIC has 8", flows, w.NoLimiter)
		}
	}
}

// TestRoGUE_CutsAndMeasuresPatternFlows: pattern flows, which are WRITEs with immediate data,
// are cut and measured like others.
func TestRoGUE_CutsAndMeasuresPatternFlows(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f := underRoGUE(t, 4, "layer: rogue", "", "workload: [{requests: {aggregators: r, workers: \"h*\", fanout: 4, request: 100B, response: 4MB, count: 1}}]\n")
	runTo(t, f, 50*ms)
	for _, h := range []string{"h1", "h4"} {
		if w := layerOf(t, f, h).Done(); w.Verbs < 60 || w.Samples < 15 || w.Limits == 0 {
			t.Errorf("%s has sent 4 MB: %+v", h, w)
		}
	}
}
