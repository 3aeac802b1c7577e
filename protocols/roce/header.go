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
