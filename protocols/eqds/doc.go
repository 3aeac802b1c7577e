// Package eqds is the wire format of EQDS (Olteanu et al., "An edge-queued datagram service
// for all datacenter traffic", NSDI 2022): the headers of Fig. 4 behind UDP, flags and
// epochs, layers for gopacket and a dissector for Wireshark. Package tunnel has the state
// machines of Appendix A, package pull the pacer of a receiving host, package eqif the
// queues of sending hosts.
//
// The text of the paper names the fields of Fig. 4 and not their widths. Here both headers
// have 8 bytes, in network order. A data packet's:
//
//	0  flags
//	1  next protocol, an IP protocol number: what is behind the header
//	2  sequence number, of packets, modulo 65536
//	4  pull target, in MTUs, modulo 65536
//	6  path ID
//	7  sender ID: which of the EQIFs of a host sends
//
// A control packet's:
//
//	0  flags
//	1  pull sender ID: the sender ID of the tunnel that the packet is about
//	2  acknowledgement number: of a packet
//	4  pull number, in MTUs, modulo 65536
//	6  busy time, in microseconds, as far as 16 bits go
//
// The paper says that in SYN packets the upper bits of the sequence number are the epoch
// and that the lowest ten are 0 in the first: so epochs have 6 bits, and are compared modulo
// 64 (Epoch.After). Bits of the flags, the unit of the busy time and the UDP port are this
// project's. So is what a control packet with SYN and none of ACK, NACK and SACK says: its
// acknowledgement number has the epoch of the receiver and names no packet.
//
// TSO's gaps in the sequence space (§7) are not implemented: every packet has its own
// header.
package eqds
