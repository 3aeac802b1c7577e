package packet

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/wire"
)

// FlowKey identifies the flow of a packet in tables of flows. The UDP source port of
// RoCEv2 has 14 bits, so queue pairs share it: the destination queue pair
// distinguishes them.
type FlowKey struct {
	From, To         netip.Addr // zero for packets of modelled flows and for packets other than IP
	Proto            uint8
	SrcPort, DstPort uint16 // of TCP and UDP; 0 for others and for fragments
	QP               uint32 // destination queue pair of RoCEv2, 0 for others
	Flow             int32  // number of a modelled flow; -1 for others
}

// FlowKey returns the key of the packet's flow. roce is the UDP destination port of
// packets with a BTH (roce.Port): packets of real programs and guests are inspected.
func (p *Packet) FlowKey(roce uint16) FlowKey {
	k := FlowKey{Proto: p.Proto, SrcPort: p.SrcPort, DstPort: p.DstPort, Flow: -1}
	switch {
	case p.Kind == Modelled:
		k.Flow = p.Flow
	case p.Kind == NIC:
		k.From, k.To, k.QP = p.RoCE.From, p.RoCE.To, p.RoCE.BTH.DestQP
	case p.Kind == Protocol:
		k.From, k.To = p.Message.From, p.Message.To
	case p.Version != 0:
		k.readAddresses(p.Ethernet()[p.L3:], p, roce)
	}
	return k
}

// readAddresses reads the addresses, and the queue pair of a guest's RoCEv2, from an IP packet.
func (k *FlowKey) readAddresses(ip []byte, p *Packet, roce uint16) {
	if p.Version == 4 {
		k.From, k.To = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	} else {
		k.From, k.To = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
	}
	const destQP = 4 // in the BTH
	at := wire.IPv6Header + wire.UDPHeader + destQP
	if p.Version == 4 {
		at = int(ip[0]&15)*4 + wire.UDPHeader + destQP
	}
	if p.Proto == wire.ProtoUDP && p.DstPort == roce && len(ip) >= at+4 {
		k.QP = binary.BigEndian.Uint32(ip[at:]) & 0xffffff
	}
}
