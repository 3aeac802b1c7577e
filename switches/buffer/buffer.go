// Package buffer implements the packet memory that the ports of a switch share, and the
// accounts that decide what fits into it.
//
// There are two views of the same bytes. At ingress, each port and priority has a
// reserve, a part of the shared pool, and, if its class is lossless, headroom for
// packets that arrive after it has asked for a pause. At egress, each queue has a
// reserve and a part of the shared pool. In either view every byte is in exactly one
// account, and the accounts add up to the bytes in the memory. Egress reserves never
// cause the drop of a packet that a lossless class has admitted: such packets may take
// the egress pool below zero. Thresholds in the shared pool are static, or dynamic as
// in Choudhury and Hahne (IEEE/ACM Transactions on Networking 6(2), 1998): alpha times
// the free bytes. Broadcom's chips account for memory in this way (priority groups and
// queues), and with egress reserves of 0 so does the simulator of HPCC (switch-mmu.cc).
//
// A packet is charged while it waits, but not while it is being sent or received. The
// package is pure, and allocates only in New.
package buffer

import (
	"math"
	"math/bits"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/pfc"
)

// Config is the memory of one switch.
type Config struct {
	Size  units.Bytes // of the whole memory; 0 means unlimited
	Ports []Port
	// Pause selects global PAUSE: one ingress account for all classes of a port, with
	// these thresholds. nil means one account per class.
	Pause *pfc.Config
}

// Port configures the accounts of a port.
type Port struct {
	Classes  []class.Class
	Headroom [class.Count]units.Bytes // of lossless classes; with Config.Pause [0] is the port's
}

// Own stands for the ingress port of packets that the switch itself generates.
const Own = math.MaxUint16

// Buffer is the memory of one switch.
type Buffer struct {
	size    units.Bytes // math.MaxInt64 without a limit
	held    units.Bytes
	in, out pool
	// Most switches have two or three classes, so only those have accounts.
	ingress []ingress // by port and class, Own last
	egress  []egress  // by port and class
	classes int       // number of classes: egress accounts of a port
	inPorts int       // ingress accounts of a port: classes, or one
	place   places    // of a class among the egress accounts of a port and the accounts of Own
	inPlace places    // of a class among the ingress accounts of a port
}

// places maps each priority to its account among those of a port. Priorities without a
// class use the account of the lowest class.
type places [class.Count]uint8

// pool is the shared part of the memory in one view.
type pool struct{ size, used units.Bytes }

func (p *pool) freeBytes() units.Bytes { return p.size - p.used }

// threshold limits the share of an account in a shared pool: to a static amount or
// alpha times the free bytes. Without either there is no threshold.
type threshold struct {
	static units.Bytes
	alpha  float64
}

// thresholdAt returns the threshold when the pool has free bytes left.
func (t threshold) thresholdAt(free units.Bytes) units.Bytes {
	limit := units.Bytes(math.MaxInt64)
	if t.alpha > 0 {
		limit = units.Bytes(t.alpha * float64(free))
	}
	if t.static > 0 {
		limit = min(limit, t.static)
	}
	return limit
}

// ingress is the account of packets that came in through one port in one class.
type ingress struct {
	used        units.Bytes // in the reserve and the shared pool
	headroom    units.Bytes // in the headroom
	reserve     units.Bytes
	limit       threshold // of the shared part: beyond it lossy classes drop and lossless ones pause
	lossless    bool
	credited    bool // Add and DischargePacket report each packet; such an account is always pausing
	pausing     bool
	maxHeadroom units.Bytes // size of the headroom
	offset      units.Bytes // xon is this far below xoff

	peak, headroomPeak units.Bytes
	refused            uint64 // packets without room in the headroom
	highWatermark      HighWatermark
}

// egress is the account of one queue.
type egress struct {
	used          units.Bytes
	reserve       units.Bytes
	limit         threshold // of the shared part
	peak          units.Bytes
	highWatermark HighWatermark
}

// HighWatermark records how close an account's shared part has come to its threshold.
type HighWatermark struct {
	Gap       units.Bytes // smallest difference of threshold and use; negative beyond the threshold
	Used      units.Bytes
	Threshold units.Bytes
	At        units.Time
	Known     bool // there is a record
}

func (a *HighWatermark) recordUse(now units.Time, used, limit units.Bytes) {
	if limit == math.MaxInt64 {
		return
	}
	if gap := limit - used; !a.Known || gap < a.Gap {
		*a = HighWatermark{gap, used, limit, now, true}
	}
}

// New returns the memory of a switch. The sum of reserves and headrooms must fit into
// it.
func New(c Config) *Buffer {
	b := &Buffer{size: c.Size}
	if b.size == 0 {
		b.size = math.MaxInt64
	}
	b.in.size, b.out.size = b.size, b.size
	b.place, b.classes = placesOf(c.Ports)
	b.inPlace, b.inPorts = b.place, b.classes
	if c.Pause != nil {
		b.inPlace, b.inPorts = places{}, 1
	}
	b.ingress = make([]ingress, len(c.Ports)*b.inPorts+b.classes)
	b.egress = make([]egress, len(c.Ports)*b.classes)
	for i, p := range c.Ports {
		for _, k := range p.Classes {
			*b.egressOf(i, k.Priority) = egress{reserve: k.Reserve, limit: threshold{aboveReserve(k.Limit, k.Reserve), k.Alpha}}
			b.out.size -= k.Reserve
			a := b.ingressOf(uint16(i), k.Priority)
			a.reserve += k.Ingress.Reserve // global PAUSE has one account for all classes
			a.limit = threshold{k.Ingress.Limit, k.Ingress.Alpha}
			if k.PFC != nil {
				a.makeLossless(k.PFC, p.Headroom[k.Priority])
			}
			if k.Credits != nil {
				a.lossless, a.credited, a.pausing = true, true, true
			}
		}
		if c.Pause != nil {
			b.ingressOf(uint16(i), 0).makeLossless(c.Pause, p.Headroom[0])
		}
	}
	for i := range b.ingress {
		b.in.size -= b.ingress[i].reserve + b.ingress[i].maxHeadroom
	}
	return b
}

// placesOf returns the places of the ports' classes, and the number of classes.
func placesOf(ports []Port) (at places, n int) {
	var used uint8
	for _, p := range ports {
		for _, k := range p.Classes {
			used |= 1 << k.Priority
		}
	}
	for m := used; m != 0; m &= m - 1 {
		at[bits.TrailingZeros8(m)] = uint8(n)
		n++
	}
	return at, max(n, 1)
}

// aboveReserve returns the static threshold of the shared part of a queue that may be limit
// bytes long including its reserve; 0 means none.
func aboveReserve(limit, reserve units.Bytes) units.Bytes {
	if limit == 0 {
		return 0
	}
	return max(limit-reserve, 1)
}

// makeLossless makes an account lossless.
func (a *ingress) makeLossless(c *pfc.Config, headroom units.Bytes) {
	a.lossless, a.limit, a.offset, a.maxHeadroom = true, threshold{c.Xoff, c.Alpha}, c.Offset, headroom
}

// ingressOf returns the ingress account of a port and priority.
func (b *Buffer) ingressOf(in uint16, prio uint8) *ingress {
	if in == Own {
		return &b.ingress[len(b.ingress)-b.classes+int(b.place[prio])]
	}
	return &b.ingress[int(in)*b.inPorts+int(b.inPlace[prio])]
}

func (b *Buffer) egressOf(out int, prio uint8) *egress {
	return &b.egress[out*b.classes+int(b.place[prio])]
}

// sharedPart returns the part of n bytes that exceeds a reserve.
func sharedPart(n, reserve units.Bytes) units.Bytes { return max(n-reserve, 0) }

// CheckFit reports whether a packet of n bytes that came in through one port may wait to
// leave through another: Fine, or the reason why not (QueueFull, BufferFull,
// HeadroomFull).
func (b *Buffer) CheckFit(in uint16, out int, prio uint8, n units.Bytes) packet.Fate {
	if fate := b.CheckQueue(in, out, prio, n); fate != packet.Fine {
		return fate
	}
	a := b.ingressOf(in, prio)
	s := sharedPart(a.used+n, a.reserve)
	switch {
	case s == 0:
		return packet.Fine
	case s <= a.limit.thresholdAt(b.in.freeBytes()) && s-sharedPart(a.used, a.reserve) <= b.in.freeBytes():
		return packet.Fine
	case !a.lossless:
		return packet.BufferFull
	case a.headroom+n <= a.maxHeadroom:
		return packet.Fine
	}
	return packet.HeadroomFull
}

// CheckQueue is CheckFit for the egress port's account alone: QueueFull is its limit or threshold,
// BufferFull what all queues together may hold.
func (b *Buffer) CheckQueue(in uint16, out int, prio uint8, n units.Bytes) packet.Fate {
	q := b.egressOf(out, prio)
	s := sharedPart(q.used+n, q.reserve)
	switch free := b.out.freeBytes(); {
	case s == 0:
		return packet.Fine
	case s > q.limit.thresholdAt(free):
		return packet.QueueFull
	case !b.ingressOf(in, prio).lossless && s-sharedPart(q.used, q.reserve) > free:
		return packet.BufferFull
	}
	return packet.Fine
}

// ChargePacket charges a packet that CheckFit. It reports whether the port must now ask for a pause
// of the class. For a class with credits it returns true for each packet.
func (b *Buffer) ChargePacket(now units.Time, in uint16, out int, prio uint8, n units.Bytes) (xoff bool) {
	b.held += n
	q := b.egressOf(out, prio)
	if q.limit.alpha > 0 || q.limit.static > 0 {
		q.highWatermark.recordUse(now, sharedPart(q.used+n, q.reserve), q.limit.thresholdAt(b.out.freeBytes()))
	}
	b.out.used += sharedPart(q.used+n, q.reserve) - sharedPart(q.used, q.reserve)
	q.used += n
	q.peak = max(q.peak, q.used)

	a := b.ingressOf(in, prio)
	before, after := sharedPart(a.used, a.reserve), sharedPart(a.used+n, a.reserve)
	limit := a.limit.thresholdAt(b.in.freeBytes())
	a.highWatermark.recordUse(now, after, limit)
	if after == 0 || after <= limit && after-before <= b.in.freeBytes() || !a.lossless {
		b.in.used += after - before
		a.used += n
		a.peak = max(a.peak, a.used)
	} else {
		a.headroom += n
		a.headroomPeak = max(a.headroomPeak, a.headroom)
	}
	if !a.lossless {
		return false
	}
	if !a.pausing && (a.headroom > 0 || after > 0 && after >= a.limit.thresholdAt(b.in.freeBytes())) {
		a.pausing = true
		return true
	}
	return a.credited
}

// Refuse counts a packet that does not fit, for the reason that Fits gave. It reports whether
// the port must now ask for a pause of the class: a packet of a lossless class that finds no
// room pauses its senders too. Without anything that waits it does not, as nothing would end
// the pause.
func (b *Buffer) Refuse(in uint16, prio uint8, why packet.Fate) (xoff bool) {
	a := b.ingressOf(in, prio)
	if why != packet.HeadroomFull || a.credited {
		return false
	}
	a.refused++
	if a.pausing || a.used+a.headroom == 0 {
		return false
	}
	a.pausing = true
	return true
}

// DischargePacket discharges a packet that leaves the memory. It reports whether the port must
// end the pause of the class. For a class with credits it returns true for each packet.
func (b *Buffer) DischargePacket(in uint16, out int, prio uint8, n units.Bytes) (xon bool) {
	b.held -= n
	q := b.egressOf(out, prio)
	b.out.used -= sharedPart(q.used, q.reserve) - sharedPart(q.used-n, q.reserve)
	q.used -= n

	a := b.ingressOf(in, prio)
	if h := min(n, a.headroom); h > 0 {
		a.headroom -= h
		n -= h
	}
	b.in.used -= sharedPart(a.used, a.reserve) - sharedPart(a.used-n, a.reserve)
	a.used -= n
	if !a.pausing || a.headroom > 0 {
		return false
	}
	if a.credited {
		return true
	}
	s := sharedPart(a.used, a.reserve)
	if s > 0 && s+a.offset > a.limit.thresholdAt(b.in.freeBytes()) {
		return false
	}
	a.pausing = false
	return true
}

// SetQueue changes the static limit of a queue, which includes its reserve and is 0 without
// one, and its dynamic one; alpha is 0 without one. What waits already stays.
func (b *Buffer) SetQueue(out int, prio uint8, limit units.Bytes, alpha float64) {
	q := b.egressOf(out, prio)
	q.limit = threshold{aboveReserve(limit, q.reserve), alpha}
}

// Pause returns when a lossless account asks for a pause: at a static threshold, or at alpha
// times the free bytes; it ends offset below. Both are 0 for other accounts.
func (b *Buffer) Pause(in uint16, prio uint8) (xoff units.Bytes, alpha float64, offset units.Bytes) {
	a := b.ingressOf(in, prio)
	if !a.lossless || a.credited {
		return 0, 0, 0
	}
	return a.limit.static, a.limit.alpha, a.offset
}

// SetPause changes what Pause returns. A pause begins or ends with the next packet that joins
// or leaves.
func (b *Buffer) SetPause(in uint16, prio uint8, xoff units.Bytes, alpha float64, offset units.Bytes) {
	a := b.ingressOf(in, prio)
	a.limit, a.offset = threshold{xoff, alpha}, offset
}

// QueueLimit returns the current maximum length of a queue, or math.MaxInt64 if only the
// memory limits it.
func (b *Buffer) QueueLimit(out int, prio uint8) units.Bytes {
	q := b.egressOf(out, prio)
	limit := q.limit.thresholdAt(b.out.freeBytes())
	if limit == math.MaxInt64 {
		return limit
	}
	return max(limit, 1) + q.reserve
}

// HeldBytes returns the number of bytes in the memory.
func (b *Buffer) HeldBytes() units.Bytes { return b.held }

// Size returns the size of the memory, or 0 if it has no limit.
func (b *Buffer) Size() units.Bytes {
	if b.size == math.MaxInt64 {
		return 0
	}
	return b.size
}
