// Package ndp is NDP (Handley et al., "Re-architecting datacenter networks and stacks for
// low latency and high performance", SIGCOMM 2017): its header, gopacket layer and dissector,
// and the two ends of a connection as pure state machines. A Sender pushes a window at once
// and then sends a packet for each PULL. A Receiver answers each packet, and asks for others
// by a pull.Pacer, which all connections to a host's port share. Both are given the time and
// what comes, and say what leaves and when they want to be woken. They allocate only while
// their rings grow.
//
// # On the wire
//
// NDP has no number of its own. Here it is behind UDP, to Port of those for private use
// (RFC 6335 §6); the source port is 49152 and the path ID. The header has 16 bytes in network
// order, so that a switch that keeps 24 bytes behind the IP header keeps all of it:
//
//	 0  flags
//	 1  service: what of the receiving host the connection is with
//	 2  path ID: of a data packet its own, of ACK and NACK that of the packet that they answer
//	 4  connection number, counted by the sender for each receiver and service
//	 8  sequence number, of packets, modulo 2^32; 0 in a PULL
//	12  pull number: how many packets were pulled so far, modulo 2^32; in a data packet the
//	    highest that the sender has heard
//
// The layout, the flags and pull numbers in ACKs and NACKs are this project's. A packet
// without ACK, NACK and PULL is data; its payload is as long as UDP says.
//
// # What the paper leaves open, and what is remembered of it
//
// The authors' text was not at hand: rules are as remembered where this comment does not say
// that they are this project's. Remembered are the RTO of 1 ms and that a header that was sent
// back is sent again at once only if no PULL is expected. Here that is so if no packet is
// under way and as many PULLs have come as packets were answered. In other cases it waits,
// before new data, for the next PULL.
//
// A receiver keeps which connections of a peer are over, in place of TIME-WAIT: a packet of
// one is acknowledged and delivers nothing, however late it comes. A packet that comes a
// second time is acknowledged and adds no PULL. Once the receiver knows the last packet it
// asks for no more than is missing, and for nothing when all is there.
//
// A timeout is of one packet: it is sent again without a PULL, since none comes for it. It
// doubles while nothing is heard, and after Config.Retries in a row the connection fails. A
// sender that has everything answered and still waits for a PULL, which was lost, sends one
// packet after the same time. A path that has much more NACKs and losses than the others is
// left out for some turns (Config.PathPenalty; the thresholds are this project's).
//
// # Not implemented
//
// Hosts do not restart: connection numbers have no incarnation. There is no congestion
// control beyond pulling for networks with an oversubscribed core, as in the paper.
package ndp
