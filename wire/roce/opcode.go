// Package roce holds the wire formats of RoCEv2: InfiniBand's transport headers
// in UDP (IBTA specification volume 1, chapters 9 and A17), one small file each.
package roce

// Opcode is the first byte of a BTH: a transport service in its three high bits
// and an operation in the others (IBTA §9.2.1).
type Opcode uint8

// Service is the transport service of an opcode.
type Service uint8

// The services, as encoded in the three high bits.
const (
	RC  Service = 0 // reliable connection
	UC  Service = 1 // unreliable connection
	UD  Service = 3 // unreliable datagram
	CNP Service = 4 // congestion notification, in RoCEv2 only (A17.9.3)
	XRC Service = 5 // extended reliable connection (annex A14)
	IRN Service = 6 // reliable connection with loss recovery of IRN: see SelETH
)

// The operations of the low five bits.
const (
	SendFirst Opcode = iota
	SendMiddle
	SendLast
	SendLastImm
	SendOnly
	SendOnlyImm
	WriteFirst
	WriteMiddle
	WriteLast
	WriteLastImm
	WriteOnly
	WriteOnlyImm
	ReadRequest
	ReadFirst // of a READ response
	ReadMiddle
	ReadLast
	ReadOnly
	Ack
	AtomicAck
	CompareSwap
	FetchAdd
	_
	SendLastInv // with invalidate
	SendOnlyInv
	Nack    // IRN only
	ReadAck // IRN only
)

// NotifyCongestion is the opcode of a CNP: 0x81.
const NotifyCongestion Opcode = 0x81

// WithOperation returns the opcode of an operation of a service.
func (s Service) WithOperation(operation Opcode) Opcode { return Opcode(s)<<5 | operation }

// Service returns the transport service.
func (o Opcode) Service() Service { return Service(o >> 5) }

// Operation returns the operation, without the service.
func (o Opcode) Operation() Opcode { return o & 0x1f }
