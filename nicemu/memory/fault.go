package memory

import "github.com/weftlab/weft/nicemu/cq"

// Fault is why an access is not allowed; OK if it is.
type Fault uint8

// The faults, in the order in which they are looked for.
const (
	OK          Fault = iota
	BadKey            // no region or window has this key now
	WrongPD           // it is of another protection domain
	WrongQP           // the window is bound to another queue pair
	NoRight           // it does not grant the access
	OutOfBounds       // the bytes are not all within it
	Misaligned        // an atomic is not of 8 bytes at a multiple of 8
	Unmapped          // the host's memory is not there or may not be used so
	Gone              // the program whose memory it was has ended; its queue pairs are about to
	ListShort         // the scatter/gather list has fewer bytes
	BadBind           // a window cannot be bound so
)

var faultNames = [...]string{
	"ok", "bad key", "wrong protection domain", "wrong queue pair", "no right", "out of bounds", "misaligned",
	"unmapped", "gone", "list too short", "bad bind",
}

// String is a short text.
func (f Fault) String() string { return faultNames[f] }

// Use is what an access was for.
type Use uint8

// The uses.
const (
	Local            Use = iota // of a work request's own list
	Remote                      // by the peer: READ, WRITE, atomic
	Bind                        // of a window
	LocalInvalidate             // a work request
	RemoteInvalidate            // a SEND with Invalidate
)

// Status is the completion status that a fault leads to at the requester; of
// RemoteInvalidate that of the responder's receive. At a responder a Remote
// fault is answered by a NAK, remote access error or, if misaligned, invalid
// request (§9.7.4.1.5, §9.7.5.2; §11.6.2; rdma_rxe's rxe_resp.c and rxe_req.c);
// Gone is not answered.
func (f Fault) Status(u Use) cq.Status {
	switch {
	case f == OK:
		return cq.Success
	case u == Bind:
		return cq.MWBindErr
	case u == LocalInvalidate:
		return cq.LocQPOpErr
	case u == RemoteInvalidate || u == Remote && f == Misaligned:
		return cq.RemInvReqErr
	case u == Remote:
		return cq.RemAccessErr
	case f == ListShort:
		return cq.LocLenErr
	}
	return cq.LocProtErr
}
