package roguenic

import (
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/protocols/rogue"
)

// request is a work request of a program.
type request struct {
	wr     nicemu.SendWR
	length uint32
	posted uint32 // of length, in verbs
}

// verb is a work request posted to the NIC.
type verb struct {
	request  *request
	from, n  uint32 // its range of bytes
	dir      int8
	last     bool // of the request
	signaled bool
	closes   bool   // a batch
	batch    uint32 // over UC: the number of the batch that it closes
	wire     int64  // bytes on the wire
}

// Directions of data; each has its window (§3.4).
const (
	out = 0 // WRITEs and SENDs
	in  = 1 // READs and atomics
)

// dirOf returns the direction of an operation's data.
func dirOf(wr *nicemu.SendWR) int8 {
	switch wr.Op {
	case nicemu.OpRead, nicemu.OpCompareSwap, nicemu.OpFetchAdd:
		return in
	}
	return out
}

// canDivide reports whether an operation can be cut.
func canDivide(c *rogue.Config, wr *nicemu.SendWR) bool {
	switch wr.Op {
	case nicemu.OpWriteImm:
		return c.CutImmediate && len(wr.Inline) == 0
	case nicemu.OpWrite, nicemu.OpRead:
		return len(wr.Inline) == 0
	}
	return false
}

// consumesReceive reports whether an operation takes a receive of the peer.
func consumesReceive(wr *nicemu.SendWR) bool {
	switch wr.Op {
	case nicemu.OpSend, nicemu.OpSendImm, nicemu.OpSendInvalidate, nicemu.OpWriteImm:
		return true
	}
	return false
}

// isAtomic reports whether an operation must not be done twice.
func isAtomic(wr *nicemu.SendWR) bool {
	return wr.Op == nicemu.OpCompareSwap || wr.Op == nicemu.OpFetchAdd
}

// completionOpcode returns the opcode of an operation's completion.
func completionOpcode(wr *nicemu.SendWR) cq.Opcode {
	switch wr.Op {
	case nicemu.OpWrite, nicemu.OpWriteImm:
		return cq.Write
	case nicemu.OpRead:
		return cq.Read
	case nicemu.OpCompareSwap:
		return cq.CompSwap
	case nicemu.OpFetchAdd:
		return cq.FetchAdd
	case nicemu.OpBindWindow:
		return cq.BindMW
	case nicemu.OpLocalInvalidate:
		return cq.LocalInv
	}
	return cq.Send
}

// copyOf copies a lent work request into a reused request.
func (r *request) copyOf(wr *nicemu.SendWR) {
	sgl, inline := append(r.wr.SGL[:0], wr.SGL...), append(r.wr.Inline[:0], wr.Inline...)
	*r = request{wr: *wr}
	r.wr.SGL, r.wr.Inline = sgl, inline
	r.length = uint32(memory.ListLength(sgl)) + uint32(len(inline))
}

// makePart makes the work request for a part of a request. It appends the elements to list.
func (r *request) makePart(wr *nicemu.SendWR, list []nicemu.SGE, from, n uint32, last bool) []nicemu.SGE {
	*wr = r.wr
	if from == 0 && last {
		return list
	}
	skip, left := from, n
	for _, e := range r.wr.SGL {
		if skip >= e.Length {
			skip -= e.Length
			continue
		}
		k := min(e.Length-skip, left)
		if k > 0 {
			list = append(list, nicemu.SGE{VA: e.VA + uint64(skip), Length: k, LKey: e.LKey})
		}
		left, skip = left-k, 0
	}
	wr.RemoteVA += uint64(from)
	if from > 0 {
		wr.Flags &^= nicemu.Fence
	}
	if !last {
		wr.Flags &^= nicemu.Solicited | nicemu.Signaled
		if wr.Op == nicemu.OpWriteImm {
			wr.Op = nicemu.OpWrite
		}
	}
	return list
}
