package transport

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// TestGoBackN_CompletesEverythingOnceAndInOrder joins two queue pairs by a channel with some loss,
// copies, delays and reordering: everything completes, and memory, READ results and received
// messages are those of a sequential machine.
func TestGoBackN_CompletesEverythingOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pair := newPair(t, faults{
			drop: 0.05, copies: 0.05, budget: 5, // each may cost one of seven retries
			late: rapid.SampledFrom([]float64{0, 0.05, 0.5}).Draw(t, "late"),
		})
		if !pair.channel.run(units.Second) {
			t.Fatal("it does not come to an end")
		}
		for _, s := range pair.sides {
			s.checkWhole(t)
		}
	})
}

// TestGoBackN_CompletionsAreTrueAlsoIfItGivesUp does the same over a channel that may lose so much
// that the queue pairs give up: their completions are then still true.
func TestGoBackN_CompletionsAreTrueAlsoIfItGivesUp(t *testing.T) {
	failed := 0
	rapid.Check(t, func(t *rapid.T) {
		loss := rapid.SampledFrom([]float64{0.02, 0.2, 0.5}).Draw(t, "loss")
		pair := newPair(t, faults{drop: loss, copies: 0.1, late: 0.3, budget: -1})
		if !pair.channel.run(10 * units.Second) {
			t.Fatal("it does not come to an end")
		}
		for _, s := range pair.sides {
			if s.qp.State() == qp.Err {
				failed++
				s.checkFailed(t, cq.RetryExcErr)
			} else {
				s.checkWhole(t)
			}
		}
	})
	t.Logf("%d queue pairs gave up", failed)
}

// TestGoBackN_FailedWorkRequestHasItsStatus makes one work request fail, over a channel without
// loss: it has the right status, and only earlier requests have been executed.
func TestGoBackN_FailedWorkRequestHasItsStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := faults{copies: 0.1, budget: 3, late: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "late")}
		pair := newPair(t, f)
		s := pair.sides[0]
		bad := s.work[min(rapid.IntRange(0, 20).Draw(t, "bad"), len(s.work)):]
		want := []cq.Status{s.spoil(t, bad)}
		if f.late > 0 {
			// The NAK may overtake READ responses, which are then never repeated.
			want = append(want, cq.RetryExcErr)
		}
		if !pair.channel.run(10 * units.Second) {
			t.Fatal("it does not come to an end")
		}
		if want[0] == cq.Success {
			s.checkWhole(t)
			return
		}
		s.checkFailed(t, want...)
		if peer := s.peer; peer.failed() {
			peer.checkFailed(t, cq.RetryExcErr, cq.WRFlushErr)
		} else {
			peer.checkWhole(t)
		}
	})
}

// spoil makes the first work request that can fail do so and returns its expected status; Success
// if none can.
func (s *agent) spoil(t *rapid.T, work []SendWR) cq.Status {
	for i := range work {
		wr := &work[i]
		n := len(wr.Inline) + int(memory.ListLength(wr.SGL))
		switch {
		case rapid.Bool().Draw(t, "local") && len(wr.SGL) > 0 && n > 0:
			for j := range wr.SGL {
				wr.SGL[j].LKey = 99
			}
			return cq.LocProtErr
		case wr.Op == BindWindow:
			wr.Bind.Length = 1 << 40
			return cq.MWBindErr
		case wr.Op == LocalInvalidate:
			wr.RKey = targetKey
			return cq.MWBindErr
		case wr.Op.isSend():
			wr.Inline, wr.SGL = nil, append([]memory.SGE{}, s.allocParts(t, n+50)...)
			s.peerFails = cq.LocLenErr
			return cq.RemInvReqErr
		case n > 0 && rapid.Bool().Draw(t, "bounds"):
			wr.RemoteVA += targetSize
			s.peerFails = cq.LocAccessErr // of the receive request of a WRITE with immediate data
			return cq.RemAccessErr
		case n > 0:
			wr.RKey++
			s.peerFails = cq.LocAccessErr
			return cq.RemAccessErr
		}
	}
	return cq.Success
}

func newPair(t *rapid.T, f faults) *pair { return newPairWith(t, f, nil) }

// newPairWith makes a pair with a loss recovery, or with go-back-N if settings is nil.
func newPairWith(t *rapid.T, f faults, settings RecoverySettings) *pair {
	p := newAgents(rapid.Uint64().Draw(t, "seed"), f, localSize)
	mtu := rapid.SampledFrom([]units.Bytes{256, 512, 1024}).Draw(t, "mtu")
	rd := rapid.Uint8Range(1, 4).Draw(t, "rd")
	ask, every := rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "ask"), rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "every")
	psn := rapid.Custom(func(t *rapid.T) PSN {
		if rapid.Bool().Draw(t, "wraps") {
			return PSN(roce.PSNMask - rapid.Uint32Range(0, 50).Draw(t, "before"))
		}
		return PSN(rapid.Uint32Range(0, roce.PSNMask).Draw(t, "psn"))
	})
	psns := [2]PSN{psn.Draw(t, "psn"), psn.Draw(t, "psn")}
	for i, s := range p.sides {
		c := Config{AckEvery: every, AskEvery: ask, ChunkSize: rapid.SampledFrom([]units.Bytes{0, 0, 300, 1000, 64 << 10}).Draw(t, "chunk")}
		if settings != nil {
			c.Recovery = settings.New
			if rapid.Bool().Draw(t, "shared") {
				s.shared = &posted{}
				c.Shared = s.shared
			}
		} else if limit := rapid.SampledFrom([]uint32{0, 1, 7}).Draw(t, "limit"); limit > 0 {
			c.Recovery = func() Recovery { return &capped{limit: limit} }
		}
		d := Delays{
			Doorbell: rapid.SampledFrom([]units.Time{0, 0, units.Microsecond, 9 * units.Microsecond}).Draw(t, "doorbell"),
			Fetch:    rapid.SampledFrom([]units.Time{0, 0, units.Microsecond, 30 * units.Microsecond}).Draw(t, "fetch"),
		}
		p.connect(t, i, c, d, Attr{PathMTU: mtu, RQPSN: psns[1-i], SQPSN: psns[i], MaxRdAtomic: rd, MaxDestRdAtomic: rd})
	}
	for _, s := range p.sides {
		s.program(t, int(mtu))
	}
	return p
}

// allocParts returns n bytes of local memory as a list of some elements.
func (s *agent) allocParts(t *rapid.T, n int) []memory.SGE {
	var list []memory.SGE
	for parts := rapid.IntRange(1, 3).Draw(t, "parts"); n > 0; parts-- {
		take := n
		if parts > 1 {
			take = rapid.IntRange(0, n).Draw(t, "part")
		}
		list = append(list, s.allocBuffer(take))
		n -= take
	}
	return list
}

// program draws the work of s on its peer.
func (s *agent) program(t *rapid.T, mtu int) {
	type piece struct{ from, to uint64 }
	var read []piece // since the last fence
	for i := range rapid.IntRange(0, 20).Draw(t, "work") {
		wr := SendWR{ID: uint64(i), Op: Op(rapid.IntRange(0, int(LocalInvalidate)).Draw(t, "op")), RKey: targetKey, Imm: uint32(i)}
		if wr.Op == SendInvalidate {
			wr.Op = Send
		}
		if wr.Op.isLocal() {
			s.turnWindow(&wr)
		}
		if rapid.IntRange(0, 3).Draw(t, "signaled") > 0 || wr.Op.fetchesData() {
			wr.Flags |= Signaled
		}
		n := rapid.IntRange(0, min(5*mtu, targetSize)).Draw(t, "length")
		switch {
		case wr.Op.isLocal():
			n = 0
		case rapid.IntRange(0, 2).Draw(t, "small") == 0:
			n = min(n, 40)
		}
		wr.RemoteVA = uint64(rapid.IntRange(0, targetSize-n).Draw(t, "va"))
		if wr.Op.isAtomic() {
			n, wr.RemoteVA = 8, wr.RemoteVA&^7
			if wr.RemoteVA+8 > targetSize {
				wr.RemoteVA -= 8
			}
			wr.Swap = uint64(rapid.IntRange(1, 3).Draw(t, "swap"))
			wr.Compare = binary.LittleEndian.Uint64(s.models[i][wr.RemoteVA:])
			if rapid.Bool().Draw(t, "differs") {
				wr.Compare++
			}
		}
		if !wr.Op.isLocal() {
			wr.SGL = s.allocParts(t, n)
		}
		if n > 0 && n <= 64 && !wr.Op.fetchesData() && rapid.Bool().Draw(t, "inline") {
			wr.SGL, wr.Inline = nil, slices.Clone(s.bytesOf(wr.SGL))
		}

		// A change of memory that an earlier READ still reads needs a fence: otherwise the order is
		// open (§10.8.3).
		changes := wr.Op.isWrite() || wr.Op.isAtomic()
		overlaps := slices.ContainsFunc(read, func(p piece) bool {
			return wr.RemoteVA < p.to && p.from < wr.RemoteVA+uint64(n)
		})
		if changes && overlaps || rapid.IntRange(0, 5).Draw(t, "fence") == 0 {
			wr.Flags |= Fence
			read = nil
		}
		if wr.Op == Read {
			read = append(read, piece{wr.RemoteVA, wr.RemoteVA + uint64(n)})
		}
		var room []memory.SGE
		if wr.Op.isSend() {
			room = s.peer.allocParts(t, n+rapid.IntRange(0, 9).Draw(t, "spare"))
		}
		s.addWork(wr, room)
	}
}
