package uverbs

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
)

const (
	// roundsOfATurn is the number of times in one turn that the doorbell page is checked again
	// because more was posted meanwhile.
	roundsOfATurn = 4
	// perTurn is the number of work requests taken from each ring of a queue before the others have
	// their turn.
	perTurn = 64
	// perSession is the number taken from one process before the others have their turn, and
	// perPoll the number from all before the fabric has its turn. A ring can exceed them by
	// 2*perTurn.
	perSession = 256
	perPoll    = 1024
	// perRequest is about the number of work requests that take as long as a control request.
	perRequest = 64
)

// takePosted takes the process's posted requests, as marked in the doorbell page; the rest has its turn
// soon.
func (x *session) takePosted() (taken int) {
	for range roundsOfATurn {
		x.collectDoorbells()
		taken += x.takeEntries(perSession - taken)
		if len(x.pending) > 0 || taken >= perSession {
			break
		}
		x.doorbell.wordAt(0).Store(1)
		if !x.hasDoorbell() {
			return taken
		}
		x.doorbell.wordAt(0).Store(0)
	}
	x.server.deferSession(x)
	return taken
}

// hasDoorbell reports whether a bit is set in the doorbell page.
func (x *session) hasDoorbell() bool {
	for i := range anyWords {
		if x.doorbell.doubleAt(anyOffset+8*i).Load() != 0 {
			return true
		}
	}
	return false
}

// collectDoorbells records the queues whose bits are set, and clears the bits.
func (x *session) collectDoorbells() {
	used := (len(x.queues) + 63) / 64 // words of bits
	for i := range anyWords {
		any := x.doorbell.doubleAt(anyOffset + 8*i)
		if any.Load() == 0 {
			continue
		}
		for words := any.Swap(0); words != 0; words &= words - 1 {
			word := 64*i + bits.TrailingZeros64(words)
			if word >= used {
				break
			}
			for dirty := x.doorbell.doubleAt(dirtyOffset + 8*word).Swap(0); dirty != 0; dirty &= dirty - 1 {
				x.recordWork(64*word + bits.TrailingZeros64(dirty))
			}
		}
	}
}

func (x *session) recordWork(number int) {
	if number >= len(x.queues) || x.queues[number] == nil || x.queues[number].waiting {
		return
	}
	k := x.queues[number]
	k.waiting = true
	x.pending = append(x.pending, k)
}

// takeEntries takes up to max entries, or a few more, from the recorded queues, in turn. Those that have
// more stay.
func (x *session) takeEntries(max int) (taken int) {
	for n := 0; n < len(x.pending); n++ {
		if taken >= max {
			x.pending = slices.Delete(x.pending, 0, n)
			return taken
		}
		k := x.pending[n]
		more := k.takePosted(perTurn, &taken)
		k.waiting = more
		if more {
			x.pending = append(x.pending, k)
		}
	}
	clear(x.pending)
	x.pending = x.pending[:0]
	return taken
}

// takePosted takes up to max entries of each ring, receives first, since sends may be answered into them.
// It adds their number to taken, and reports whether there are more.
func (k *queue) takePosted(max int, taken *int) (more bool) {
	if k.session == nil {
		return false // it is destroyed
	}
	for _, r := range []struct {
		*ring
		post func(*queue, []byte, uint32)
	}{{&k.recvs, (*queue).postRecv}, {&k.sends, (*queue).postSend}} {
		if len(r.slots) == 0 {
			continue
		}
		posted := k.mem.wordAt(r.index).Load()
		if posted-r.taken > r.mask+1 {
			// More than there are slots: nonsense.
			r.taken = posted
			k.failQueue()
			continue
		}
		for n := 0; r.taken != posted; n++ {
			if n == max {
				more = true
				break
			}
			k.session.server.scratch = append(k.session.server.scratch[:0], r.slots[int(r.taken&r.mask)*r.stride:][:r.stride]...)
			index := r.taken
			r.taken++
			*taken++
			r.post(k, k.session.server.scratch, index)
		}
	}
	return more
}

// failQueue takes a queue pair whose process posts nonsense to the error state.
func (k *queue) failQueue() {
	if k.qp == nil {
		k.context.reportEvent(uint32(qp.SRQErr), k.handle)
		return
	}
	if s := k.qp.State(); s != qp.Reset && s != qp.Err {
		_ = k.qp.Modify(qp.Attr{State: qp.Err}, qp.MaskState) // allowed from any state
	}
	k.context.reportEvent(uint32(qp.QPFatal), k.handle)
}

// copyElements copies the scatter/gather elements out of an entry; false if the entry claims more than fit.
func (s *Server) copyElements(b []byte, n uint32, limit int) ([]memory.SGE, bool) {
	if int64(n) > int64(limit) {
		return nil, false
	}
	s.sges = s.sges[:0]
	for i := range int(n) {
		e := b[i*sgeLen:]
		s.sges = append(s.sges, memory.SGE{VA: binary.LittleEndian.Uint64(e), Length: binary.LittleEndian.Uint32(e[8:]), LKey: binary.LittleEndian.Uint32(e[12:])})
	}
	return s.sges, true
}

// postRecv posts an entry of a receive ring.
func (k *queue) postRecv(b []byte, _ uint32) {
	s := k.session.server
	sges, ok := s.copyElements(b[recvLen:], binary.LittleEndian.Uint32(b[4:]), k.recvs.sges)
	cookie := uint64(binary.LittleEndian.Uint32(b))
	var err error
	switch {
	case !ok:
		err = transport.ErrInline
	case k.qp == nil:
		err = k.srq.PostRecv(&qp.RecvWR{ID: cookie, SGL: sges})
	default:
		err = k.qp.PostRecv(&qp.RecvWR{ID: cookie, SGL: sges})
	}
	if err != nil {
		k.failQueue()
	}
}

// operations are those of enum ibv_wr_opcode.
var operations = [...]transport.Op{
	transport.Write, transport.WriteImm, transport.Send, transport.SendImm, transport.Read, transport.CompareSwap,
	transport.FetchAdd, transport.LocalInvalidate, transport.BindWindow, transport.SendInvalidate,
}

// Bits of enum ibv_send_flags.
const (
	flagFence = 1 << iota
	flagSignaled
	flagSolicited
	flagInline
)

// postSend posts an entry of the send ring. An invalid entry fails its queue pair, as with a NIC
// that finds a work request that it cannot read.
func (k *queue) postSend(b []byte, index uint32) {
	wr := &k.session.server.wr
	if !k.decodeEntry(b, index, wr) {
		k.refuseEntry(index)
		return
	}
	if k.qp.PostSend(wr) != nil {
		k.refuseEntry(index)
	}
}

// decodeEntry decodes an entry into a work request; false if it is invalid.
func (k *queue) decodeEntry(b []byte, index uint32, wr *transport.SendWR) bool {
	le := binary.LittleEndian
	opcode, flags := le.Uint32(b), le.Uint32(b[4:])
	sges, inline := le.Uint32(b[52:]), le.Uint32(b[56:])
	if int64(opcode) >= int64(len(operations)) || int64(inline) > int64(len(b)-sendLen) {
		return false
	}
	*wr = transport.SendWR{
		ID: uint64(index), Op: operations[opcode], RemoteVA: le.Uint64(b[8:]), RKey: le.Uint32(b[16:]), Imm: le.Uint32(b[20:]),
		Path: le.Uint32(b[40:]), DestQP: le.Uint32(b[44:]) & 0xffffff, QKey: le.Uint32(b[48:]), SRQ: le.Uint32(b[60:]) & 0xffffff,
	}
	for _, f := range [...]struct {
		bit  uint32
		flag transport.Flags
	}{{flagFence, transport.Fence}, {flagSignaled, transport.Signaled}, {flagSolicited, transport.Solicited}} {
		if flags&f.bit != 0 {
			wr.Flags |= f.flag
		}
	}
	if flags&flagInline != 0 {
		wr.Inline = b[sendLen:][:inline]
	} else {
		var ok bool
		if wr.SGL, ok = k.session.server.copyElements(b[sendLen:], sges, k.sends.sges); !ok {
			return false
		}
	}
	switch wr.Op {
	case transport.CompareSwap:
		wr.Compare, wr.Swap = le.Uint64(b[24:]), le.Uint64(b[32:])
	case transport.FetchAdd:
		wr.Swap = le.Uint64(b[24:])
	case transport.SendInvalidate, transport.LocalInvalidate:
		wr.RKey = wr.Imm
	case transport.BindWindow:
		access := le.Uint64(b[32:])
		if access > 0xff {
			return false
		}
		wr.Bind = memory.Binding{
			Window: wr.RKey, Tag: uint8(wr.Imm), Region: wr.Path, Addr: wr.RemoteVA, Length: le.Uint64(b[24:]), Access: memory.Access(access),
		}
		wr.SGL = nil
	}
	if k.datagrams {
		return k.resolveAddressHandle(wr)
	}
	return true
}

// resolveAddressHandle finds the address handle of a datagram.
func (k *queue) resolveAddressHandle(wr *transport.SendWR) bool {
	h, err := getObject[pathed](k.session, wr.Path, "address handle")
	if err != nil {
		return false
	}
	wr.Path = h.Path()
	return true
}

// pathed is an address handle.
type pathed interface{ Path() uint32 }

// refuseEntry completes an invalid work request with an error.
func (k *queue) refuseEntry(index uint32) {
	k.sendCQ.cq.Push(cq.Completion{ID: uint64(index), Status: cq.LocQPOpErr, QP: k.qp.Number()}, false)
	k.failQueue()
}
