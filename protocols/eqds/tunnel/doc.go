// Package tunnel has the two ends of an EQDS tunnel (Olteanu et al., NSDI 2022, §5 and
// Appendix A) as pure state machines: a Sender, whose packets wait for credit, and a
// Receiver, which puts them in order and gives the credit as its host's pull.Pacer says. A
// tunnel goes one way. Both are given the time and what comes, and say what leaves and when
// they want to be woken. They allocate only while their queues grow.
//
// # Credit
//
// Credit is in bytes: a packet costs its size as a frame. A window of it, one
// bandwidth-delay product, is between the two ends. The sender says how far the receiver's
// pull number is to go (the pull target):
//
//	target = pull number + (min(backlog, window) - credit) / MTU
//
// and rises by what is sent. So credit at the sender, packets on their way, PULLs on their
// way and what the receiver's list still owes never are more than a window, and since all
// these numbers are cumulative, none of them is lost with a packet: the next one tells it
// again. The last one has no next. So a sender that waits asks again after a timeout (RTS),
// and the receiver answers with its highest pull number. What a PULL gives beyond what was
// needed stays with the sender.
//
// With the NDP back end the window begins at the sender, and again after it was idle, when
// the receiver is not busy; with RTS it begins at the receiver.
//
// # What the paper leaves open
//
// ACK names the last packet of all that have come in order, SACK and NACK one packet. The
// receiver sets SYN in what it sends until it sees a packet without: then the sender knows.
// A SYN packet that had come before is of a sender that has forgotten and drawn the same
// epoch, or a late copy, if the sender is known to be set up or was silent for longer than
// it waits between two tries: it is answered with the epoch alone. A sender that is set up
// ignores that, one that is not takes a greater epoch. Within that time a sender that
// forgets and draws the same one of 64 loses what the receiver takes for copies. An epoch 32 away is greater
// for the sender and not for the receiver, so that one of them moves. A data packet whose
// number cannot be of this incarnation is answered with RST, as by a receiver that is
// closed. One that may be a late one of the incarnation before gets no answer: neither its pull
// target nor the pull numbers of answers to it are those of this one.
//
// Retransmissions need credit like all else and come first. Nothing new is sent while a
// window is between the first packet that is not acknowledged and the last one sent, which
// bounds the receiver's reorder queue; a packet that does not fit there is refused with a
// NACK.
//
// # Peers that lie
//
// A sender that asks for credit and does not use it is held back, for longer each time; it
// has had a window by then, of its own turns. RTS are answered at most twice in a timeout.
// While the link is busy, packets beyond a window more than the credit that was given are
// refused. A receiver gives no more than was asked for: pull numbers beyond the target are
// ignored. One that makes a sender start over again and again is sent one window unasked
// in a timeout. A Table bounds how many tunnels a peer has.
package tunnel
