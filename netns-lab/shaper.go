package netnslab

import (
	"fmt"
	"math"

	"github.com/vishvananda/netlink/nl"
	"github.com/weftlab/weft/sim/units"
	"golang.org/x/sys/unix"
)

// The shaper is a token bucket (tbf) at the root of a device, or one for each of
// its queues (queues.go), at exactly the rate of the link: the time that the kernel charges for a packet is the time
// that the packet takes on the wire (psched_l2t_ns, include/net/sch_generic.h).
const (
	// wireOverhead is what Ethernet adds to a frame: 7 B preamble, 1 B start
	// delimiter, 4 B FCS, 12 B gap.
	wireOverhead = 24

	// wireMin is what the shortest frame takes: 60 B and the overhead.
	wireMin = 60 + wireOverhead

	ethernetHeader = 14
	vlanTag        = 4

	// shaperLimit (bytes) bounds the queue. A sender blocks at its SO_SNDBUF,
	// 208 KiB by default, so that some 90 sockets fill it before it drops.
	shaperLimit = 20_000_000

	// shaperMakeUp is the lateness of the kernel that the bucket makes up for;
	// what is later is lost to the rate. It sets the burst from some 12 Mb/s
	// on; below, two frames do. The bucket of a host that saturates its link
	// ends up in the emulator's queue, as so much latency. Seen at 20 Mb/s, one
	// of two cores taken by another program: 1 ms lost up to 15% of the rate,
	// 2 ms 1%, 4 ms 0.1%. On a quiet machine 1 ms lost less than 0.01%.
	shaperMakeUp = 2 * units.Millisecond

	// maxSuperTime is how long the packets that a device with offload sends as
	// one may take on the link, in emulated time, except where a single one takes longer. It is
	// what TCP itself aims at (tcp_tso_autosize, net/ipv4/tcp_output.c).
	maxSuperTime = units.Millisecond

	// maxSuper is how many packets are sent as one at most: what fits into
	// 64 KB at the usual MTU.
	maxSuper = 44

	// superPacket is the largest that a host sends as one, in bytes.
	superPacket = 1 << 16

	// unshaped is the rate (bytes per second) that stands for no limit: a
	// frame costs less than 1 ns, which the kernel rounds to none.
	unshaped = 1 << 50

	shaperHandle = 1 << 16 // 1:0 as tc prints it
)

// shaper is the state of a device's token bucket.
type shaper struct {
	rate    units.Rate // emulated; 0 is unshaped
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

// superSegments is how many packets TCP may send as one at rate r: several if
// the device has offload, and then so that a super-packet takes no more than
// maxSuperTime.
func (d *Device) superSegments(r units.Rate) int {
	if !d.Offload {
		return 1
	}
	frame := d.mtu + ethernetHeader + wireOverhead
	n := min(maxSuper, max(superPacket/d.mtu, 1))
	if r > 0 {
		n = min(n, max(int(r.Per(maxSuperTime))/frame, 1))
	}
	return n
}

// shape puts the shaper in place or changes it, in every queue. What waits in
// it stays.
//
// Without offload TCP is kept from sending many packets as one (gso_max_segs,
// see setRate): they would pass for one overhead. What arrives as such all the
// same, of UDP_SEGMENT sockets and of connections older than the shaper, tbf
// cuts up itself if it is larger than a bucket: that is what the peak bucket,
// of one frame and no cost, is for. (A UDP_SEGMENT packet that fits into one
// frame as a whole is still charged one overhead.)
//
// With offload a size table (stab) tells tbf what the packets that are sent as
// one take on the wire, and the peak bucket holds as many as may be. The rate is
// then one part in a thousand below the link's.
func (d *Device) shape(r units.Rate) error {
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
		if err := d.fill(queue); err != nil {
			return err
		}
	}
	return nil
}

// fill makes or changes the token bucket of a queue: at the shaper's rate or,
// while the queue is held, at a trickle. Either way the bucket is full then.
func (d *Device) fill(queue int) error {
	// tbf never releases a packet that is larger than the bucket: it must fit
	// those that came before the MTU was lowered.
	r, tallest := d.shaper.rate, d.shaper.tallest
	real := r / units.Rate(d.dilation)
	burst := max(2*tallest, int(real.Per(shaperMakeUp)))

	rate := max(uint64(real)/8, 1)
	if d.Offload {
		// What the size table charges too little, and what waits in the
		// emulator after it was stopped for a while, has to drain.
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

	// The library's Tbf knows neither overhead nor mpu.
	attributes := []*nl.RtAttr{options}
	if d.Offload {
		attributes = append(attributes, d.shaper.table.attribute())
	}
	handle, parent := d.place(queue)
	if err := d.qdisc(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, handle, parent, "tbf", attributes...); err != nil {
		return fmt.Errorf("shaper at %s: %w (it needs the tbf queueing discipline: modprobe sch_tbf, or CONFIG_NET_SCH_TBF)", r, err)
	}
	return nil
}

// rateSpec describes a rate in bytes per second. One of 2^32 and more the
// kernel takes from the 64-bit attribute beside it.
func rateSpec(rate uint64) nl.TcRateSpec {
	return nl.TcRateSpec{Linklayer: nl.LINKLAYER_ETHERNET, Rate: uint32(min(rate, math.MaxUint32))}
}
