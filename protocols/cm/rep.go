package cm

import "encoding/binary"

// REPPrivateLen is the length of a REP's private data in bytes.
const REPPrivateLen = 196

// Failover says whether a REP takes the alternate path of its REQ (IBTA §12.7).
type Failover uint8

// What a REP says about the alternate path.
const (
	FailoverAccepted     Failover = 0
	FailoverNotSupported Failover = 1
	FailoverRejected     Failover = 2 // supported, but not this path
)

// REP accepts a REQ (IBTA §12.6.8).
type REP struct {
	LocalID            CommID
	RemoteID           CommID
	QKey               uint32  // of RD only
	QPN                uint32  // the sender's, 24 bits
	LocalEECN          uint32  // of RD only, 24 bits
	StartPSN           uint32  // of the first packet that the other side sends, 24 bits
	ResponderResources uint8   // concurrent READs and atomics that the sender accepts
	InitiatorDepth     uint8   // concurrent READs and atomics that the sender will send
	ACKDelay           Timeout // the longest that the sender takes to acknowledge a packet
	Failover           Failover
	FlowControl        bool  // the sender respects end-to-end credits
	RNRRetryCount      uint8 // 3 bits; 7 is RNRForever
	SRQ                bool  // the sender's queue pair has a shared receive queue
	CAGUID             uint64
	PrivateData        [REPPrivateLen]byte
}

// Attribute is AttributeREP.
func (*REP) Attribute() Attribute { return AttributeREP }

// Decode implements Message.
func (m *REP) Decode(b []byte) error {
	b, err := messageBytes(b)
	if err != nil {
		return err
	}
	*m = REP{
		LocalID:            CommID(binary.BigEndian.Uint32(b)),
		RemoteID:           CommID(binary.BigEndian.Uint32(b[4:])),
		QKey:               binary.BigEndian.Uint32(b[8:]),
		QPN:                uint24(b[12:]),
		LocalEECN:          uint24(b[16:]),
		StartPSN:           uint24(b[20:]),
		ResponderResources: b[24],
		InitiatorDepth:     b[25],
		ACKDelay:           Timeout(b[26] >> 3),
		Failover:           Failover(b[26] >> 1 & 3),
		FlowControl:        b[26]&1 != 0,
		RNRRetryCount:      b[27] >> 5,
		SRQ:                b[27]&0x10 != 0,
		CAGUID:             binary.BigEndian.Uint64(b[28:]),
		PrivateData:        [REPPrivateLen]byte(b[36:]),
	}
	return nil
}

// EncodeTo implements Message.
func (m *REP) EncodeTo(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint32(b, uint32(m.LocalID))
	binary.BigEndian.PutUint32(b[4:], uint32(m.RemoteID))
	binary.BigEndian.PutUint32(b[8:], m.QKey)
	putUint24(b[12:], m.QPN)
	putUint24(b[16:], m.LocalEECN)
	putUint24(b[20:], m.StartPSN)
	b[24], b[25] = m.ResponderResources, m.InitiatorDepth
	b[26] = byte(m.ACKDelay)<<3 | byte(m.Failover)&3<<1 | bitIf(m.FlowControl, 1)
	b[27] = m.RNRRetryCount<<5 | bitIf(m.SRQ, 0x10)
	binary.BigEndian.PutUint64(b[28:], m.CAGUID)
	copy(b[36:], m.PrivateData[:])
}
