// Package eqds implements the wire format of EQDS (Olteanu et al., "An edge-queued datagram
// service for all datacenter traffic", NSDI 2022): the headers of Fig. 4 behind UDP, flags and
// epochs, layers for gopacket and a dissector for Wireshark. Package tunnel has the state
// machines of Appendix A, package pull the pacer of a receiving host, package eqif the queues
// of sending hosts.
//
// The text of the paper names the fields of Fig. 4 but not their widths. Here both headers have
// 8 bytes, in network order. The header of a data packet:
//
//	0  flags
//	1  next protocol, an IP protocol number: what follows the header
//	2  sequence number, of packets, modulo 65536
//	4  pull target, in MTUs, modulo 65536
//	6  path ID
//	7  sender ID: the EQIF of the host that sends
//
// The header of a control packet:
//
//	0  flags
//	1  pull sender ID: the sender ID of the tunnel that the packet is about
//	2  acknowledgement number: the number of a packet
//	4  pull number, in MTUs, modulo 65536
//	6  busy time, in microseconds, limited to 16 bits
//
// The paper says that in SYN packets the upper bits of the sequence number are the epoch and
// that the lowest ten are 0 in the first packet. So epochs have 6 bits, and are compared modulo
// 64 (Epoch.After). The bits of the flags, the unit of the busy time and the UDP port are this
// project's. So is the meaning of a control packet with SYN and none of ACK, NACK and SACK: its
// acknowledgement number has the epoch of the receiver and names no packet.
//
// TSO's gaps in the sequence space (§7) are not implemented: every packet has its own
// header.
package eqds
