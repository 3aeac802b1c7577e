package netnslab

import (
	"fmt"
	"math"

	"github.com/vishvananda/netlink/nl"
	"github.com/weftlab/weft/sim/units"
	"golang.org/x/sys/unix"
)

// The shaper is a token bucket (tbf) at the root of a device, or one for each of its queues
// (queues.go), at exactly the rate of the link: the kernel charges each packet the time that it
// takes on the wire (psched_l2t_ns, include/net/sch_generic.h).
const (
	// wireOverhead is what Ethernet adds to a frame: 7 B preamble, 1 B start
	// delimiter, 4 B FCS, 12 B gap.
	wireOverhead = 24

	// wireMin is the wire size of the shortest frame: 60 B and the overhead.
	wireMin = 60 + wireOverhead

	ethernetHeader = 14
	vlanTag        = 4

	// shaperLimit (bytes) bounds the queue. A sender blocks at its SO_SNDBUF,
	// 208 KiB by default, so that some 90 sockets fill it before it drops.
	shaperLimit = 20_000_000

	// shaperMakeUp is the lateness of the kernel that the bucket compensates; any
	// beyond it reduces the rate. It determines the burst from some 12 Mb/s on;
	// below that, two frames do. If a host saturates its link, the bucket's content
	// ends up in the emulator's queue as additional latency. Measured at 20 Mb/s
	// with one of two cores busy with another program: 1 ms lost up to 15% of the
	// rate, 2 ms 1%, 4 ms 0.1%. On a quiet machine 1 ms lost less than 0.01%.
	shaperMakeUp = 2 * units.Millisecond

	// maxSuperTime is how long a super-packet from a device with offload may take on the link,
	// in emulated time, unless a single packet takes longer. TCP itself aims at this
	// (tcp_tso_autosize, net/ipv4/tcp_output.c).
	maxSuperTime = units.Millisecond

	// maxSuper is the maximum number of packets in a super-packet: as many as fit
	// into 64 KB at the usual MTU.
	maxSuper = 44

	// superPacket is the size of the largest super-packet, in bytes.
	superPacket = 1 << 16

	// unshaped is the rate (bytes per second) that means no limit: a frame costs
	// less than 1 ns, which the kernel rounds to none.
	unshaped = 1 << 50

	shaperHandle = 1 << 16 // 1:0 as tc prints it
)

// shaper is the state of a device's token bucket.
type shaper struct {
	rate    units.Rate // emulated; 0 means unshaped
	tallest int        // bytes: the largest packet that may still wait in it
	table   sizeTable  // of a device with offload
}

// headerLen is the length of the link-layer header that the kernel counts as
// part of a packet.
func (k DeviceKind) headerLen() int {
	if k == TAP {
		return ethernetHeader
	}
	return 0
}

// superSegments returns how many packets TCP may send as one at rate r: several if
// the device has offload, but so that a super-packet takes no more than
// maxSuperTime.
func (d *Device) superSegments(r units.Rate) int {
	if !d.Offload {
		return 1
	}
	frame := d.mtu + ethernetHeader + wireOverhead
	n := min(maxSuper, max(superPacket/d.mtu, 1))
	if r > 0 {
		n = min(n, max(int(r.BytesIn(maxSuperTime))/frame, 1))
	}
	return n
}

// setShaper installs or changes the shaper in every queue. Waiting packets stay.
//
// Without offload, TCP must not send many packets as one (gso_max_segs, see
// setRate), since they would be charged a single overhead. Super-packets still come
// from UDP_SEGMENT sockets and from connections older than the shaper; tbf segments
// those larger than a bucket itself. The peak bucket, of one frame and no cost, is
// there for this. (A UDP_SEGMENT packet that fits into one frame as a whole is still
// charged one overhead.)
//
// With offload, a size table (stab) tells tbf the wire size of a super-packet, and
// the peak bucket holds the largest one allowed. The rate is then one part in a
// thousand below the link's.
func (d *Device) setShaper(r units.Rate) error {
	largest := d.mtu + d.Kind.headerLen()
	if d.Kind == TAP {
		largest += vlanTag
	}
	if d.Offload {
		d.shaper.table = newSizeTable(d.mtu, d.Kind)
		largest = d.superSegments(r) * (largest + wireOverhead + ethernetHeader - d.Kind.headerLen())
	}
	d.shaper.tallest = max(d.shaper.tallest, largest)
	d.shaper.rate = r
	for queue := range d.FDs {
		if err := d.setBucket(queue); err != nil {
			return err
		}
	}
	return nil
}

// setBucket makes or changes the token bucket of a queue, at the shaper's rate or, while
// the queue is held, at trickle. Either way the bucket is full afterwards.
func (d *Device) setBucket(queue int) error {
	// tbf never releases a packet that is larger than the bucket: the bucket must
	// fit packets that came before the MTU was lowered.
	r, tallest := d.shaper.rate, d.shaper.tallest
	real := r / units.Rate(d.dilation)
	burst := max(2*tallest, int(real.BytesIn(shaperMakeUp)))

	rate := max(uint64(real)/8, 1)
	if d.Offload {
		// The margin drains what the size table undercharges, and what waits in the
		// emulator after it was stopped for a while.
		rate -= rate / 1000
	}
	if r == 0 {
		rate = unshaped
	}
	if d.held[queue] {
		rate, burst = min(rate, max(trickle/uint64(d.dilation), 1)), tallest
	}
	parms := nl.TcTbfQopt{Rate: rateSpec(rate), Peakrate: rateSpec(2 * unshaped), Limit: shaperLimit}
	if !d.Offload {
		parms.Rate.Overhead = uint16(ethernetHeader - d.Kind.headerLen() + wireOverhead)
		parms.Rate.Mpu = wireMin
	}
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	options.AddRtAttr(nl.TCA_TBF_PARMS, parms.Serialize())
	options.AddRtAttr(nl.TCA_TBF_RATE64, nl.Uint64Attr(rate))
	options.AddRtAttr(nl.TCA_TBF_PRATE64, nl.Uint64Attr(2*unshaped))
	options.AddRtAttr(nl.TCA_TBF_BURST, nl.Uint32Attr(uint32(burst)))
	options.AddRtAttr(nl.TCA_TBF_PBURST, nl.Uint32Attr(uint32(tallest)))

	// The library's Tbf supports neither overhead nor mpu.
	attributes := []*nl.RtAttr{options}
	if d.Offload {
		attributes = append(attributes, d.shaper.table.toAttribute())
	}
	handle, parent := d.qdiscPlace(queue)
	if err := d.requestQdisc(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, handle, parent, "tbf", attributes...); err != nil {
		return fmt.Errorf("shaper at %s: %w (it needs the tbf queueing discipline: modprobe sch_tbf, or CONFIG_NET_SCH_TBF)", r, err)
	}
	return nil
}

// rateSpec describes a rate in bytes per second. The kernel takes rates of 2^32 and
// more from the 64-bit attribute beside it.
func rateSpec(rate uint64) nl.TcRateSpec {
	return nl.TcRateSpec{Linklayer: nl.LINKLAYER_ETHERNET, Rate: uint32(min(rate, math.MaxUint32))}
}
