package systems

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/roguenic"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// modelOp is a work request of the model's program. Each has separate bytes at both ends,
// so that the result does not depend on the order of READs and WRITEs, which IBTA leaves
// open without a fence.
type modelOp struct {
	op       transport.Op
	at, n    units.Bytes
	signaled bool
	inline   bool
}

// takes reports whether an operation consumes a receive of the peer.
func (o *modelOp) takes() bool {
	return o.op == nicemu.OpSend || o.op == nicemu.OpSendImm || o.op == nicemu.OpWriteImm
}

// model is a program and the fabric that it runs on.
type model struct {
	kind  nicemu.QPType
	ops   []modelOp
	total units.Bytes // of all messages
	layer string      // its settings
	loss  int         // per mille
	// shared says that the peer's receives are in a shared queue. When the NIC gives up, such
	// a queue loses the receive of the message that was arriving.
	shared bool
}

// add appends a work request.
func (m *model) add(o modelOp) {
	o.at = m.total
	m.ops, m.total = append(m.ops, o), m.total+o.n
}

// drawModel draws a program, and how much its fabric loses.
func drawModel(t *rapid.T) *model {
	m := &model{kind: rapid.SampledFrom([]nicemu.QPType{nicemu.RC, nicemu.UC}).Draw(t, "type")}
	ops := []transport.Op{nicemu.OpSend, nicemu.OpSendImm, nicemu.OpWrite, nicemu.OpWriteImm}
	if m.kind == nicemu.RC {
		ops = append(ops, nicemu.OpRead)
		m.loss = rapid.SampledFrom([]int{0, 0, 1, 50, 100}).Draw(t, "loss per mille")
	}
	minOps, maxSize := 1, 300_000
	if m.loss > 10 {
		minOps, maxSize = 20, 3_000 // a long message would never arrive complete
	}
	silent := 0
	for range rapid.IntRange(minOps, 40).Draw(t, "ops") {
		n := rapid.OneOf(rapid.IntRange(0, 64), rapid.IntRange(0, maxSize)).Draw(t, "size")
		o := modelOp{op: rapid.SampledFrom(ops).Draw(t, "op"), n: units.Bytes(n)}
		o.signaled = silent >= 4 || rapid.Bool().Draw(t, "signaled")
		o.inline = n <= 64 && o.op != nicemu.OpRead && rapid.Bool().Draw(t, "inline")
		if silent++; o.signaled {
			silent = 0
		}
		m.add(o)
	}
	m.ops[len(m.ops)-1].signaled = true
	m.layer = rapid.SampledFrom([]string{"{rogue: {retries: 1}}", "{rogue: {segment: 4KB, retries: 0}}", "{rogue: {limiter: false, cut-immediate: false}}"}).Draw(t, "layer")
	m.shared = m.loss == 0 && rapid.Bool().Draw(t, "shared receives")
	return m
}

// TestRoGUE_CompletesLikeAPlainQueuePair: whatever a program posts, it sees the same
// completions as from a plain queue pair, in the same order. The peer sees the messages and
// bytes once and in order; with RC also when packets are lost and shadow queue pairs take
// over.
func TestRoGUE_CompletesLikeAPlainQueuePair(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	rapid.Check(t, func(rt *rapid.T) { drawModel(rt).play(rt) })
}

// TestRoGUE_CompletesInOrderWhileShadowsTakeOver: the same for every kind of request on a link
// that loses so much that shadow queue pairs take over, and on one that loses nothing, where
// the layer measures round-trip times.
func TestRoGUE_CompletesInOrderWhileShadowsTakeOver(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for _, loss := range []int{0, 100} {
		m := &model{kind: nicemu.RC, layer: "{rogue: {retries: 1}}", loss: loss}
		for i := range 40 {
			op := []transport.Op{nicemu.OpSend, nicemu.OpSendImm, nicemu.OpWrite, nicemu.OpWriteImm, nicemu.OpRead}[i%5]
			m.add(modelOp{op: op, n: units.Bytes(i * 70), signaled: i%3 == 0 || i == 39})
		}
		if w := m.play(t); (w.Failovers > 0) != (loss > 0) || loss == 0 && w.Samples == 0 {
			t.Errorf("loss of %d per mille: %+v", loss, w)
		}
	}
}

// play runs the program and checks what it and its peer see. It returns the work of the
// program's layer.
func (m *model) play(t rapid.TB) roguenic.Work {
	t.Helper()
	link := ""
	if m.loss > 0 {
		link = fmt.Sprintf(", loss: %v", float64(m.loss)/1000)
	}
	f := underRoGUE(t, 1, "layer: "+m.layer, link, "")
	cut := !strings.Contains(m.layer, "cut-immediate")
	kind, list, total, shared := m.kind, m.ops, m.total, m.shared
	const depth, size = 16, 300_000
	open := func(host string, n units.Bytes, receives int) (*nicemu.QP, *nicemu.MR, []byte, *nicemu.SRQ) {
		d := deviceAt(t, f, host)
		pd, err := d.AllocPD()
		must(t, err)
		b := make([]byte, n+1)
		mr, err := pd.Register(b, nicemu.LocalWrite|nicemu.RemoteWrite|nicemu.RemoteRead)
		must(t, err)
		c, err := d.CreateCQ(256, nil)
		must(t, err)
		config := nicemu.QPConfig{Type: kind, SendCQ: c, RecvCQ: c, Cap: nicemu.QPCap{MaxSendWR: depth, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64}}
		var srq *nicemu.SRQ
		if shared && kind == nicemu.RC && receives > 1 {
			srq, err = pd.CreateSRQ(nicemu.SRQAttr{MaxWR: receives, MaxSGE: 1})
			must(t, err)
			config.SRQ = srq
		}
		q, err := pd.CreateQP(config)
		must(t, err)
		return q, mr, b, srq
	}
	// Messages arrive in the second half of the peer's buffer, one behind the other.
	messages := 0
	for i := range list {
		if list[i].takes() {
			messages++
		}
	}
	x, xm, xb, _ := open("h1", total, 1)
	y, ym, yb, srq := open("r", total+units.Bytes(messages)*size, messages+1)
	for i := range xb {
		xb[i] = byte(i*7 + i>>8)
	}
	for i := range list {
		if o := &list[i]; o.op == nicemu.OpRead {
			for k := o.at; k < o.at+o.n; k++ {
				xb[k], yb[k] = 0, byte(k*5)
			}
		}
	}
	join := nicemu.Join{Access: nicemu.RemoteWrite | nicemu.RemoteRead, Remote: y.Device().Addresses()[0], RemoteQPN: y.Number(), RdAtomic: 8}
	if kind == nicemu.UC {
		join.Access, join.RdAtomic = nicemu.RemoteWrite, 0
	}
	must(t, x.Join(join))
	join.Remote, join.RemoteQPN = x.Device().Addresses()[0], x.Number()
	must(t, y.Join(join))
	for i := range messages {
		wr := &nicemu.RecvWR{ID: uint64(i), SGL: []nicemu.SGE{ym.SGE(total+units.Bytes(i)*size, size)}}
		if srq != nil {
			must(t, srq.PostRecv(wr))
		} else {
			must(t, y.PostRecv(wr))
		}
	}
	completed, came := 0, 0
	start(t, f, "h1", func(p *sim.Process, _ *nicemu.Device) {
		p.Sleep(20 * ms) // the layers have found each other
		posted := 0
		for completed < len(list) {
			for ; posted < len(list) && posted < completed+depth; posted++ {
				o := &list[posted]
				wr := nicemu.SendWR{ID: uint64(posted), Op: o.op, Imm: uint32(posted), SGL: []nicemu.SGE{xm.SGE(o.at, o.n)}, RemoteVA: ym.Addr(o.at), RKey: ym.RKey()}
				if o.inline && o.n > 0 {
					wr.SGL, wr.Inline = nil, xb[o.at:o.at+o.n]
				}
				if o.signaled {
					wr.Flags = nicemu.Signaled
				}
				if err := x.PostSend(&wr); err != nil {
					t.Errorf("request %d: %v", posted, err)
					return
				}
			}
			next := completed
			for !list[next].signaled {
				next++
			}
			c, err := cqOf(x).WaitOne(p)
			want := map[transport.Op]cq.Opcode{nicemu.OpSend: cq.Send, nicemu.OpSendImm: cq.Send, nicemu.OpWrite: cq.Write, nicemu.OpWriteImm: cq.Write, nicemu.OpRead: cq.Read}[list[next].op]
			if err != nil || c.ID != uint64(next) || c.Opcode != want || c.QP != x.Number() {
				t.Errorf("request %d, %v of %d B: %+v, %v", next, list[next].op, list[next].n, c, err)
				return
			}
			completed = next + 1
		}
	})
	start(t, f, "r", func(p *sim.Process, _ *nicemu.Device) {
		for i := range list {
			o := &list[i]
			if !o.takes() {
				continue
			}
			c, err := cqOf(y).WaitOne(p)
			imm := o.op != nicemu.OpSend
			sound := c.ByteLen == uint32(o.n)
			if o.op == nicemu.OpWriteImm && cut && o.n > 1024 {
				sound = c.ByteLen <= uint32(o.n) // that of its last segment
			}
			if err != nil || c.ID != uint64(came) || c.QP != y.Number() || !sound || imm && c.Imm != uint32(i) || imm != (c.Flags&cq.WithImm != 0) {
				t.Errorf("message %d, %v of %d B: %+v, %v", i, o.op, o.n, c, err)
				return
			}
			at := total + units.Bytes(came)*size
			if o.op == nicemu.OpWriteImm {
				at = o.at
			}
			if !bytes.Equal(yb[at:at+o.n], xb[o.at:o.at+o.n]) {
				t.Errorf("message %d, %v of %d B, has other bytes", i, o.op, o.n)
				return
			}
			for k := range i { // earlier WRITEs have arrived
				if e := &list[k]; e.op == nicemu.OpWrite && !bytes.Equal(yb[e.at:e.at+e.n], xb[e.at:e.at+e.n]) {
					t.Errorf("message %d has come before WRITE %d of %d B", i, k, e.n)
					return
				}
			}
			came++
		}
	})
	for at := 20 * ms; at < 20*units.Second && (completed < len(list) || came < messages); at *= 2 {
		runTo(t, f, at)
	}
	runTo(t, f, f.Now()+ms)
	if completed != len(list) || came != messages || x.State() != qp.RTS || y.State() != qp.RTS {
		t.Fatalf("%d of %d requests have completed and %d of %d messages have come; %v and %v", completed, len(list), came, messages, x.State(), y.State())
	}
	for i := range list {
		o := &list[i]
		if o.takes() && o.op != nicemu.OpWriteImm {
			continue
		}
		if !bytes.Equal(yb[o.at:o.at+o.n], xb[o.at:o.at+o.n]) {
			t.Fatalf("%v %d of %d B has not brought its bytes", o.op, i, o.n)
		}
	}
	return layerOf(t, f, "h1").Done()
}
