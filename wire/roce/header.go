package roce

// Port is the UDP destination port of RoCEv2.
const Port = 4791

// PSNMask masks the 24 bits of a packet sequence number.
const PSNMask = 1<<24 - 1

// BTH is the base transport header, 12 bytes (IBTA §9.2). Its version is 0.
type BTH struct {
	Opcode    Opcode
	Solicited bool
	MigReq    bool
	Pad       uint8 // bytes after the payload, up to a multiple of 4
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
	Swap    uint64 // or the number to add
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

// SendETH is the header that IRN adds to SENDs, 8 bytes: see SelETH.
type SendETH struct {
	Receive uint32 // number of the receive request that it consumes, 24 bits
	Packet  uint32 // index of the packet in its message, 24 bits
}

// SelETH is a second PSN in packets of IRN, 4 bytes.
//
// IRN (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018) is a reliable
// connection whose responder keeps packets that arrive out of order. The paper gives no wire
// format. This one uses the opcodes that IBTA §9.2.1 leaves to manufacturers, 0xc0 to 0xff:
// 0xc0 plus the operation of RC. So a NIC that only knows RC does not misread them. Differences
// from RC:
//
//   - Every packet of a WRITE has a RETH (§5.3 of the paper). Its VA is the address for the
//     payload of this packet, its length the rest of the message from there on.
//   - Every packet of a SEND has a SendETH before the payload, after immediate data or the key
//     to invalidate.
//   - An ACK acknowledges all packets up to its PSN. A NACK, operation 0x18, has the expected
//     PSN in its BTH, an AETH with syndrome 0x60, and in a SelETH the PSN of the packet that
//     arrived out of order and was kept (§3.1 of the paper).
//   - A READ request takes one PSN, as an atomic does, and is acknowledged like any request.
//     Responses have separate PSNs (§5.4 of the paper). The requester assigns them to READs and
//     atomics in order, one for each packet of the response, so that it knows where a response
//     belongs. The SelETH of a request has the first PSN of its response.
//   - The requester answers each response with a READ ACK, operation 0x19. Its BTH has the PSN
//     of the response that the requester expects. Its SelETH has the PSN of the response that
//     arrived: after the expected one if that was out of order and kept (a NACK), otherwise
//     before it.
//   - The MigReq bit of a request, which RoCE does not use, asks the responder not to place the
//     payload before all earlier packets have arrived.
//   - A responder that gets a request of the other kind, RC or IRN, refuses it as an invalid
//     request, in the requester's opcodes, and sets MigReq to give that reason.
type SelETH struct {
	PSN uint32 // 24 bits
}
