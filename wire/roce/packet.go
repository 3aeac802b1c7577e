package roce

import "encoding/binary"

// Packet is the UDP payload of a RoCEv2 packet.
//
// The payload is Length bytes, without the pad. A packet whose bytes are not modelled
// only has Length, and its Payload is empty. Put writes Payload and then zeros up to
// Length, so that a capture of modelled packets has whole frames. If Payload is longer
// than Length, its length counts: Put does not need Length for a packet with bytes.
type Packet struct {
	BTH        BTH
	Extensions Extension // set by Decode: headers present; without Truncated, those of the opcode
	Truncated  bool      // set by Decode: cut in transit: no ICRC, maybe headers or payload missing
	ICRC       uint32    // set by Decode: as in the packet, not checked
	Selective  SelETH    // of IRN; placed here because there is room
	Length     int       // of the payload as sent, in bytes
	Payload    []byte    // or the part of it that is present

	// The opcode says which of these are present. They come last because most packets of
	// a long message have none.
	AETH  AETH
	RETH  RETH
	ImmDt ImmDt
	IETH  IETH
	Send  SendETH

	further *Further // nil until first use
}

// Further has the headers that only datagrams, XRC and atomics have. They are separate because
// there are many packets, and few have them.
type Further struct {
	DETH      DETH
	XRC       XRCETH
	Atomic    AtomicETH
	AtomicAck AtomicAckETH
}

// FurtherHeaders returns the packet's further headers, for reading and writing. They are zero in
// a new packet. A copy of the Packet struct shares them, so use Set to copy a packet.
func (p *Packet) FurtherHeaders() *Further {
	if p.further == nil {
		p.further = new(Further)
	}
	return p.further
}

// Set makes p a copy of from that shares nothing with it. It reuses the memory of p.
func (p *Packet) Set(from *Packet) {
	payload, further := append(p.Payload[:0], from.Payload...), p.further
	*p = *from
	p.Payload, p.further = payload, further
	if from.further != nil {
		*p.FurtherHeaders() = *from.further
	}
}

// DecodeIP reads the packet whose IP header begins at ip[0]. Other bytes may follow the
// packet. Errors are those of Decode, and ErrNotRoCE.
func (p *Packet) DecodeIP(ip []byte) error {
	at, length, err := findDatagram(ip)
	if err != nil {
		*p = Packet{}
		return err
	}
	return p.Decode(ip[at:], length)
}

// Decode reads a UDP payload. length is its length in bytes according to the UDP header.
// If b is shorter, a switch has trimmed the packet (or a capture has): then Truncated is
// set, Extensions has the complete headers, and Payload is the part that is present. A
// trimmed packet whose UDP length was adjusted as well looks like a malformed packet, for
// which Decode returns ErrLength, or like a whole packet, which CheckICRC rejects.
//
// Payload shares b's bytes. Errors: ErrShort if the BTH is incomplete, ErrVersion,
// ErrOpcode, and ErrLength if the opcode and the pad count do not allow length: it must
// be a multiple of 4, with a payload only if the opcode has one. The BTH is valid with
// all but ErrShort. Decode ignores the bytes of the pad.
func (p *Packet) Decode(b []byte, length int) error {
	*p = Packet{Truncated: len(b) < length, further: p.further}
	if p.further != nil {
		*p.further = Further{}
	}
	if !p.Truncated {
		b = b[:length]
	}
	if err := p.BTH.Decode(b); err != nil {
		return err
	}
	var err error
	if p.Length, err = p.BTH.payloadLen(length); err != nil {
		return err
	}
	rest := b[BTHLen:]
	for i, e := 0, p.BTH.Opcode.Extensions(); e != 0; i, e = i+1, e>>1 {
		if e&1 == 0 {
			continue
		}
		n := int(extensionLen[i])
		if len(rest) < n {
			return nil // truncated, since length has room for all of them
		}
		p.decodeHeader(Extension(1)<<i, rest)
		p.Extensions |= 1 << i
		rest = rest[n:]
	}
	p.Payload = rest[:min(len(rest), p.Length):min(len(rest), p.Length)]
	if !p.Truncated {
		p.ICRC = binary.LittleEndian.Uint32(rest[len(rest)-ICRCLen:])
	}
	return nil
}

// payloadLen returns the length of the payload of a packet that has length bytes from the
// BTH to the ICRC. Errors: ErrOpcode and ErrLength.
func (h *BTH) payloadLen(length int) (n int, err error) {
	want := h.Opcode.Extensions()
	if want == 0 {
		return 0, ErrOpcode
	}
	n = length - h.Opcode.HeaderLen() - int(h.Pad) - ICRCLen
	if n < 0 || length&3 != 0 || want&ExtPayload == 0 && (n != 0 || h.Pad != 0) {
		return 0, ErrLength
	}
	return n, nil
}

// decodeHeader reads one header. b is long enough.
func (p *Packet) decodeHeader(e Extension, b []byte) {
	switch e {
	case ExtDETH:
		_ = p.FurtherHeaders().DETH.Decode(b)
	case ExtXRCETH:
		_ = p.FurtherHeaders().XRC.Decode(b)
	case ExtRETH:
		_ = p.RETH.Decode(b)
	case ExtAtomicETH:
		_ = p.FurtherHeaders().Atomic.Decode(b)
	case ExtAETH:
		_ = p.AETH.Decode(b)
	case ExtAtomicAckETH:
		_ = p.FurtherHeaders().AtomicAck.Decode(b)
	case ExtImmDt:
		_ = p.ImmDt.Decode(b)
	case ExtIETH:
		_ = p.IETH.Decode(b)
	case ExtSendETH:
		_ = p.Send.Decode(b)
	case ExtSelETH:
		_ = p.Selective.Decode(b)
	}
}

// Len returns the number of bytes that Put writes: the UDP payload, including the ICRC.
func (p *Packet) Len() int { return p.BTH.Opcode.PacketLen(max(len(p.Payload), p.Length)) }

// Put writes the packet into b and returns its length, Len. The opcode, which must be
// valid, determines the headers, and the length of the payload the pad count. The payload
// is Payload and then zeros up to Length: a truncated packet is written at its original
// length. The last four bytes are 0: PutICRC fills them once the IP and UDP headers are
// in place. Put ignores Extensions, ICRC and Truncated.
func (p *Packet) Put(b []byte) int {
	length := max(len(p.Payload), p.Length)
	bth := p.BTH
	bth.Pad = PadOf(length)
	bth.EncodeTo(b)
	n := BTHLen
	for i, e := 0, bth.Opcode.Extensions(); e != 0; i, e = i+1, e>>1 {
		if e&1 != 0 {
			p.putHeader(Extension(1)<<i, b[n:])
			n += int(extensionLen[i])
		}
	}
	end := n + length + int(bth.Pad) + ICRCLen
	n += copy(b[n:], p.Payload)
	clear(b[n:end])
	return end
}

func (p *Packet) putHeader(e Extension, b []byte) {
	switch e {
	case ExtDETH:
		p.FurtherHeaders().DETH.EncodeTo(b)
	case ExtXRCETH:
		p.FurtherHeaders().XRC.EncodeTo(b)
	case ExtRETH:
		p.RETH.EncodeTo(b)
	case ExtAtomicETH:
		p.FurtherHeaders().Atomic.EncodeTo(b)
	case ExtAETH:
		p.AETH.EncodeTo(b)
	case ExtAtomicAckETH:
		p.FurtherHeaders().AtomicAck.EncodeTo(b)
	case ExtImmDt:
		p.ImmDt.EncodeTo(b)
	case ExtIETH:
		p.IETH.EncodeTo(b)
	case ExtSendETH:
		p.Send.EncodeTo(b)
	case ExtSelETH:
		p.Selective.EncodeTo(b)
	case ExtCNP:
		(*CNPReserved)(nil).EncodeTo(b)
	}
}
