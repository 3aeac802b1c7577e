package nicemu

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// exposed is a NIC with queue pairs of all types in all states, listeners and peers, as a target
// for fuzzing.
type exposed struct {
	*world
	a, b *host
	qps  [3*7 + 1]*QP // by type and state; the last has a shared receive queue
	ah   *AH
	next map[*QP]uint32 // PSN that the peer would send next
}

// expose makes a NIC with all queue pairs.
func expose(t testing.TB) *exposed {
	x := exposeNone(t)
	for i := range x.qps {
		x.queuePair(i)
	}
	return x
}

// exposeNone makes a NIC without queue pairs.
func exposeNone(t testing.TB) *exposed {
	x := &exposed{next: map[*QP]uint32{}, world: newWorld(t, 2, withDCQCN, func(s *Settings, _ *Env) { s.AckEvery = 3; s.Timeout = 1; s.RetryCount = 1; s.RNRRetry = 1 })}
	x.a, x.b = x.hostWith(0, 8<<10), x.hostWith(1, 8<<10)
	x.ah = x.a.handleTo(qp.AV{DGID: GID(v4(1))})
	accept := func(e ConnEvent) {
		if e.Kind == ConnRequested && e.Conn.Accept(x.in(qp.RC, qp.Reset), ConnParam{}) != nil {
			x.must(e.Conn.Reject(nil)) // the request is odd
		}
	}
	if _, err := x.a.Listen(netip.AddrPortFrom(netip.Addr{}, 7174), 4, accept); err != nil {
		t.Fatal(err)
	}
	if _, err := x.a.ListenDatagrams(netip.AddrPortFrom(netip.Addr{}, 7174), func(Datagrams) (ResolveAnswer, bool) { return ResolveAnswer{QPN: 17}, true }); err != nil {
		t.Fatal(err)
	}
	return x
}

// member is the number of the queue pair that is in a multicast group: UD in RTS.
const member = 2*7 + int(qp.RTS)

// queuePair returns the i-th queue pair, and makes it if need be.
func (x *exposed) queuePair(i int) *QP {
	switch {
	case x.qps[i] != nil:
	case i < 3*7:
		x.qps[i] = x.in([]qp.Type{qp.RC, qp.UC, qp.UD}[i/7], qp.State(i%7))
		if i == member {
			x.must(x.qps[i].AttachMcast(GID(addr("239.1.2.3"))))
		}
	default:
		srq, err := x.a.pd.CreateSRQ(qp.SRQAttr{MaxWR: 16, MaxSGE: 2})
		x.must(err)
		x.qps[i], err = x.a.pd.CreateQP(QPConfig{Type: qp.RC, SendCQ: x.a.cq, RecvCQ: x.a.cq, SRQ: srq, Cap: qp.Cap{MaxSendWR: 8, MaxSendSGE: 2}})
		x.must(err)
		x.join(x.qps[i])
	}
	return x.qps[i]
}

// in makes a queue pair of the first NIC that is in a state. Its peer has the same number at the
// second NIC, where there is no such queue pair.
func (x *exposed) in(kind qp.Type, s qp.State) *QP {
	q := x.a.qp(kind)
	if kind == qp.RC && s == qp.SQE {
		s = qp.RTS // it has no such state
	}
	switch s {
	case qp.Reset:
		return q
	case qp.Init, qp.RTR:
		access := memory.RemoteWrite | memory.RemoteRead | memory.RemoteAtomic
		if kind != qp.RC {
			access = memory.RemoteWrite
		}
		x.must(q.Init(access, 0x1234))
		x.receives(q)
		if s == qp.RTR && kind == qp.UD {
			x.must(q.Modify(qp.Attr{State: qp.RTR}, qp.MaskState))
		} else if s == qp.RTR {
			attr := qp.Attr{State: qp.RTR, AV: qp.AV{Global: true, Port: 1, DGID: GID(v4(1))}, PathMTU: qp.MTU256, DestQPN: q.Number(), RQPSN: 7, MaxDestRdAtomic: 2}
			mask := qp.MaskState | qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
			if kind == qp.RC {
				mask |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
			}
			x.must(q.Modify(attr, mask))
		}
		return q
	}
	x.join(q)
	x.receives(q)
	switch s {
	case qp.SQD, qp.Err:
		x.must(q.Modify(qp.Attr{State: s}, qp.MaskState))
	case qp.SQE:
		// The memory to send from does not exist.
		x.must(q.PostSend(&transport.SendWR{Op: transport.Send, SGL: []memory.SGE{{VA: 5, Length: 5, LKey: 5}}, Path: x.ah.Path(), DestQP: q.Number(), QKey: 0x1234}))
		if q.State() != qp.SQE {
			x.t.Fatalf("queue pair %d is in %v", q.Number(), q.State())
		}
	}
	return q
}

func (x *exposed) device() *Device { return x.a.Device }

func (x *exposed) must(err error) {
	if err != nil { // Helper takes long
		x.t.Helper()
		x.t.Fatal(err)
	}
}

func (x *exposed) join(q *QP) {
	j := Join{Local: v4(0), Remote: v4(1), RemoteQPN: q.Number(), PSN: 7, RemotePSN: 7, MTU: qp.MTU256, RdAtomic: 2, QKey: 0x1234, Access: memory.RemoteWrite}
	if q.config.Type == qp.RC {
		j.Access |= memory.RemoteRead | memory.RemoteAtomic
	}
	x.must(q.Join(j))
}

func (x *exposed) receives(q *QP) {
	for i := range 3 {
		x.must(q.PostRecv(&qp.RecvWR{ID: uint64(i), SGL: []memory.SGE{x.a.mr.SGE(units.Bytes(i)*1000, 600)}}))
	}
}

// sound checks that the first NIC's lists are consistent.
func (x *exposed) sound() {
	x.t.Helper()
	d := x.device()
	if err := d.agenda.Check(); err != nil {
		x.t.Fatal(err)
	}
	urgent, turns, notified := 0, 0, 0
	for prio := range d.lanes {
		l := &d.lanes[prio]
		for i := range l.urgent.Len() {
			q := *l.urgent.At(i)
			if !q.urgent || int(q.ack) != prio {
				x.t.Fatalf("queue pair %d is urgent in lane %d", q.Number(), prio)
			}
			urgent++
		}
		for q := range l.ready.All() {
			if !q.turn.IsLinked() || int(q.prio) != prio {
				x.t.Fatalf("queue pair %d takes turns in lane %d", q.Number(), prio)
			}
			turns++
		}
		notified += l.cnps.Len()
		if size := d.firstSize(l); size != l.fed {
			x.t.Fatalf("lane %d has %d bytes to send, the port knows of %d", prio, size, l.fed)
		}
	}
	for _, q := range d.numbers.allQPs() {
		urgent -= number(q.urgent)
		turns -= number(q.turn.IsLinked())
		notified -= number(q.notified)
		if q.engine.State() != q.verbs.State() {
			x.t.Fatalf("queue pair %d is in %v and in %v", q.Number(), q.engine.State(), q.verbs.State())
		}
	}
	if urgent != 0 || turns != 0 || notified != 0 {
		x.t.Fatalf("lanes and queue pairs disagree: %d urgent, %d in turns, %d notified", urgent, turns, notified)
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// end destroys everything and lets the remaining packets arrive: nothing may be left.
func (x *exposed) end() {
	x.t.Helper()
	d := x.device()
	if q := x.qps[member]; q != nil {
		_ = q.DetachMcast(GID(addr("239.1.2.3"))) // it may be detached
	}
	for _, q := range d.numbers.allQPs() {
		x.must(q.Destroy())
	}
	x.run(5_000_000 * units.Second) // a peer may ask for a long wait
	x.sound()
	if x.pool.LivePackets() != 0 || d.agenda.LiveTasks() != 0 || d.conns.cm.Len() != 0 || len(d.conns.byID)+len(d.conns.byQP) != 0 {
		x.t.Fatalf("left are %d packets, %d tasks, %d connections", x.pool.LivePackets(), d.agenda.LiveTasks(), d.conns.cm.Len())
	}
}

// FuzzReceiveFrame sends frames to a NIC, unchanged or with a corrected CRC: it takes them or not,
// and nothing is left of them. In the input each frame follows its length, in two bytes.
func FuzzReceiveFrame(f *testing.F) {
	for _, name := range []string{"rping.pcap", "pingpong.pcap"} {
		var some []byte
		for i, b := range oracle.Frames(f, "../wire/roce/testdata/"+name) {
			some = append(binary.BigEndian.AppendUint16(some, uint16(len(b))), b...)
			if i%6 == 5 && i < 400 {
				f.Add(some, true)
				some = nil
			}
		}
	}
	for _, b := range wireSeeds(f) {
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if len(data) > 16<<10 {
			return // more input finds no more, and takes long
		}
		x := expose(t)
		x.takeFrames(data, repair)
		x.end()
	})
}

// takeFrames delivers frames, each after its length.
func (x *exposed) takeFrames(data []byte, repair bool) {
	for len(data) > 2 {
		n := min(int(binary.BigEndian.Uint16(data)), len(data)-2, packet.MaxFrame)
		p := x.pool.NewFrame(n)
		copy(p.Frame, data[2:2+n])
		data = data[2+n:]
		p.Size = units.Bytes(n)
		if !p.Parse() || p.Proto != wire.ProtoUDP || p.DstPort != roce.Port {
			x.pool.Free(p)
			continue
		}
		if repair {
			_ = roce.PutICRC(p.Frame[p.L3:]) // if it has one
		}
		x.device().ReceivePacket(x.engine.Now(), p)
		x.sound()
		x.run(x.engine.Now() + 10*units.Microsecond)
	}
}

// script reads an input byte by byte; zeros follow its end.
type script []byte

func (s *script) byte() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// FuzzPackets sends packets to queue pairs in all states while programs use these.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{0, 3, 4, 0, 200, 1, 0, 3, 12, 1, 50, 4, 3, 5, 20, 0, 3, 17, 0, 0, 2, 3, 9, 0, 10, 17, 100, 0, 50})
	f.Add([]byte{1, 3, 5, 1, 3, 0, 1, 3, 6, 0, 3, 17, 0, 2, 0, 0, 3, 16, 1, 0, 3, 18, 0, 1, 9, 3, 8, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		x := exposeNone(t)
		for _, kind := range []int{1, 2} { // UC and UD; later the port may be busy, and no request fails
			x.queuePair(7*kind + int(qp.SQE))
		}
		s := script(data)
		for len(s) > 0 {
			switch what, q := s.byte(), x.queuePair(s.byte()%len(x.qps)); what % 8 {
			case 0, 1, 2, 3:
				x.throw(q, &s)
			case 4:
				x.post(q, &s)
			case 5:
				x.modify(q, qp.State(s.byte()%7))
			case 6:
				_ = q.PostRecv(&qp.RecvWR{SGL: []memory.SGE{x.a.mr.SGE(0, units.Bytes(s.byte()*4))}}) // refused where the state does not allow it
			default:
				x.run(x.engine.Now() + units.Time(s.byte())*units.Microsecond)
				x.drainCQ()
			}
			x.sound()
		}
		x.end()
	})
}

// drainCQ polls the CQ until it is empty.
func (x *exposed) drainCQ() {
	var list [16]cq.Completion
	for {
		n, err := x.a.cq.Poll(list[:])
		x.must(err)
		if n == 0 {
			return
		}
	}
}

// throw delivers a packet to a queue pair.
func (x *exposed) throw(q *QP, s *script) {
	p := x.pool.NewRoCE()
	r := p.RoCE
	op, flags, n := roce.Opcode(s.byte()), s.byte(), s.byte()
	if flags&1 == 0 { // of the service that it has
		op = serviceOf(q.config.Type).WithOperation(op & 31)
	}
	expected := 7 + x.next[q]
	if o := op & 31; o >= roce.ReadFirst && o <= roce.AtomicAck {
		w, _ := q.engine.Outstanding()
		expected = uint32(w.Una)
	} else if n>>6 == 0 {
		x.next[q]++
	}
	r.BTH = roce.BTH{Opcode: op, PKey: 0xffff, DestQP: q.Number(), AckReq: flags&2 != 0, PSN: (expected + uint32(n>>6)) & roce.PSNMask}
	r.Length = 4 * (n & 63)
	if flags&4 != 0 {
		r.Length = 256
	}
	r.Payload = append(r.Payload, make([]byte, r.Length)...)
	if flags&8 != 0 { // only modelled
		r.Payload = r.Payload[:0]
	}
	r.RETH = roce.RETH{VA: x.a.mr.Addr(units.Bytes(s.byte()) * 8), RKey: x.a.mr.RKey(), Length: uint32(s.byte() * 16)}
	r.FurtherHeaders().Atomic = roce.AtomicETH{VA: x.a.mr.Addr(units.Bytes(s.byte())), RKey: x.a.mr.RKey(), Swap: 1}
	r.AETH = roce.AETH{Syndrome: uint8(s.byte())}
	r.FurtherHeaders().DETH = roce.DETH{QKey: 0x1234, SourceQP: 5}
	r.IETH.RKey = x.a.mr.RKey()
	r.Addresses = packet.NewAddresses(v4(1), v4(0))
	switch flags >> 4 {
	case 1:
		r.BTH = roce.CNPHeader(q.Number())
	case 2:
		r.BTH.DestQP, r.To = MulticastQPN, addr("239.1.2.3")
	case 3:
		r.BTH = roce.BTH{Opcode: roce.UD.WithOperation(roce.SendOnly), PKey: 0xffff, DestQP: qp.GSINumber}
		r.FurtherHeaders().DETH.QKey = roce.ManagementQKey
		r.Payload = append(r.Payload[:0], make([]byte, msg.MADLen)...)
		for i := range r.Payload {
			r.Payload[i] = byte(s.byte())
		}
		r.Length = msg.MADLen
	case 4:
		p.TOS |= wire.CE
	case 5:
		p.Trimmed = true
	}
	p.Version, p.Size = 4, units.Bytes(42+r.Length)
	x.device().ReceivePacket(x.engine.Now(), p)
}

// post posts a work request of any kind.
func (x *exposed) post(q *QP, s *script) {
	wr := transport.SendWR{
		Op: transport.Op(s.byte() % 10), Flags: transport.Flags(s.byte()), SGL: []memory.SGE{x.a.mr.SGE(0, units.Bytes(s.byte()*8))},
		RemoteVA: x.b.mr.Addr(0), RKey: x.b.mr.RKey(), Path: x.ah.Path(), DestQP: 20, QKey: 0x1234,
	}
	_ = q.PostSend(&wr) // refused where state or service do not allow it
}

// modify takes a queue pair to a state, by any path there is.
func (x *exposed) modify(q *QP, to qp.State) {
	if to == qp.Reset {
		delete(x.next, q)
	}
	if to == qp.RTS && q.State() <= qp.Init {
		x.join(q)
	} else {
		_ = q.Modify(qp.Attr{State: to}, qp.MaskState) // refused where there is none
	}
}
