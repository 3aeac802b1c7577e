package cm

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/sim/units"
)

// GID is the address of a port. Over RoCEv2 it is an IPv6 address, or an IPv4
// address in its mapped form (IBTA A17).
type GID [16]byte

// GIDOf returns the GID of an IP address without its zone.
func GIDOf(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address of a RoCEv2 GID.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String returns the address.
func (g GID) String() string { return g.Addr().String() }

// PermissiveLID is the LID of ports that have none, as over RoCE.
const PermissiveLID = 0xffff

// Path is how packets of a connection travel (IBTA §12.6.5), 44 bytes in a REQ.
type Path struct {
	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	Rate                uint8  // static rate, 6 bits; 0 means the port's own
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // service level, 4 bits
	SubnetLocal         bool
	ACKTimeout          Timeout // local ACK timeout; 0 means none
}

const pathLen = 44

// tshark 4.0 reads flow label and rate differently, with six reserved bits
// between them instead of four and two.
func (p *Path) decodePath(b []byte) {
	_ = b[pathLen-1]
	*p = Path{
		LocalLID:     binary.BigEndian.Uint16(b),
		RemoteLID:    binary.BigEndian.Uint16(b[2:]),
		LocalGID:     GID(b[4:20]),
		RemoteGID:    GID(b[20:36]),
		FlowLabel:    uint24(b[36:]) >> 4,
		Rate:         b[39] & 0x3f,
		TrafficClass: b[40],
		HopLimit:     b[41],
		SL:           b[42] >> 4,
		SubnetLocal:  b[42]&0x08 != 0,
		ACKTimeout:   Timeout(b[43] >> 3),
	}
}

func (p *Path) putPath(b []byte) {
	_ = b[pathLen-1]
	binary.BigEndian.PutUint16(b, p.LocalLID)
	binary.BigEndian.PutUint16(b[2:], p.RemoteLID)
	copy(b[4:], p.LocalGID[:])
	copy(b[20:], p.RemoteGID[:])
	putUint24(b[36:], p.FlowLabel<<4)
	b[39] = p.Rate & 0x3f
	b[40], b[41] = p.TrafficClass, p.HopLimit
	b[42] = p.SL<<4 | bitIf(p.SubnetLocal, 0x08)
	b[43] = byte(p.ACKTimeout) << 3
}

// MTU is the code of a path MTU (IBTA §12.7): the most of a message that a
// packet may carry.
type MTU uint8

// The path MTUs.
const (
	MTU256 MTU = 1 + iota
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// IsValid reports whether the code is one of the five.
func (m MTU) IsValid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the size, or 0 if the code is not valid.
func (m MTU) Bytes() units.Bytes {
	if !m.IsValid() {
		return 0
	}
	return 128 << m
}

// MTUOf returns the largest path MTU of at most n bytes, or 0 if n is less than
// 256.
func MTUOf(n units.Bytes) MTU {
	for m := MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n {
			return m
		}
	}
	return 0
}

// String returns the size in bytes.
func (m MTU) String() string {
	if !m.IsValid() {
		return fmt.Sprintf("MTU code %d", uint8(m))
	}
	return fmt.Sprint(int64(m.Bytes()))
}
