package netnslab

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
)

// The attributes of a size table (include/uapi/linux/rtnetlink.h,
// pkt_sched.h), which nl lacks.
const (
	tcaStab     = 8
	tcaStabBase = 1
	tcaStabData = 2
)

const (
	tableCell    = 5    // an entry covers 2^5 lengths
	tableUnit    = 1    // and is in units of 2^1 bytes
	tableEntries = 2048 // so that the table covers 64 KB
)

// sizeTable gives a queueing discipline the wire size of a packet
// (__qdisc_calculate_pkt_len, net/sched/sch_api.c). A super-packet has its headers
// once and the payload of all packets; on the wire each packet has its own headers,
// preamble, FCS and gap.
type sizeTable [tableEntries]uint16

// newSizeTable computes the table for TCP with full packets, which is what
// super-packets consist of. The length alone does not distinguish IPv4 from IPv6, or
// packets with and without timestamps: entries are for IPv4 with timestamps, except
// that an entry covering a whole number of full packets of another kind is for that
// kind.
func newSizeTable(mtu int, kind DeviceKind) (t sizeTable) {
	link := kind.headerLen()
	frame := mtu + ethernetHeader + wireOverhead
	entry := func(wire int) uint16 { return uint16(min((wire+1<<tableUnit-1)>>tableUnit, 1<<16-1)) }
	const withTimestamps = 52 // bytes of headers, IPv4
	segment := mtu - withTimestamps
	for i := range t {
		// The middle of the lengths that the entry covers; beyond one packet the
		// payload is cut into full packets.
		length := i<<tableCell + 1<<(tableCell-1) - link
		n := 1
		if i<<tableCell-link <= mtu {
			length = min(length, mtu)
		} else {
			n = (length - withTimestamps + segment - 1) / segment
		}
		t[i] = entry(max(length+(n-1)*withTimestamps+n*(ethernetHeader+wireOverhead), wireMin))
	}
	var full sizeTable
	for _, headers := range []int{40, withTimestamps, 60, 72} { // IPv4, IPv6, without and with timestamps
		for n := 1; n*(mtu-headers)+headers <= superPacket; n++ {
			if i := (n*(mtu-headers) + headers + link) >> tableCell; i < tableEntries {
				full[i] = max(full[i], entry(n*frame))
			}
		}
	}
	for i, v := range full {
		if v > 0 {
			t[i] = v
		}
	}
	return t
}

// toAttribute returns the table as a netlink attribute.
func (t *sizeTable) toAttribute() *nl.RtAttr {
	// struct tc_sizespec
	base := make([]byte, 24)
	base[0], base[1] = tableCell, tableUnit
	binary.NativeEndian.PutUint32(base[20:], tableEntries)
	data := make([]byte, 2*tableEntries)
	for i, v := range t {
		binary.NativeEndian.PutUint16(data[2*i:], v)
	}
	a := nl.NewRtAttr(tcaStab, nil)
	a.AddRtAttr(tcaStabBase, base)
	a.AddRtAttr(tcaStabData, data)
	return a
}
