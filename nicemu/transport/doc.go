// Package transport is the transport of an RDMA NIC: the requester, responder
// and completer of one queue pair of type RC, UC, UD or XRC (IBTA specification
// volume 1, chapter 9), as RoCEv2 carries it.
//
// A QP is a state machine. Its inputs are work requests (PostSend, PostRecv), packets (Receive),
// the passing of time (Deadline, DoDueWork) and changes of state (Modify). Its outputs are completions
// and events, handed to the queues of its Config while an input is handled, and packets, which it
// makes only on request: Offer returns the length of the next one, Next makes it. So pacing,
// windows, PFC and scheduling among queue pairs are decided outside, at the moment of sending. It
// has no goroutine, clock, socket or log, and it is not safe for concurrent use.
//
// Packets are roce.Packets. Their payload is real bytes or only a length, depending on the Memory
// of the queue pair.
//
// Loss recovery is behind an interface (Recovery): go-back-N, and IRN, whose responder keeps
// packets out of order (reorder.go), whose responses to READs and atomics have a separate window
// (answers.go, responses.go), and whose packets have separate opcodes. Rate control is not part of
// the package, but a Feedback gets its inputs: packets sent and acknowledged, and round trips.
//
// XRC (annex A14) is RC whose ends are of two kinds: initiators send requests, and targets take them.
// Each request names a shared receive queue (Domain), which decides about its memory, its receive
// request and the completion queue.
//
// Not implemented: the RD service, end-to-end credits (every ACK says that they are not
// limited, and the peer's value is ignored), automatic path migration (MigReq of RC is always 0),
// fast registration, P_Key and address checks, which are the NIC's. Windows that a queue pair has
// bound stay bound when it is reset or destroyed: memory.Table.UnbindQP handles that.
//
// Errors wrap the errno that the verb returns.
package transport
