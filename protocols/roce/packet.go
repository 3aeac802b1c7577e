package roce

import "encoding/binary"

// Packet is the part of a RoCEv2 packet that UDP carries.
//
// The payload is Length bytes, without the pad. Of a packet whose bytes are not
// modelled only Length says how long it is, and Payload is empty. Put writes
// Payload and then zeros up to Length, so that a capture of modelled packets has
// whole frames. Where Payload is longer than Length, it is what counts: a packet
// with bytes needs no Length to be written.
type Packet struct {
	BTH        BTH
	Extensions Extension // set by Decode: the headers that are there; without Truncated, those of the opcode
	Truncated  bool      // set by Decode: cut on the way: no ICRC, and maybe not all headers and payload
	ICRC       uint32    // set by Decode: as it stands in the packet; not checked
	Selective  SelETH    // of IRN; it is here because there is room
	Length     int       // of the payload as it was sent, bytes
	Payload    []byte    // or what is there of it

	// Which of these are there, the opcode says. They come last because most
	// packets of a long message have none.
	AETH  AETH
	RETH  RETH
	ImmDt ImmDt
	IETH  IETH
	Send  SendETH

	further *Further // nil until somebody has asked for it
}

// Further has the headers that only datagrams and atomics have. They are apart, since
// packets are many and few have them.
type Further struct {
	DETH      DETH
	Atomic    AtomicETH
	AtomicAck AtomicAckETH
}

// Further lends the packet's further headers, to be read and written. They are zero in
// a new packet, and stay the packet's until it is gone: a copy of the Packet shares them,
// so copies are made with Set.
func (p *Packet) Further() *Further {
	if p.further == nil {
		p.further = new(Further)
	}
	return p.further
}

// Set makes p a copy of from that shares nothing with it. It uses the memory that p has.
func (p *Packet) Set(from *Packet) {
	payload, further := append(p.Payload[:0], from.Payload...), p.further
	*p = *from
	p.Payload, p.further = payload, further
	if from.further != nil {
		*p.Further() = *from.further
	}
}

// DecodeIP reads the packet whose IP header begins at ip[0]; more may follow
// it. Errors are those of Decode, and ErrNotRoCE.
func (p *Packet) DecodeIP(ip []byte) error {
	at, length, err := datagram(ip)
	if err != nil {
		*p = Packet{}
		return err
	}
	return p.Decode(ip[at:], length)
}

// Decode reads what UDP carries. length is how much that is according to the
// UDP header, in bytes. If b is shorter, a switch has trimmed the packet (or a
// capture has): then Truncated is set, Extensions says which headers are whole,
// and the payload is what is there of it. A trimmed packet whose UDP length was
// adjusted as well cannot be told from a malformed one, and gives ErrLength, or
// from a whole one, which CheckICRC tells.
//
// Payload shares b's bytes. Errors: ErrShort when not even the BTH is there,
// ErrVersion, ErrOpcode, and ErrLength when length is not what the opcode and
// the pad count allow: a whole number of words, with a payload only where
// one belongs. The BTH is valid with all but ErrShort. The pad's bytes are not
// looked at.
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
	if p.Length, err = p.BTH.payload(length); err != nil {
		return err
	}
	rest := b[BTHLen:]
	for i, e := 0, p.BTH.Opcode.Extensions(); e != 0; i, e = i+1, e>>1 {
		if e&1 == 0 {
			continue
		}
		n := int(extensionLen[i])
		if len(rest) < n {
			return nil // truncated, since length allows for all of them
		}
		p.decode(Extension(1)<<i, rest)
		p.Extensions |= 1 << i
		rest = rest[n:]
	}
	p.Payload = rest[:min(len(rest), p.Length):min(len(rest), p.Length)]
	if !p.Truncated {
		p.ICRC = binary.LittleEndian.Uint32(rest[len(rest)-ICRCLen:])
	}
	return nil
}

// payload gives the length of the payload of a packet of length bytes, from the
// BTH to the ICRC, or ErrOpcode or ErrLength.
func (h *BTH) payload(length int) (n int, err error) {
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

// decode reads one header, of which b holds enough.
func (p *Packet) decode(e Extension, b []byte) {
	switch e {
	case ExtDETH:
		_ = p.Further().DETH.Decode(b)
	case ExtRETH:
		_ = p.RETH.Decode(b)
	case ExtAtomicETH:
		_ = p.Further().Atomic.Decode(b)
	case ExtAETH:
		_ = p.AETH.Decode(b)
	case ExtAtomicAckETH:
		_ = p.Further().AtomicAck.Decode(b)
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

// Len is how many bytes Put writes: what UDP carries, with the ICRC.
func (p *Packet) Len() int { return p.BTH.Opcode.PacketLen(max(len(p.Payload), p.Length)) }

// Put writes the packet into b and gives its length, Len. The opcode, which
// must be valid, says which headers are written, and the payload's length what
// the pad count is. The payload is Payload and then zeros up to Length: a
// truncated packet is written as long as it was sent. The last four bytes are 0:
// PutICRC fills them when the headers of IP and UDP are there. Extensions, ICRC
// and Truncated are not looked at.
func (p *Packet) Put(b []byte) int {
	length := max(len(p.Payload), p.Length)
	bth := p.BTH
	bth.Pad = PadOf(length)
	bth.Put(b)
	n := BTHLen
	for i, e := 0, bth.Opcode.Extensions(); e != 0; i, e = i+1, e>>1 {
		if e&1 != 0 {
			p.put(Extension(1)<<i, b[n:])
			n += int(extensionLen[i])
		}
	}
	end := n + length + int(bth.Pad) + ICRCLen
	n += copy(b[n:], p.Payload)
	clear(b[n:end])
	return end
}

func (p *Packet) put(e Extension, b []byte) {
	switch e {
	case ExtDETH:
		p.Further().DETH.Put(b)
	case ExtRETH:
		p.RETH.Put(b)
	case ExtAtomicETH:
		p.Further().Atomic.Put(b)
	case ExtAETH:
		p.AETH.Put(b)
	case ExtAtomicAckETH:
		p.Further().AtomicAck.Put(b)
	case ExtImmDt:
		p.ImmDt.Put(b)
	case ExtIETH:
		p.IETH.Put(b)
	case ExtSendETH:
		p.Send.Put(b)
	case ExtSelETH:
		p.Selective.Put(b)
	case ExtCNP:
		(*CNPReserved)(nil).Put(b)
	}
}
