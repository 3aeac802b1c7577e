// Package telemetry implements in-band telemetry (INT): the data that egress ports of
// switches write into a packet, and that the receiver sends back. The values are those
// of HPCC (Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, §4.1 and
// Fig. 7): 8 bytes per hop.
//
// On the wire a Stack is a shim between UDP and the BTH of a RoCEv2 packet, with a
// separate UDP port:
//
//	 0                   1                   2                   3
//	+-------+-------+---------------+-------------------------------+
//	| room  | count |E|  reserved   |            path               |
//	+-------+-------+---------------+-------------------------------+
//	| room times 8 bytes: rate (4 bits), time (24), sent (20), queue (16) |
//
// The sender reserves the room, so that a packet keeps its length. E is set in an
// acknowledgement that carries a stack back; switches do not change such a stack. The
// paper has 2 bytes where this has 4: it knows the room in advance, and distinguishes
// the two directions by the packet's type. The ICRC covers a packet as if there were no
// shim and the UDP port were RoCEv2's, because switches write into the shim.
package telemetry

import (
	"encoding/binary"
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// Port is the UDP destination port of RoCEv2 packets with a stack. It is unregistered,
// from the range for private use (RFC 6335 §6).
const Port = 54791

// MaxHops is the maximum room of a stack: with it a Stack fills a cache line.
const MaxHops = 7

// HeaderLen is the length of the header before the hops, HopLen that of a hop.
const (
	HeaderLen = 4
	HopLen    = 8
)

// Hop is what one egress port wrote, in wire format. Time and bytes wrap around: only
// their differences are meaningful (Since).
type Hop uint64

// The fields of a hop, from the highest bits.
const (
	timeBits, sentBits, queueBits = 24, 20, 16

	sentUnit  = 128 * units.Byte
	queueUnit = 80 * units.Byte
)

// TimeWrap and SentWrap are the values at which a hop's time and bytes wrap around:
// 16.777216 ms and 134217728 B.
const (
	TimeWrap = units.Nanosecond << timeBits
	SentWrap = sentUnit << sentBits
)

// rates decodes the four bits of the rate. The paper does not print its codes.
var rates = [16]units.Rate{
	0, 10 * units.Mbps, 100 * units.Mbps, units.Gbps, 2500 * units.Mbps, 5 * units.Gbps, 10 * units.Gbps, 20 * units.Gbps,
	25 * units.Gbps, 40 * units.Gbps, 50 * units.Gbps, 100 * units.Gbps, 200 * units.Gbps, 400 * units.Gbps, 800 * units.Gbps, 1600 * units.Gbps,
}

// RateCode returns the code of a port's rate, and false if there is none.
func RateCode(r units.Rate) (code uint8, ok bool) {
	for i, known := range rates {
		if known == r && i > 0 {
			return uint8(i), true
		}
	}
	return 0, false
}

// RateCodes returns the rates that have a code, in ascending order.
func RateCodes() []units.Rate { return rates[1:] }

// NewHop returns what a port writes at now. code is the code of its rate, sent the
// bytes that it has sent since its start, queue the bytes that wait behind the packet.
// A queue longer than 5242800 bytes is written as 5242800 bytes.
func NewHop(code uint8, now units.Time, sent, queue units.Bytes) Hop {
	t := uint64(now/units.Nanosecond) & (1<<timeBits - 1)
	s := uint64(sent/sentUnit) & (1<<sentBits - 1)
	q := min(uint64(queue/queueUnit), 1<<queueBits-1)
	return Hop(uint64(code)<<(timeBits+sentBits+queueBits) | t<<(sentBits+queueBits) | s<<queueBits | q)
}

// Rate returns the rate of the port.
func (h Hop) Rate() units.Rate { return rates[h>>(timeBits+sentBits+queueBits)] }

// Queue returns how many bytes waited behind the packet, in units of 80 bytes.
func (h Hop) Queue() units.Bytes { return units.Bytes(h&(1<<queueBits-1)) * queueUnit }

func (h Hop) timestamp24() uint64 { return uint64(h>>(sentBits+queueBits)) & (1<<timeBits - 1) }
func (h Hop) sentUnits() uint64   { return uint64(h>>queueBits) & (1<<sentBits - 1) }

// Since returns the time from an earlier hop of the same port to h, and the bytes that
// the port sent in that time: time modulo TimeWrap, bytes modulo SentWrap.
func (h Hop) Since(before Hop) (t units.Time, sent units.Bytes) {
	t = units.Time((h.timestamp24()-before.timestamp24())&(1<<timeBits-1)) * units.Nanosecond
	return t, units.Bytes((h.sentUnits()-before.sentUnits())&(1<<sentBits-1)) * sentUnit
}

// Between is Since for a receiver by whose clock the hops are about that far apart. t
// is right however often the time has wrapped, if about is off by less than half of
// TimeWrap. ok is false if the result is not usable: the port may have sent SentWrap or
// more, h is not later, or its rate is not known.
func (h Hop) Between(before Hop, about units.Time) (t units.Time, sent units.Bytes, ok bool) {
	t, sent = h.Since(before)
	if off := about - t + TimeWrap/2; off >= 0 {
		t += off / TimeWrap * TimeWrap
	} else {
		t -= TimeWrap // not that late: h is the earlier one
	}
	return t, sent, t > 0 && h.Rate() > 0 && h.Rate().BytesIn(t) < SentWrap-sentUnit
}

// String formats h for test messages.
func (h Hop) String() string {
	return fmt.Sprintf("%v at %dns, %d x 128B sent, queue %v", h.Rate(), h.timestamp24(), h.sentUnits(), h.Queue())
}

// Stack holds the hops of a packet and the room for more. The zero Stack means no
// telemetry.
type Stack struct {
	Room  uint8 // hops, up to MaxHops; 0 means none
	Count uint8 // number of hops written, up to Room
	Echo  bool  // it is on the way back
	// Path is the exclusive or of the numbers of the ports that wrote: packets on
	// another path almost always have another value.
	Path uint16
	Hops [MaxHops]Hop
}

// Len returns the number of bytes that EncodeTo writes; 0 without room.
func (s *Stack) Len() units.Bytes { return StackSize(int(s.Room)) }

// StackSize returns the length of a stack with room for room hops.
func StackSize(room int) units.Bytes {
	if room == 0 {
		return 0
	}
	return HeaderLen + units.Bytes(room)*HopLen
}

// Push adds a hop of the port with number port. It does nothing if there is no room
// left or the stack is an echo.
func (s *Stack) Push(port uint16, h Hop) {
	if s.Echo || s.Count >= s.Room {
		return
	}
	s.Hops[s.Count] = h
	s.Count++
	s.Path ^= port
}

// WrittenHops returns the hops that ports have written.
func (s *Stack) WrittenHops() []Hop { return s.Hops[:s.Count] }

// EncodeTo writes the stack to b, which has Len bytes for it.
func (s *Stack) EncodeTo(b []byte) {
	b[0], b[1] = s.Room<<4|s.Count, 0
	if s.Echo {
		b[1] = 0x80
	}
	binary.BigEndian.PutUint16(b[2:], s.Path)
	for i := range int(s.Room) {
		h := uint64(0)
		if i < int(s.Count) {
			h = uint64(s.Hops[i])
		}
		binary.BigEndian.PutUint64(b[HeaderLen+i*HopLen:], h)
	}
}

// Parse reads a stack from the beginning of b and returns its length. It fails if b is
// too short, if the room is not 1 to MaxHops, or if there are more hops than room.
func (s *Stack) Parse(b []byte) (int, error) {
	*s = Stack{}
	if len(b) < HeaderLen {
		return 0, fmt.Errorf("telemetry: %d bytes are shorter than a header of %d", len(b), HeaderLen)
	}
	room, count := b[0]>>4, b[0]&0xf
	n := int(StackSize(int(room)))
	switch {
	case room == 0 || room > MaxHops || count > room:
		return 0, fmt.Errorf("telemetry: %d hops with room for %d: room is 1 to %d", count, room, MaxHops)
	case len(b) < n:
		return 0, fmt.Errorf("telemetry: %d bytes are shorter than a stack for %d hops, %d", len(b), room, n)
	}
	s.Room, s.Count, s.Echo, s.Path = room, count, b[1]&0x80 != 0, binary.BigEndian.Uint16(b[2:])
	for i := range int(count) {
		s.Hops[i] = Hop(binary.BigEndian.Uint64(b[HeaderLen+i*HopLen:]))
	}
	return n, nil
}
