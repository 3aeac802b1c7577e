package roce

// Port is the UDP destination port of RoCEv2.
const Port = 4791

// PSNMask is what a packet sequence number is counted in: 24 bits.
const PSNMask = 1<<24 - 1

// BTH is the base transport header, 12 bytes (IBTA §9.2). Its version is 0.
type BTH struct {
	Opcode    Opcode
	Solicited bool
	MigReq    bool
	Pad       uint8 // bytes behind the payload, to a multiple of 4
	PKey      uint16
	FECN      bool
	BECN      bool
	DestQP    uint32 // 24 bits
	AckReq    bool
	PSN       uint32 // 24 bits
}

// RETH is the RDMA extended transport header, 16 bytes (§9.3.3).
type RETH struct {
	VA     uint64
	RKey   uint32
	Length uint32
}

// AtomicETH is the atomic extended transport header, 28 bytes (§9.3.4).
type AtomicETH struct {
	VA      uint64
	RKey    uint32
	Swap    uint64 // or what is added
	Compare uint64
}

// AETH is the acknowledge extended transport header, 4 bytes (§9.3.5).
type AETH struct {
	Syndrome uint8
	MSN      uint32 // 24 bits
}

// DETH is the datagram extended transport header, 8 bytes (§9.3.2).
type DETH struct {
	QKey     uint32
	SourceQP uint32 // 24 bits
}

// SendETH is what IRN adds to SENDs, 8 bytes: see SelETH.
type SendETH struct {
	Receive uint32 // number of the receive request that it takes, 24 bits
	Packet  uint32 // place of the packet in its message, 24 bits
}

// SelETH is a second PSN in packets of IRN, 4 bytes.
//
// IRN (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018) is a reliable
// connection whose responder keeps packets that come out of order. The paper gives no
// wire format. This one is of the opcodes that IBTA §9.2.1 leaves to manufacturers, 0xc0
// to 0xff: 0xc0 plus the operation of RC, so a NIC that knows RC alone does not misread
// them. They differ from RC in this:
//
//   - Every packet of a WRITE has a RETH (§5.3 of the paper). Its VA is where the payload
//     of this packet goes, its length what is left of the message from there on.
//   - Every packet of a SEND has a SendETH in front of the payload, behind immediate data
//     or the key to invalidate.
//   - An ACK acknowledges all packets up to its PSN. A NACK, operation 0x18, has the PSN
//     that is expected in its BTH, an AETH with syndrome 0x60, and in a SelETH the PSN of
//     the packet that came out of order and was kept (§3.1 of the paper).
//   - A READ request takes one PSN, as an atomic does, and is acknowledged as they all are.
//     Responses have PSNs of their own (§5.4 of the paper), which the requester gives to
//     READs and atomics in order, as many to each as its response has packets; so it knows
//     where a response belongs. The request says in a SelETH with which its response begins.
//   - The requester answers each response with a READ ACK, operation 0x19. That has the PSN of the response that
//     it expects in its BTH, and in a SelETH the PSN of the one that has come: behind it, if
//     that was out of order and kept (a NACK), or in front.
//   - The MigReq bit of a request, of which RoCE has no use, asks the responder not to
//     place the payload before all packets in front of this one have come.
//   - Who gets a request of the other kind, RC or IRN, refuses it in the requester's
//     opcodes, as an invalid request, and sets MigReq to say that this is the reason.
type SelETH struct {
	PSN uint32 // 24 bits
}
