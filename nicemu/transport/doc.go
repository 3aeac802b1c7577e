// Package transport is the transport of an RDMA NIC: the requester, responder
// and completer of one queue pair of type RC, UC or UD (IBTA specification
// volume 1, chapter 9), as RoCEv2 carries it.
//
// A QP is a state machine. Its inputs are work requests (PostSend, PostRecv),
// packets (Receive), the passing of time (Deadline, Expire) and changes of state
// (Modify). Its outputs are completions and events, handed to the queues of its
// Config while an input is handled, and packets, which it makes only when it
// is asked to: Offer says how long the next one is, Next makes it. So pacing,
// windows, PFC and scheduling among queue pairs are decided outside, at the
// moment of sending. It has no goroutine, clock, socket or log, and it is not
// safe for concurrent use.
//
// Packets are roce.Packets. Their payload is real bytes or only a length, as the
// Memory of the queue pair has it.
//
// Loss recovery is behind a seam (Recovery): go-back-N, and IRN, whose responder keeps
// packets out of order (kept.go), whose responses to READs and atomics are sent by a
// window of their own (answers.go, brought.go), and whose packets have opcodes of their own. Rate
// control is not here, but a Feedback is told what it needs: what was sent, what was
// acknowledged, round trips.
//
// Not implemented: RD and XRC services, end-to-end credits
// (every ACK says that they are not limited, and what the peer says is not looked at),
// automatic path migration (MigReq of RC is always 0), fast registration, P_Key and
// address checks, which are the NIC's. Windows that a queue pair has bound stay bound when it is
// reset or destroyed: that is memory.Table.UnbindQP's business.
//
// Errors wrap the errno that the verb returns.
package transport
