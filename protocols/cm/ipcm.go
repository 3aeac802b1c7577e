package cm

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// ServiceID names what a REQ or SIDRREQ asks for.
type ServiceID uint64

// ipPrefix are the five high bytes of the service IDs of IP port numbers.
const ipPrefix = 0x0000000001

// Protocols of the RDMA IP CM service, by their IP protocol numbers.
const (
	ProtocolTCP = 0x06 // connections, as of librdmacm's RDMA_PS_TCP
	ProtocolUDP = 0x11 // datagrams, as of RDMA_PS_UDP
)

// IPService returns the service ID of a port of the RDMA IP CM service (IBTA annex A11).
func IPService(protocol uint8, port uint16) ServiceID {
	return ipPrefix<<24 | ServiceID(protocol)<<16 | ServiceID(port)
}

// IP returns the protocol and port of a service ID of the RDMA IP CM service, and whether it is
// one.
func (s ServiceID) IP() (protocol uint8, port uint16, ok bool) {
	return uint8(s >> 16), uint16(s), s>>24 == ipPrefix
}

// psIPoIB is librdmacm's RDMA_PS_IPOIB (enum rdma_port_space).
const psIPoIB = 0x0002

// IPoIBService returns the service ID of a port of RDMA_PS_IPOIB, a port space of datagrams
// separate from RDMA_PS_UDP. It comes from Linux (rdma_get_service_id of
// drivers/infiniband/core/cma.c), and does not belong to the RDMA IP CM service.
func IPoIBService(port uint16) ServiceID { return psIPoIB<<16 | ServiceID(port) }

// Port returns the port of a service ID whose requests have an IPHeader, and whether it is one:
// a service ID of the RDMA IP CM service or of RDMA_PS_IPOIB.
func (s ServiceID) Port() (port uint16, ok bool) {
	return uint16(s), s>>24 == ipPrefix || s>>16 == psIPoIB
}

// String returns the service ID in hexadecimal.
func (s ServiceID) String() string { return fmt.Sprintf("0x%016x", uint64(s)) }

// IPHeaderLen is the length of an IPHeader in bytes. The program's own private
// data follows.
const IPHeaderLen = 36

// IPHeader is the header that the RDMA IP CM service, and Linux for RDMA_PS_IPOIB too, puts
// before the program's private data in a REQ and a SIDRREQ (IBTA annex A11). Its version is
// 0.0.
type IPHeader struct {
	Source      netip.AddrPort
	Destination netip.Addr // of the same version; its port is in the service ID
}

// Decode reads the header at the beginning of private data. It returns ErrPrivateData if there
// is none. An IPv4 address is in the last four of its 16 bytes; the others are ignored.
func (h *IPHeader) Decode(private []byte) error {
	if len(private) < IPHeaderLen || private[0] != 0 {
		return ErrPrivateData
	}
	var source, destination netip.Addr
	switch private[1] >> 4 {
	case 4:
		source, destination = netip.AddrFrom4([4]byte(private[16:])), netip.AddrFrom4([4]byte(private[32:]))
	case 6:
		source, destination = netip.AddrFrom16([16]byte(private[4:])), netip.AddrFrom16([16]byte(private[20:]))
	default:
		return ErrPrivateData
	}
	*h = IPHeader{Source: netip.AddrPortFrom(source, binary.BigEndian.Uint16(private[2:])), Destination: destination}
	return nil
}

// EncodeTo writes the header into the first IPHeaderLen bytes of private data. Both
// addresses must be valid and of one version, or Put panics.
func (h *IPHeader) EncodeTo(private []byte) {
	clear(private[:IPHeaderLen])
	source := h.Source.Addr()
	binary.BigEndian.PutUint16(private[2:], h.Source.Port())
	if source.Is4() {
		a, b := source.As4(), h.Destination.As4()
		private[1] = 4 << 4
		copy(private[16:], a[:])
		copy(private[32:], b[:])
		return
	}
	a, b := source.As16(), h.Destination.As16()
	private[1] = 6 << 4
	copy(private[4:], a[:])
	copy(private[20:], b[:])
}
