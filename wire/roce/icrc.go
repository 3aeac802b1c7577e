package roce

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/weftlab/weft/wire"
)

// ICRCLen is the length of an invariant CRC in bytes.
const ICRCLen = 4

// ICRC computes the invariant CRC of the RoCEv2 packet whose IP header begins at
// ip[0] (IBTA §7.8.1 and annex A17). It is CRC-32 with Ethernet's polynomial over
// eight bytes of ones, in place of the LRH, and then everything from the IP header
// to the pad. Fields that may change in transit count as ones: ToS, TTL and
// checksum of IPv4; traffic class, flow label and hop limit of IPv6; the UDP
// checksum; and the byte of the BTH that holds FECN, BECN and six reserved bits.
// The length fields of the IP and UDP headers count unchanged.
//
// ICRC ignores bytes after the packet. Errors: ErrShort, ErrNotRoCE, ErrLength, and
// ErrTruncated for an incomplete packet. IPv4 options and IPv6 extension headers
// are not implemented: for them it returns ErrNotRoCE.
func ICRC(ip []byte) (uint32, error) {
	crc, _, err := findICRC(ip)
	return crc, err
}

// PutICRC writes the invariant CRC into the last four bytes of the packet. It
// returns the errors of ICRC.
func PutICRC(ip []byte) error {
	crc, at, err := findICRC(ip)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(at, crc)
	return nil
}

// CheckICRC returns ErrICRC if the invariant CRC of a packet is wrong. Other errors
// are those of ICRC.
func CheckICRC(ip []byte) error {
	crc, at, err := findICRC(ip)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(at) != crc {
		return ErrICRC
	}
	return nil
}

// icrcSeed is the state of the CRC after eight bytes of ones.
var icrcSeed = crc32.ChecksumIEEE([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})

// findICRC returns the CRC and the bytes that hold it.
func findICRC(ip []byte) (crc uint32, at []byte, err error) {
	begin, length, err := findDatagram(ip)
	if err != nil {
		return 0, nil, err
	}
	end := begin + length
	if len(ip) < end {
		return 0, nil, ErrTruncated
	}
	const bits = 5 // bytes of a BTH up to FECN and BECN
	var masked [wire.IPv6Header + wire.UDPHeader + bits]byte
	n := copy(masked[:], ip[:begin+bits])
	if ip[0]>>4 == 4 {
		masked[1], masked[8], masked[10], masked[11] = 0xff, 0xff, 0xff, 0xff
	} else {
		masked[0] |= 0x0f
		masked[1], masked[2], masked[3], masked[7] = 0xff, 0xff, 0xff, 0xff
	}
	masked[begin-2], masked[begin-1], masked[n-1] = 0xff, 0xff, 0xff
	// Process the headers byte by byte: hash/crc32 calls through a variable, so its
	// argument would escape to the heap.
	crc = ^icrcSeed
	for _, b := range masked[:n] {
		crc = crc32.IEEETable[byte(crc)^b] ^ crc>>8
	}
	return crc32.Update(^crc, crc32.IEEETable, ip[begin+bits:end-ICRCLen]), ip[end-ICRCLen : end], nil
}
