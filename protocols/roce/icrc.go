package roce

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/weftlab/weft/protocols/wire"
)

// ICRCLen is the length of an invariant CRC in bytes.
const ICRCLen = 4

// ICRC computes the invariant CRC of the RoCEv2 packet whose IP header begins
// at ip[0] (IBTA §7.8.1 and annex A17): CRC-32 with the polynomial of Ethernet over
// eight bytes of ones, in place of the LRH, and then everything from the IP
// header to the pad, where what may change on the way counts as ones: of IPv4
// ToS, TTL and checksum, of IPv6 traffic class, flow label and hop limit, the
// UDP checksum, and the byte of the BTH that holds FECN, BECN and six reserved
// bits. The lengths of the IP and of the UDP header count as they stand.
//
// Bytes behind the packet are not looked at. Errors: ErrShort, ErrNotRoCE,
// ErrLength, and ErrTruncated for a packet that is not whole. IPv4 options and
// IPv6 extension headers are not implemented: they give ErrNotRoCE.
func ICRC(ip []byte) (uint32, error) {
	crc, _, err := icrc(ip)
	return crc, err
}

// PutICRC writes the invariant CRC into the last four bytes of the packet. The
// errors are those of ICRC.
func PutICRC(ip []byte) error {
	crc, at, err := icrc(ip)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(at, crc)
	return nil
}

// CheckICRC gives ErrICRC when the invariant CRC of a packet is wrong, and
// otherwise the errors of ICRC.
func CheckICRC(ip []byte) error {
	crc, at, err := icrc(ip)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(at) != crc {
		return ErrICRC
	}
	return nil
}

// icrcSeed is the state of the CRC behind eight bytes of ones.
var icrcSeed = crc32.ChecksumIEEE([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})

// icrc gives the CRC and the place for it.
func icrc(ip []byte) (crc uint32, at []byte, err error) {
	begin, length, err := datagram(ip)
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
	// The headers are taken byte by byte: hash/crc32 calls through a variable,
	// so what it is given would have to be on the heap.
	crc = ^icrcSeed
	for _, b := range masked[:n] {
		crc = crc32.IEEETable[byte(crc)^b] ^ crc>>8
	}
	return crc32.Update(^crc, crc32.IEEETable, ip[begin+bits:end-ICRCLen]), ip[end-ICRCLen : end], nil
}
