// Package cmnic is a connection manager as a state machine: it sets up and ends
// connections of RC and UC queue pairs and resolves services of datagrams, by
// messages on queue pair 1 (IBTA specification volume 1, chapter 12, and annex
// A11 for IP addresses and ports). One CM serves both sides of all connections
// of a channel adapter.
//
// Inputs are methods that take the current time `now`: requests of the consumer (Connect, Accept,
// Confirm, Reject, ProlongTimeout, Disconnect, Destroy, Resolve, Answer), datagrams (Receive) and the
// passing of time (Advance, by NextWork at the latest). Time must not decrease. Outputs accumulate until
// Take: messages to send and events for the consumer. There is no goroutine, clock or socket, and
// nothing is random.
//
// A connection of the active side:
//
//	Connect -> REQ ... REP -> Replied; Confirm -> RTU: established
//
// of the passive side:
//
//	REQ -> Requested; Accept -> REP ... RTU, or first data -> Connected
//
// and the end on either:
//
//	Disconnect -> DREQ ... DREP -> Disconnected ... TimeWaitExit
//	DREQ -> DisconnectRequested; Disconnect -> DREP ... TimeWaitExit
//
// The CM does not touch queue pairs. It hands over Attributes to modify them
// with: the consumer brings its queue pair to RTR before it lets the REP or the
// RTU out, so messages are to be sent after the consumer has done its work.
//
// Where the specification leaves room the CM behaves like Linux (drivers/infiniband/ core/cm.c and
// cma.c), with these differences: a repeated REQ is answered with the REP at once; DREQs that cross
// end the connection without the consumer; a side that refuses or gives up remembers it for as long
// as the other may repeat its message, so that a consumer never sees a request twice; a REP for a
// connection that does not exist is answered with a REJ.
//
// Not implemented: RD and XRC, alternate paths (refused by an APR), peer-to-peer
// connection, redirection.
package cmnic
