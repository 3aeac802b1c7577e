// Package tunnel implements the two ends of an EQDS tunnel (Olteanu et al., NSDI 2022, §5 and
// Appendix A) as pure state machines: a Sender, whose packets wait for credit, and a Receiver,
// which puts them in order and gives credit as its host's pull.Pacer says. A tunnel is
// unidirectional. Both ends are given the time and what arrives, and say what leaves and when
// to wake them. They allocate only while their queues grow.
//
// # Credit
//
// Credit is in bytes: a packet costs its size as a frame. A window of credit, one
// bandwidth-delay product, is between the two ends. The sender says how far the receiver's pull
// number should go (the pull target):
//
//	target = pull number + (min(backlog, window) - credit) / MTU
//
// and rises by what is sent. So the credit at the sender, packets in flight, PULLs in flight
// and what the receiver's list still owes never exceed a window. Since all these numbers are
// cumulative, none of them is lost with a packet: the next packet repeats it. The last one has
// no next. So a sender that waits asks again after a timeout (RTS), and the receiver answers
// with its highest pull number. Credit that a PULL gives beyond what was needed stays with the
// sender.
//
// With the NDP back end the sender has the window at first, and again after it was idle if the
// receiver is not busy; with RTS the receiver has it at first.
//
// # What the paper leaves open
//
// ACK names the last packet that has arrived in order, SACK and NACK name one packet. The
// receiver sets SYN in what it sends until it sees a packet without SYN: then the sender knows.
// If the sender is known to be set up, or was silent for longer than it waits between two
// tries, a repeated SYN packet is a late copy or comes from a sender that has lost its state
// and drawn the same epoch: it is answered with the epoch alone. A sender that is set up
// ignores that answer; one that is not takes a greater epoch. Within the time between two
// tries, a sender that loses its state and draws the same one of 64 epochs loses the packets
// that the receiver takes for copies. An epoch 32 away is greater for the sender but not for
// the receiver, so that one of them moves. A data packet whose number cannot belong to this
// incarnation is answered with RST, as by a closed receiver. One that may be a late packet of
// the previous incarnation gets no answer: neither its pull target nor the pull numbers of
// answers to it belong to this incarnation.
//
// Retransmissions need credit like everything else and are sent first. Nothing new is sent
// while a window lies between the first unacknowledged packet and the last one sent, which
// bounds the receiver's reorder queue; a packet that does not fit there is refused with a NACK.
//
// # Peers that lie
//
// A sender that asks for credit and does not use it is held back, for longer each time; by then
// it has been given a window, in its own turns. RTS are answered at most twice in a timeout.
// While the link is busy, packets that exceed the given credit by more than a window are
// refused. A receiver cannot give more than was asked for: pull numbers beyond the target are
// ignored. A receiver that makes a sender start over again and again is sent one unrequested
// window per timeout. A Table bounds the number of tunnels of a peer.
package tunnel
