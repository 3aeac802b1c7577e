package nicemu

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// xrcEnd is a program with a shared receive queue of an XRC domain.
type xrcEnd struct {
	*host
	srq *SRQ
}

// newXRCEnd makes a program of a host, and its shared receive queue with some requests of 1 KiB.
func newXRCEnd(t *testing.T, w *world, i int, x *XRCD, requests int) *xrcEnd {
	t.Helper()
	e := &xrcEnd{host: w.host(i)}
	var err error
	if e.srq, err = e.pd.CreateXRCSRQ(SRQAttr{MaxWR: 16, MaxSGE: 1}, x, e.cq); err != nil {
		t.Fatal(err)
	}
	for k := range requests {
		if err := e.srq.PostRecv(&RecvWR{ID: uint64(k), SGL: []SGE{e.mr.SGE(units.Bytes(1024*k), 1024)}}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// connectXRC makes an initiator of a program and a target of a domain, and connects them.
func connectXRC(t *testing.T, h *host, x *XRCD) (initiator, target *QP) {
	t.Helper()
	target, err := x.CreateQP()
	if err != nil {
		t.Fatal(err)
	}
	initiator = h.qp(XRCSend)
	join(t, initiator, target, qp.MTU1024, false)
	return initiator, target
}

func openXRCD(t *testing.T, d *Device) *XRCD {
	t.Helper()
	x, err := d.OpenXRCD()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// send posts a SEND of some bytes for a shared receive queue.
func (h *host) send(q *QP, to *SRQ, text string) {
	h.t.Helper()
	at := copy(h.buf, text)
	if err := q.PostSend(&SendWR{Op: OpSend, SGL: []SGE{h.mr.SGE(0, units.Bytes(at))}, SRQ: to.Number()}); err != nil {
		h.t.Fatal(err)
	}
}

// TestXRC_OneConnectionReachesAllPrograms: the messages of one queue pair go to the shared receive
// queues that they name, of two programs with their own protection domains and completion queues.
func TestXRC_OneConnectionReachesAllPrograms(t *testing.T) {
	w := newWorld(t, 2, withDCQCN)
	x := openXRCD(t, w.ports[1].device)
	client, b, c := w.host(0), newXRCEnd(t, w, 1, x, 2), newXRCEnd(t, w, 1, x, 2)
	q, target := connectXRC(t, client, x)
	for i, to := range []*xrcEnd{b, c, c, b} {
		client.send(q, to.srq, []string{"first", "second", "third", "fourth"}[i])
		w.run(w.engine.Now() + units.Millisecond)
	}
	for i, e := range []*xrcEnd{b, c} {
		var got []string
		for _, entry := range e.poll() {
			if entry.Err() != nil || entry.QP != target.Number() || entry.SrcQP != q.Number() || entry.SRQ != e.srq.Number() {
				t.Errorf("program %d: %+v", i, entry)
			}
			got = append(got, string(e.buf[1024*entry.ID:][:entry.ByteLen]))
		}
		if want := [][]string{{"first", "fourth"}, {"second", "third"}}[i]; !slices.Equal(got, want) {
			t.Errorf("program %d has got %q", i, got)
		}
	}
	for _, entry := range client.poll() {
		if entry.Err() != nil {
			t.Error(entry.Err())
		}
	}
	// Its memory belongs to the protection domain of the shared receive queue that is named.
	for i, e := range []*xrcEnd{b, c} {
		copy(e.buf[8192:], []string{"of b", "of c"}[i])
		if err := q.PostSend(&SendWR{Op: OpRead, SGL: []SGE{client.mr.SGE(100, 4)}, RemoteVA: e.mr.Addr(8192), RKey: e.mr.RKey(), SRQ: e.srq.Number()}); err != nil {
			t.Fatal(err)
		}
		w.run(w.engine.Now() + units.Millisecond)
		if got := client.buf[100:104]; !bytes.Equal(got, e.buf[8192:8196]) {
			t.Errorf("a READ has brought %q", got)
		}
	}
	client.poll()
	if err := q.PostSend(&SendWR{Op: OpWrite, SGL: []SGE{client.mr.SGE(0, 4)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey(), SRQ: c.srq.Number()}); err != nil {
		t.Fatal(err)
	}
	w.run(w.engine.Now() + units.Millisecond)
	if got := client.poll(); len(got) != 1 || got[0].Status != cq.RemAccessErr {
		t.Errorf("a WRITE with a key of another protection domain: %+v", got)
	}
}

// TestXRC_RefusesOtherDomains: a number of a shared receive queue of another domain, of one that is
// destroyed, or of none is an invalid request, and ends the connection.
func TestXRC_RefusesOtherDomains(t *testing.T) {
	for name, number := range map[string]func(t *testing.T, w *world, x *XRCD) uint32{
		"of another domain": func(t *testing.T, w *world, _ *XRCD) uint32 {
			return newXRCEnd(t, w, 1, openXRCD(t, w.ports[1].device), 1).srq.Number()
		},
		"destroyed": func(t *testing.T, w *world, x *XRCD) uint32 {
			e := newXRCEnd(t, w, 1, x, 1)
			if err := e.srq.Destroy(); err != nil {
				t.Fatal(err)
			}
			return e.srq.Number()
		},
		"of none": func(*testing.T, *world, *XRCD) uint32 { return 99 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			x := openXRCD(t, w.ports[1].device)
			client := w.host(0)
			q, target := connectXRC(t, client, x)
			if err := q.PostSend(&SendWR{Op: OpSend, SGL: []SGE{client.mr.SGE(0, 5)}, SRQ: number(t, w, x)}); err != nil {
				t.Fatal(err)
			}
			w.run(units.Millisecond)
			if got := client.poll(); len(got) != 1 || got[0].Status != cq.RemInvReqErr {
				t.Errorf("%+v", got)
			}
			var kinds []EventKind
			for e, ok := target.Device().NextEvent(); ok; e, ok = target.Device().NextEvent() {
				if e.QP == target {
					kinds = append(kinds, e.Kind)
				}
			}
			if !slices.Contains(kinds, EventQPAccessErr) || target.State() != StateErr {
				t.Errorf("the target is in %v, after %v", target.State(), kinds)
			}
		})
	}
}

// TestXRC_SurvivesTheEndOfASharedReceiveQueue: a queue that is destroyed in the middle of a message
// takes its completion queue with it.
func TestXRC_SurvivesTheEndOfASharedReceiveQueue(t *testing.T) {
	w := newWorld(t, 2)
	x := openXRCD(t, w.ports[1].device)
	client, b := w.host(0), newXRCEnd(t, w, 1, x, 0)
	if err := b.srq.PostRecv(&RecvWR{SGL: []SGE{b.mr.SGE(0, 1<<16)}}); err != nil {
		t.Fatal(err)
	}
	q, target := connectXRC(t, client, x)
	client.send(q, b.srq, strings.Repeat("x", 1<<16))
	w.run(20 * units.Microsecond) // 64 packets take 58 us
	if err := errors.Join(b.srq.Destroy(), b.cq.Destroy()); err != nil || b.srq.Len() != 0 {
		t.Fatal(err)
	}
	w.run(units.Millisecond)
	if got := client.poll(); len(got) != 1 || got[0].Status != cq.RemInvReqErr || target.State() != StateErr {
		t.Errorf("the target is in %v: %+v", target.State(), got)
	}
}

// TestXRC_OverrunEndsTheTarget: the completion queue of a shared receive queue does not know the
// targets whose messages overrun it.
func TestXRC_OverrunEndsTheTarget(t *testing.T) {
	w := newWorld(t, 2)
	x := openXRCD(t, w.ports[1].device)
	client, b := w.host(0), w.host(1)
	small, err := b.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	srq, err := b.pd.CreateXRCSRQ(SRQAttr{MaxWR: 4, MaxSGE: 1}, x, small)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := srq.PostRecv(&RecvWR{SGL: []SGE{b.mr.SGE(0, 100)}}); err != nil {
			t.Fatal(err)
		}
	}
	q, target := connectXRC(t, client, x)
	client.send(q, srq, "one")
	client.send(q, srq, "two")
	w.run(units.Millisecond)
	var kinds []EventKind
	for e, ok := b.NextEvent(); ok; e, ok = b.NextEvent() {
		kinds = append(kinds, e.Kind)
	}
	if !slices.Contains(kinds, EventCQErr) || !slices.Contains(kinds, EventQPFatal) || target.State() != StateErr {
		t.Errorf("the target is in %v, after %v", target.State(), kinds)
	}
}

// TestXRC_NeedsItsParts: what cannot be made, and what cannot end while others use it.
func TestXRC_NeedsItsParts(t *testing.T) {
	w := newWorld(t, 2)
	x := openXRCD(t, w.ports[1].device)
	b, other := newXRCEnd(t, w, 1, x, 0), w.host(0)
	q, err := x.CreateQP()
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"domain": x.Close(), "completion queue": b.cq.Destroy(), "protection domain": b.pd.Dealloc()} {
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s in use: %v", name, err)
		}
	}
	caps := QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	for name, err := range map[string]error{
		"a queue pair of RC with the queue": errorOf(b.pd.CreateQP(QPConfig{Type: RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: b.srq, Cap: caps})),
		"a target of a protection domain":   errorOf(b.pd.CreateQP(QPConfig{Type: XRCRecv, SendCQ: b.cq, RecvCQ: b.cq, Cap: caps})),
		"a queue of another device":         errorOf(other.pd.CreateXRCSRQ(SRQAttr{MaxWR: 1}, x, other.cq)),
		"the completions of another device": errorOf(b.pd.CreateXRCSRQ(SRQAttr{MaxWR: 1}, x, other.cq)),
		"a queue without a domain":          errorOf(b.pd.CreateXRCSRQ(SRQAttr{MaxWR: 1}, nil, b.cq)),
		"a queue without completions":       errorOf(b.pd.CreateXRCSRQ(SRQAttr{MaxWR: 1}, x, nil)),
		"work at a target":                  q.PostSend(&SendWR{Op: OpSend}),
		"a receive at a target":             q.PostRecv(&RecvWR{}),
		"a receive at an initiator":         other.qp(XRCSend).PostRecv(&RecvWR{}),
		"a connection":                      errorOf(other.Connect(other.qp(XRCSend), netip.MustParseAddrPort("10.0.0.2:1"), ConnParam{}, nil)),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(q.Destroy(), b.srq.Destroy(), x.Close()); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{"a target": errorOf(x.CreateQP()), "a queue": errorOf(b.pd.CreateXRCSRQ(SRQAttr{MaxWR: 1}, x, b.cq)), "the end": x.Close()} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s of a closed domain: %v", name, err)
		}
	}
}

// TestXRC_IsRefusedWhereItCannotWork: IRN has no opcodes for XRC, and layers are above RC and UC.
func TestXRC_IsRefusedWhereItCannotWork(t *testing.T) {
	k, err := transport.Recoveries.Find("irn")
	if err != nil {
		t.Fatal(err)
	}
	for why, change := range map[string]option{
		"IRN has no opcodes for it": func(s *Settings, _ *Env) {
			s.Recovery = transport.RecoveryChoice{Name: "irn", Settings: k.Settings("", lineRate)}
		},
		"the layer above it is for RC and UC": func(s *Settings, _ *Env) { s.Layer = LayerChoice{Name: "test", Settings: idleLayer{}} },
	} {
		w := newWorld(t, 1, change)
		h := w.host(0)
		if _, err := h.OpenXRCD(); !errors.Is(err, syscall.EOPNOTSUPP) || h.SupportsXRC() || !strings.Contains(err.Error(), why) {
			t.Errorf("a domain: %v", err)
		}
		if _, err := h.pd.CreateQP(QPConfig{Type: XRCSend, SendCQ: h.cq}); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("an initiator: %v", err)
		}
	}
}

// idleLayer is a layer that leaves all queue pairs as they are.
type idleLayer struct{}

func (idleLayer) Validate(units.Rate) error     { return nil }
func (idleLayer) New(*Device) Layer             { return idleLayer{} }
func (idleLayer) Over(Raw) Layered              { return nil }
func (idleLayer) Work(values []uint64) []uint64 { return values }

func errorOf[T any](_ T, err error) error { return err }
