package memory

import "github.com/weftlab/weft/nicemu/cq"

// Fault is the reason why an access is not allowed; OK if it is.
type Fault uint8

// The faults, in the order of the checks.
const (
	OK          Fault = iota
	BadKey            // no region or window has this key now
	WrongPD           // it is of another protection domain
	WrongQP           // the window is bound to another queue pair
	NoRight           // it does not grant the access
	OutOfBounds       // the bytes are not all within it
	Misaligned        // an atomic is not of 8 bytes at a multiple of 8
	Unmapped          // the host's memory is not there or does not allow the access
	Gone              // the program that owned the memory has ended; its queue pairs are about to
	ListShort         // the scatter/gather list has fewer bytes
	BadBind           // the binding is not allowed
)

var faultNames = [...]string{
	"ok", "bad key", "wrong protection domain", "wrong queue pair", "no right", "out of bounds", "misaligned",
	"unmapped", "gone", "list too short", "bad bind",
}

// String returns a short text.
func (f Fault) String() string { return faultNames[f] }

// Use is the purpose of an access.
type Use uint8

// The uses.
const (
	Local            Use = iota // through a work request's list
	Remote                      // by the peer: READ, WRITE, atomic
	Bind                        // of a window
	LocalInvalidate             // a work request
	RemoteInvalidate            // a SEND with Invalidate
)

// Status returns the completion status that a fault causes at the requester; for RemoteInvalidate
// that of the responder's receive. A responder answers a Remote fault with a NAK, remote access
// error or, if misaligned, invalid request (§9.7.4.1.5, §9.7.5.2; §11.6.2; rdma_rxe's rxe_resp.c);
// Gone is not answered. A failed LocalInvalidate has ConnectX's status; rdma_rxe's is LocQPOpErr.
func (f Fault) Status(u Use) cq.Status {
	switch {
	case f == OK:
		return cq.Success
	case u == Bind || u == LocalInvalidate:
		return cq.MWBindErr // the memory management operation error of §11.6.2
	case u == RemoteInvalidate || u == Remote && f == Misaligned:
		return cq.RemInvReqErr
	case u == Remote:
		return cq.RemAccessErr
	case f == ListShort:
		return cq.LocLenErr
	}
	return cq.LocProtErr
}
