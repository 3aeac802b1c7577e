package systems

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
)

// TestRoGUEOverUC_SendersShareALink: senders over UC share a link evenly by the echoes of
// their batches, and hardly anything is lost. Without the layer everything is lost.
func TestRoGUEOverUC_SendersShareALink(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, verb := range []string{"write: {size: 1MB", "write: {size: 4KB", "send: {size: 50KB"} {
		workload := "workload:\n"
		for i := 1; i <= 4; i++ {
			workload += fmt.Sprintf("  - {%s, service: uc, from: h%d, to: r, count: unlimited, depth: 64}}\n", verb, i)
		}
		f := underRoGUE(t, 4, "layer: rogue", "", workload)
		runTo(t, f, 100*ms)
		var sum float64
		var received []float64
		for _, r := range f.Transfers() {
			x := float64(r.Received)
			sum, received = sum+x, append(received, x)
		}
		share, jain := sum*8/100e-3/10e9, fairness.Jain(received...)
		w := layerOf(t, f, "h1").Done()
		t.Logf("%s}: %.3f of the line, Jain's index %.3f, %+v", verb, share, jain, w)
		if share < 0.75 || jain < 0.8 {
			t.Errorf("%s}: %.3f of the line, Jain's index %.3f", verb, share, jain)
		}
		if w.Samples == 0 || w.Limits == 0 || layerOf(t, f, "r").Done().Echoes == 0 {
			t.Errorf("%s}: %+v", verb, w)
		}
	}
}

// ucPair is a queue pair of type UC at a host, with a buffer.
func ucPair(t *testing.T, d *nicemu.Device, depth, size int) (*nicemu.QP, *nicemu.MR, []byte) {
	t.Helper()
	pd, err := d.AllocPD()
	must(t, err)
	buffer := make([]byte, depth*size)
	mr, err := pd.Register(buffer, nicemu.LocalWrite|nicemu.RemoteWrite)
	must(t, err)
	c, err := d.CreateCQ(4*depth, nil)
	must(t, err)
	q, err := pd.CreateQP(nicemu.QPConfig{Type: nicemu.UC, SendCQ: c, RecvCQ: c, SignalAll: true,
		Cap: nicemu.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must(t, err)
	return q, mr, buffer
}

// TestRoGUEOverUC_KeepsOrder: a SEND that announces the end of a preceding WRITE arrives after
// the WRITE is done, although the layer sends the two over separate queue pairs.
func TestRoGUEOverUC_KeepsOrder(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const rounds, size = 200, 100_000
	f := underRoGUE(t, 1, "layer: rogue", "", "")
	a, b := deviceAt(t, f, "h1"), deviceAt(t, f, "r")
	x, xm, xb := ucPair(t, a, 8, size)
	y, ym, yb := ucPair(t, b, 8, size)
	join := nicemu.Join{Access: nicemu.RemoteWrite, Remote: b.Addresses()[0], RemoteQPN: y.Number()}
	must(t, x.Join(join))
	join.Remote, join.RemoteQPN = a.Addresses()[0], x.Number()
	must(t, y.Join(join))
	must(t, y.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{ym.SGE(7*size, 8)}}))
	seen := 0
	start(t, f, "h1", func(p *sim.Process, _ *nicemu.Device) {
		p.Sleep(100 * us)
		for n := range rounds {
			for i := range size {
				xb[i] = byte(n + i)
			}
			must(t, x.PostSend(&nicemu.SendWR{ID: 1, Op: nicemu.OpWrite, SGL: []nicemu.SGE{xm.SGE(0, size)}, RemoteVA: ym.Addr(0), RKey: ym.RKey()}))
			must(t, x.PostSend(&nicemu.SendWR{ID: 2, Op: nicemu.OpSendImm, Imm: uint32(n), SGL: []nicemu.SGE{xm.SGE(0, 8)}}))
			must(t, x.PostSend(&nicemu.SendWR{ID: 3, Op: nicemu.OpWrite, SGL: []nicemu.SGE{xm.SGE(0, size)}, RemoteVA: ym.Addr(size), RKey: ym.RKey()}))
			for _, id := range []uint64{1, 2, 3} {
				if c, err := cqOf(x).WaitOne(p); err != nil || c.ID != id || c.Status != cq.Success || c.QP != x.Number() {
					t.Errorf("round %d: completion %+v, %v", n, c, err)
					return
				}
			}
			p.Sleep(200 * us)
		}
	})
	start(t, f, "r", func(p *sim.Process, _ *nicemu.Device) {
		for ; seen < rounds; seen++ {
			c, err := cqOf(y).WaitOne(p)
			if err != nil || c.Imm != uint32(seen) || c.QP != y.Number() {
				t.Errorf("message %d: %+v, %v", seen, c, err)
				return
			}
			for i := 0; i < size; i += 997 {
				if yb[i] != byte(seen+i) {
					t.Errorf("byte %d of the WRITE before SEND %d is %d", i, seen, yb[i])
					return
				}
			}
			must(t, y.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{ym.SGE(7*size, 8)}}))
		}
	})
	runTo(t, f, 1*units.Second)
	w := layerOf(t, f, "h1").Done()
	t.Logf("%d rounds, %+v", seen, w)
	if seen != rounds || w.Samples == 0 {
		t.Errorf("%d of %d rounds, %+v", seen, rounds, w)
	}
}

// TestRoGUEOverUC_HalvesItsWindowOnLoss: gaps between echoes halve the window, and when no
// echo arrives any more an empty WRITE is tried until one does.
func TestRoGUEOverUC_HalvesItsWindowOnLoss(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	const workload = "workload: [{write: {size: 1MB, service: uc, from: h1, to: r, count: unlimited, depth: 8}}]\n"
	f := underRoGUE(t, 1, "layer: rogue", ", loss: 0.001", workload)
	runTo(t, f, 50*ms)
	w, r := layerOf(t, f, "h1").Done(), f.Transfers()[0]
	t.Logf("%d B have come of %d messages, %+v", r.Received, r.Completed, w)
	if w.Lost == 0 || w.Samples == 0 || r.Failed > 0 {
		t.Errorf("%+v, %d failed", w, r.Failed)
	}

	f = underRoGUE(t, 1, "layer: rogue", "", workload+`events:
  - {at: 10ms, link: "s:0", set: {state: down}}
  - {at: 40ms, link: "s:0", set: {state: up}}
`)
	runTo(t, f, 39*ms)
	before := f.Transfers()[0].Received
	if w := layerOf(t, f, "h1").Done(); w.Timeouts < 2 {
		t.Errorf("while the link is down: %+v", w)
	}
	runTo(t, f, 100*ms)
	w = layerOf(t, f, "h1").Done()
	gained := f.Transfers()[0].Received - before
	t.Logf("%d B after the link was down, %+v", gained, w)
	if float64(gained)*8 < 0.3*10e9*60e-3 {
		t.Errorf("%d B in the 60 ms since the link is up: %+v", gained, w)
	}
}

// TestRoGUEOverUC_ContinuesAfterSQE: a work request that fails puts the queue pair into SQE
// and flushes everything behind it. It can continue from there, as without the layer.
func TestRoGUEOverUC_ContinuesAfterSQE(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, layer := range []string{"layer: none", "layer: rogue"} {
		f := underRoGUE(t, 1, layer, "", "")
		a, b := deviceAt(t, f, "h1"), deviceAt(t, f, "r")
		x, xm, xb := ucPair(t, a, 8, 1000)
		y, ym, yb := ucPair(t, b, 8, 1000)
		join := nicemu.Join{Access: nicemu.RemoteWrite, Remote: b.Addresses()[0], RemoteQPN: y.Number()}
		must(t, x.Join(join))
		join.Remote, join.RemoteQPN = a.Addresses()[0], x.Number()
		must(t, y.Join(join))
		done := false
		start(t, f, "h1", func(p *sim.Process, _ *nicemu.Device) {
			p.Sleep(100 * us)
			write := nicemu.SendWR{ID: 1, Op: nicemu.OpWrite, SGL: []nicemu.SGE{xm.SGE(0, 1000)}, RemoteVA: ym.Addr(0), RKey: ym.RKey()}
			bad := write
			bad.ID, bad.SGL = 2, []nicemu.SGE{{VA: xm.Addr(0), Length: 1000, LKey: ym.LKey() + 256}}
			must(t, x.PostSend(&write))
			must(t, x.PostSend(&bad))
			must(t, x.PostSend(&write))
			for _, want := range []cq.Status{cq.Success, cq.LocProtErr, cq.WRFlushErr} {
				if c, err := cqOf(x).WaitOne(p); c.Status != want {
					t.Errorf("%s: %+v, %v, want %v", layer, c, err, want)
					return
				}
			}
			if x.State() != qp.SQE {
				t.Errorf("%s: the queue pair is in %v", layer, x.State())
			}
			must(t, x.PostSend(&write))
			if c, err := cqOf(x).WaitOne(p); c.Status != cq.WRFlushErr {
				t.Errorf("%s: %+v, %v in SQE", layer, c, err)
			}
			must(t, x.SetState(qp.RTS))
			clear(yb)
			xb[5] = 77
			must(t, x.PostSend(&write))
			if c, err := cqOf(x).WaitOne(p); err != nil || c.Status != cq.Success {
				t.Errorf("%s: %+v, %v after SQE", layer, c, err)
			}
			p.Sleep(100 * us)
			done = yb[5] == 77
		})
		runTo(t, f, 10*ms)
		if !done {
			t.Errorf("%s: after SQE nothing has come", layer)
		}
	}
}

// TestNICStatus_HasTheWorkOfItsLayer: the status of a NIC has the work of its layer, under the
// names that the layer's kind defines.
func TestNICStatus_HasTheWorkOfItsLayer(t *testing.T) {
	f := underRoGUE(t, 1, "layer: rogue", "", "workload: [{write: {from: h1, to: r, size: 1MB, count: 3}}]\n")
	runTo(t, f, 10*ms)
	done := layerOf(t, f, "h1").Done()
	want := map[string]uint64{"requests": 3, "bytes": 3e6, "verbs": done.Verbs, "signals": done.Signals, "messages": 0, "timeouts": 0}
	for _, n := range f.NICs() {
		if n.Layer == nil || n.Layer.Name != "rogue" {
			t.Fatalf("%s has the layer %+v", n.Name, n.Layer)
		}
		for _, w := range n.Layer.Work {
			if v, ok := want[w.Name]; ok && n.Node == "h1" && w.Count != v {
				t.Errorf("%s of %s is %d, want %d", w.Name, n.Name, w.Count, v)
			}
		}
		if len(n.Layer.Work) != 14 || n.Layer.Work[len(n.Layer.Work)-1].Name != "timeouts" {
			t.Errorf("%s: %+v", n.Name, n.Layer.Work)
		}
	}
	if f := underRoGUE(t, 1, "layer: none", "", ""); f.NICs()[0].Layer != nil {
		t.Error("a NIC without a layer shows one")
	}
}
