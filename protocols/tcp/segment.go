package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Flags are the control bits of a segment.
type Flags uint8

// The control bits (RFC 9293 §3.1, RFC 3168 §6.1).
const (
	FIN Flags = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
)

var flagNames = [...]string{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"}

// String returns the names of the bits, such as "SYN,ACK".
func (f Flags) String() string {
	var names []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// Block is a range of sequence numbers: From is the first, To is one beyond the last.
type Block struct{ From, To uint32 }

// maxBlocks is the number of SACK blocks that fit into the options. With timestamps it is
// one less (RFC 2018 §3).
const maxBlocks = 4

// Segment is a TCP segment without its ports and its payload.
type Segment struct {
	Seq, Ack uint32
	Flags    Flags
	Window   uint16 // as in the header: scaled, except in SYNs

	// Options. MSS is present if it is not 0.
	MSS           uint16
	Scaling       bool // Scale is present
	Scale         uint8
	SACKPermitted bool
	Timestamps    bool // TSVal and TSEcr are present
	TSVal, TSEcr  uint32
	BlockCount    uint8
	Blocks        [maxBlocks]Block

	Payload uint32 // its length

	// From the IP header: the packet is ECN-capable, and it met congestion.
	ECT, CE bool
}

// headerLen is the length of a header without options.
const headerLen = 20

// maxHeader is the longest header, with options.
const maxHeader = 60

// SACK returns the blocks of the SACK option.
func (s *Segment) SACK() []Block { return s.Blocks[:s.BlockCount] }

// addBlock adds a block to the SACK option.
func (s *Segment) addBlock(b Block) {
	s.Blocks[s.BlockCount] = b
	s.BlockCount++
}

// sequenceSpace returns the number of sequence numbers that the segment takes.
func (s *Segment) sequenceSpace() uint32 {
	n := s.Payload
	if s.Flags&SYN != 0 {
		n++
	}
	if s.Flags&FIN != 0 {
		n++
	}
	return n
}

// HeaderLen returns the length of the header with its options.
func (s *Segment) HeaderLen() int {
	n := headerLen
	if s.MSS != 0 {
		n += 4
	}
	switch {
	case s.SACKPermitted && s.Timestamps:
		n += 12 // together they need no padding
	case s.SACKPermitted:
		n += 4
	case s.Timestamps:
		n += 12
	}
	if s.Scaling {
		n += 4
	}
	if s.BlockCount > 0 {
		n += 4 + 8*int(s.BlockCount)
	}
	return n
}

// Kinds of options (RFC 9293 §3.2, RFC 7323, RFC 2018).
const (
	optionEnd           = 0
	optionNOP           = 1
	optionMSS           = 2
	optionScale         = 3
	optionSACKPermitted = 4
	optionSACK          = 5
	optionTimestamps    = 8
)

// EncodeTo writes the header to b, which has HeaderLen bytes. The checksum is 0. Options are in
// Linux's order.
func (s *Segment) EncodeTo(b []byte, src, dst uint16) {
	binary.BigEndian.PutUint16(b, src)
	binary.BigEndian.PutUint16(b[2:], dst)
	binary.BigEndian.PutUint32(b[4:], s.Seq)
	binary.BigEndian.PutUint32(b[8:], s.Ack)
	b[12], b[13] = uint8(s.HeaderLen()/4)<<4, uint8(s.Flags)
	binary.BigEndian.PutUint16(b[14:], s.Window)
	clear(b[16:headerLen])
	o := b[headerLen:]
	put := func(bytes ...byte) { o = o[copy(o, bytes):] }
	word := func(v uint32) {
		binary.BigEndian.PutUint32(o, v)
		o = o[4:]
	}
	if s.MSS != 0 {
		put(optionMSS, 4, uint8(s.MSS>>8), uint8(s.MSS))
	}
	switch {
	case s.SACKPermitted:
		if put(optionSACKPermitted, 2); !s.Timestamps {
			put(optionNOP, optionNOP)
		}
	case s.Timestamps:
		put(optionNOP, optionNOP)
	}
	if s.Timestamps {
		put(optionTimestamps, 10)
		word(s.TSVal)
		word(s.TSEcr)
	}
	if s.Scaling {
		put(optionNOP, optionScale, 3, s.Scale)
	}
	if s.BlockCount > 0 {
		put(optionNOP, optionNOP, optionSACK, 2+8*s.BlockCount)
		for _, k := range s.SACK() {
			word(k.From)
			word(k.To)
		}
	}
}

// Parse reads the header at the beginning of b, which is a whole segment. It ignores
// unknown options.
func Parse(b []byte) (s Segment, src, dst uint16, err error) {
	if len(b) < headerLen {
		return s, 0, 0, fmt.Errorf("a TCP header has at least %d bytes, here are %d", headerLen, len(b))
	}
	n := int(b[12]>>4) * 4
	if n < headerLen || n > len(b) {
		return s, 0, 0, fmt.Errorf("a TCP header claims to have %d bytes, the segment has %d", n, len(b))
	}
	src, dst = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	s.Seq, s.Ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	s.Flags, s.Window = Flags(b[13]), binary.BigEndian.Uint16(b[14:])
	s.Payload = uint32(len(b) - n)
	return s, src, dst, s.parseOptions(b[headerLen:n])
}

// parseOptions reads the options.
func (s *Segment) parseOptions(o []byte) error {
	for len(o) > 0 && o[0] != optionEnd {
		if o[0] == optionNOP {
			o = o[1:]
			continue
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			return errors.New("an option of a TCP header is longer than the header")
		}
		kind, body := o[0], o[2:o[1]]
		o = o[o[1]:]
		if err := s.parseOption(kind, body); err != nil {
			return err
		}
	}
	return nil
}

func (s *Segment) parseOption(kind uint8, body []byte) error {
	bad := false
	switch kind {
	case optionMSS:
		if bad = len(body) != 2; !bad {
			s.MSS = binary.BigEndian.Uint16(body)
		}
	case optionScale:
		if bad = len(body) != 1; !bad {
			s.Scaling, s.Scale = true, body[0]
		}
	case optionSACKPermitted:
		bad = len(body) != 0
		s.SACKPermitted = true
	case optionTimestamps:
		if bad = len(body) != 8; !bad {
			s.Timestamps, s.TSVal, s.TSEcr = true, binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
		}
	case optionSACK:
		if bad = len(body)%8 != 0 || len(body) > 8*maxBlocks; !bad {
			s.BlockCount = 0
			for ; len(body) > 0; body = body[8:] {
				s.addBlock(Block{binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])})
			}
		}
	}
	if bad {
		return fmt.Errorf("option %d of a TCP header has a body of %d bytes", kind, len(body))
	}
	return nil
}
