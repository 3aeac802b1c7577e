package wire

import "encoding/binary"

// CreditFrame is the length of a credit frame, without FCS.
const CreditFrame = EthernetMin

const (
	// opcodeExtension is the opcode of organization-specific extensions (IEEE 802.3 annex
	// 31C).
	opcodeExtension = 0xfffe
	// creditCID is the company ID in credit frames. It has the form of a company ID but is
	// not registered.
	creditCID = 0x7a57ef
	// creditType distinguishes credit frames from other types that may later use the same ID.
	creditType = 1

	creditClasses  = EthernetHeader + 6
	creditCounters = EthernetHeader + 8
)

// Credits is the content of a credit frame about the classes of a link. InfiniBand's flow
// control packets (IBTA volume 1, §7.9.4) have the same fields with 12 bits, for one virtual
// lane each. The frame is a MAC control frame, so it ends at the next port. It has the group
// address of MAC control and EtherType 0x8808, followed by, in network order,
//
//	0   2 B  opcode 0xfffe, an organization-specific extension
//	2   3 B  7a-57-ef
//	5   1 B  type, 1
//	6   1 B  classes of which FCTBS is said, a bit each
//	7   1 B  classes of which FCCL is said, a bit each
//	8  32 B  FCTBS and FCCL of classes 0 to 7, 2 B each; 0 where not said
type Credits struct {
	Sends  uint8     // classes whose Sent is present, one bit each; the peer answers with Limit
	Grants uint8     // classes whose Limit is present
	Sent   [8]uint16 // FCTBS: blocks of 64 B sent since the link came up, modulo 1<<16
	Limit  [8]uint16 // FCCL: blocks up to which the peer may send
}

// PutFrame writes the frame into b, CreditFrame bytes.
func (c *Credits) PutFrame(b []byte, from MAC) {
	clear(b[:CreditFrame])
	MACControlGroup.EncodeTo(b)
	from.EncodeTo(b[6:])
	binary.BigEndian.PutUint16(b[12:], EtherTypeMACControl)
	binary.BigEndian.PutUint16(b[14:], opcodeExtension)
	binary.BigEndian.PutUint32(b[16:], creditCID<<8|creditType)
	b[creditClasses], b[creditClasses+1] = c.Sends, c.Grants
	for i := range 8 {
		if c.Sends>>i&1 != 0 {
			binary.BigEndian.PutUint16(b[creditCounters+4*i:], c.Sent[i])
		}
		if c.Grants>>i&1 != 0 {
			binary.BigEndian.PutUint16(b[creditCounters+4*i+2:], c.Limit[i])
		}
	}
}

// ParseCredits reads a frame. It returns false if the frame is not a credit frame or is
// truncated.
func ParseCredits(b []byte) (c Credits, ok bool) {
	if len(b) < creditCounters+32 || binary.BigEndian.Uint16(b[12:]) != EtherTypeMACControl ||
		binary.BigEndian.Uint16(b[14:]) != opcodeExtension || binary.BigEndian.Uint32(b[16:]) != creditCID<<8|creditType {
		return c, false
	}
	c.Sends, c.Grants = b[creditClasses], b[creditClasses+1]
	for i := range 8 {
		if c.Sends>>i&1 != 0 {
			c.Sent[i] = binary.BigEndian.Uint16(b[creditCounters+4*i:])
		}
		if c.Grants>>i&1 != 0 {
			c.Limit[i] = binary.BigEndian.Uint16(b[creditCounters+4*i+2:])
		}
	}
	return c, true
}
