package transport

import (
	"bytes"
	"slices"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
)

// checkSent compares the first n work requests with their completions and results, and returns the
// remaining completions.
func (s *agent) checkSent(t rapid.TB, n int) []cq.Completion {
	left := s.sent
	for i, wr := range s.work[:n] {
		if wr.Flags&Signaled != 0 {
			if len(left) == 0 || left[0].ID != wr.ID || left[0].Status != cq.Success || left[0].Opcode != wcOf(wr.Op) {
				t.Fatalf("%s: work request %d (%v) is not the next of %+v", s.name, i, wr.Op, left)
			}
			left = left[1:]
		}
		if want := s.fetched[i]; want != nil {
			if got := s.bytesOf(wr.SGL); !bytes.Equal(got, want) {
				t.Fatalf("%s: %v %d brought %x, want %x", s.name, wr.Op, i, got, want)
			}
		}
	}
	return left
}

// checkReceived compares the peer's received messages with those sent, and returns their number.
func (s *agent) checkReceived(t rapid.TB) int {
	n := 0
	for _, c := range s.peer.received {
		if s.peer.qp.State() == qp.Err && c.Status != cq.Success && (c.Status == cq.WRFlushErr || c.Status == s.peerFails) {
			continue
		}
		if c.Status != cq.Success || n == len(s.messages) || c.ID != uint64(n) {
			t.Fatalf("%s has received %+v as message %d of %d", s.peer.name, c, n, len(s.messages))
		}
		message := s.messages[n]
		switch {
		case message == nil:
			if c.Opcode != cq.RecvImm || c.Flags != cq.WithImm || c.Imm != s.imms[n] {
				t.Fatalf("%s has received %+v, want immediate data %d", s.peer.name, c, s.imms[n])
			}
		case c.Opcode != cq.Recv || int(c.ByteLen) != len(message) || c.Flags == cq.WithImm && c.Imm != s.imms[n]:
			t.Fatalf("%s has received %+v as message %d", s.peer.name, c, n)
		case !bytes.Equal(s.peer.bytesOf(s.peer.receives[n].SGL)[:c.ByteLen], message):
			t.Fatalf("%s has received other bytes than message %d has", s.peer.name, n)
		}
		n++
	}
	return n
}

// checkWhole checks that all work of s is done.
func (s *agent) checkWhole(t rapid.TB) {
	if left := s.checkSent(t, len(s.work)); len(left) > 0 {
		t.Fatalf("%s: completions of nothing: %+v", s.name, left)
	}
	if n := s.checkReceived(t); n != len(s.messages) {
		t.Fatalf("%s has received %d messages of %d", s.peer.name, n, len(s.messages))
	}
	if !bytes.Equal(s.peer.target, s.models[len(s.work)]) {
		t.Fatalf("%s: memory is not that of the model", s.peer.name)
	}
}

// failed reports whether some work of s did not succeed.
func (s *agent) failed() bool {
	return slices.ContainsFunc(s.sent, func(c cq.Completion) bool { return c.Status != cq.Success })
}

// checkFailed checks that the completions of s are true: a number of work requests succeeded, the
// next failed with one of the statuses, the others were flushed; and the peer has executed the
// first of them, at least those that succeeded, each once.
func (s *agent) checkFailed(t rapid.TB, may ...cq.Status) {
	e := slices.IndexFunc(s.sent, func(c cq.Completion) bool { return c.Status != cq.Success })
	if e < 0 || !slices.Contains(may, s.sent[e].Status) {
		t.Fatalf("%s should have failed with %v: %+v", s.name, may, s.sent)
	}
	failed := int(s.sent[e].ID)
	for i, c := range s.checkSent(t, failed)[1:] {
		if c.Status != cq.WRFlushErr || c.ID != uint64(failed+1+i) {
			t.Fatalf("%s: %+v behind a failure", s.name, c)
		}
	}
	if last := s.sent[len(s.sent)-1]; int(last.ID) != len(s.work)-1 {
		t.Fatalf("%s: the last completion is %+v of %d", s.name, last, len(s.work))
	}
	received, messages := s.checkReceived(t), 0
	for j := 0; j <= len(s.work); j++ {
		if j >= failed && messages == received && s.mayHave(j) {
			return
		}
		if j < len(s.work) && (s.work[j].Op.isSend() || s.work[j].Op == WriteImm) {
			messages++
		}
	}
	t.Fatalf("%s: memory is not what the first %d or more of %d work requests and %d messages make", s.peer.name, failed, len(s.work), received)
}

// mayHave reports whether the peer's memory is that after j work requests, or also with some
// packets of the next WRITE.
func (s *agent) mayHave(j int) bool {
	model := slices.Clone(s.models[j])
	if bytes.Equal(s.peer.target, model) {
		return true
	}
	if j == len(s.work) || !s.work[j].Op.isWrite() {
		return false
	}
	wr := s.work[j]
	n := len(wr.Inline) + int(memory.ListLength(wr.SGL))
	for done := int(s.qp.pathMTU()); done < n; done += int(s.qp.pathMTU()) {
		copy(model[wr.RemoteVA:], s.models[j+1][wr.RemoteVA:][:done])
		if bytes.Equal(s.peer.target, model) {
			return true
		}
	}
	return false
}
