// Package ndp implements NDP (Handley et al., "Re-architecting datacenter networks and stacks
// for low latency and high performance", SIGCOMM 2017): its header, gopacket layer and
// dissector, and the two ends of a connection as pure state machines. A Sender pushes a window
// at once and then sends a packet for each PULL. A Receiver answers each packet, and asks for
// more through a pull.Pacer, which all connections to a host's port share. Both are given the
// time and what arrives, and say what leaves and when to wake them. They allocate only while
// their rings grow.
//
// # On the wire
//
// NDP has no protocol number. Here it is carried by UDP, to Port from the range for private use
// (RFC 6335 §6); the source port is 49152 plus the path ID. The header has 16 bytes in network
// order, so that a switch that keeps 24 bytes after the IP header keeps all of it:
//
//	 0  flags
//	 1  service of the receiving host that the connection is with
//	 2  path ID: a data packet's own, in ACK and NACK that of the packet that they answer
//	 4  connection number, counted by the sender for each receiver and service
//	 8  sequence number, of packets, modulo 2^32; 0 in a PULL
//	12  pull number: how many packets were pulled so far, modulo 2^32; in a data packet the
//	    highest that the sender has received
//
// The layout, the flags and pull numbers in ACKs and NACKs are this project's. A packet without
// ACK, NACK and PULL is data; UDP gives the length of its payload.
//
// # What the paper leaves open, and what is from memory
//
// The authors' text was not at hand: rules are from memory unless this comment says that they
// are this project's. From memory are the RTO of 1 ms, and that a packet whose header was sent
// back is sent again at once only if no PULL is expected. Here no PULL is expected if no packet
// is in flight and as many PULLs have arrived as packets were answered. Otherwise the packet
// waits for the next PULL, ahead of new data.
//
// Instead of TIME-WAIT, a receiver remembers which connections of a peer are over: a packet of
// such a connection is acknowledged and delivers nothing, however late it arrives. A packet
// that arrives a second time is acknowledged and adds no PULL. Once the receiver knows the last
// packet it asks for no more than is missing, and for nothing when everything has arrived.
//
// A timeout concerns one packet: it is sent again without a PULL, since none comes for it. The
// timeout doubles while nothing is heard, and after more than Config.Retries in a row the
// connection fails. If all packets of a sender are answered and it still waits for a PULL,
// which was lost, it sends one packet after the same time. A path that has many more NACKs and
// losses than the others is left out for some turns (Config.PathPenalty; the thresholds are
// this project's).
//
// # Not implemented
//
// Hosts do not restart: connection numbers have no incarnation. There is no congestion
// control beyond pulling for networks with an oversubscribed core, as in the paper.
package ndp
