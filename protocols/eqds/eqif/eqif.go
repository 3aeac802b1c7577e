// Package eqif models the queues of a sending host under EQDS (Olteanu et al., NSDI 2022, §6
// and Appendix B): what each class of EQIF does with a packet that finds a queue of a given
// length, and how the EQIFs of a host share its link. It holds no packets: they wait in the
// sender of their tunnel (package tunnel), and the owner of the tunnel asks a Discipline before
// it pushes one.
//
// The paper has a queue for each destination of an EQIF. It gives no thresholds for its RED for
// TCP with ECN; those of TCPDefault are this project's. Feedback to the NIC by PAUSE frames is
// not implemented here: RDMA says when its queue is long, and the caller decides what to send
// and to whom.
package eqif

import (
	"math/rand/v2"

	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Verdict is what an EQIF does with a packet.
type Verdict uint8

const (
	// Accept queues it.
	Accept Verdict = iota
	// Mark sets Congestion Experienced and queues it.
	Mark
	// Notify queues it, and tells its sender to slow down: a CNP to the local queue pair.
	Notify
	// Refuse leaves it with its sender, which is told later that there is room.
	Refuse
	// Drop discards it.
	Drop
)

var verdictNames = [...]string{"accept", "mark", "notify", "refuse", "drop"}

// String returns the name used in messages.
func (v Verdict) String() string { return verdictNames[v] }

// Queue is the queue for one destination of an EQIF, without the packet being judged.
type Queue struct {
	Packets int
	Bytes   units.Bytes
}

// Discipline is what a class of EQIF does when its queues grow.
type Discipline interface {
	// JudgePacket says what to do with a packet of the given size that finds queue q. ect means that
	// it is ECN-capable.
	JudgePacket(q Queue, size units.Bytes, ect bool) Verdict
}

// Thresholds mark with a probability that rises linearly from 0 at KMin to PMax at KMax and
// is 1 above KMax.
type Thresholds struct {
	KMin, KMax units.Bytes
	PMax       units.Fraction
}

// MarkProbability returns the probability of a mark at queue length q.
func (t *Thresholds) MarkProbability(q units.Bytes) float64 {
	switch {
	case q <= t.KMin:
		return 0
	case q > t.KMax:
		return 1
	}
	return float64(t.PMax) * float64(q-t.KMin) / float64(t.KMax-t.KMin)
}

// drawMark draws whether a packet is marked. It uses r only if the probability is above 0 and
// below 1.
func (t *Thresholds) drawMark(q units.Bytes, r *rand.Rand) bool {
	chance := t.MarkProbability(q)
	return chance >= 1 || chance > 0 && r.Float64() < chance
}

func (t *Thresholds) checkRanges(c *registry.Check) {
	if t.KMin < 0 {
		c.AddRange("kmin", t.KMin, "0 or more, such as 72KB")
	}
	if t.KMax < t.KMin {
		c.AddRange("kmax", t.KMax, "at least kmin, %v", t.KMin)
	}
	c.CheckShare("pmax", t.PMax, 0, 1)
}

// checkQueueLimit checks the maximum length of a queue in packets.
func checkQueueLimit(c *registry.Check, packets int) { c.CheckNumber("packets", packets, 1, 1<<20) }

// TCP is the EQIF class for TCP and protocols that behave like it: drop-tail, and RED for
// packets that are ECN-capable.
type TCP struct {
	Packets int // limit for each destination
	RED     Thresholds
	Rand    *rand.Rand
}

// TCPDefault returns the class with the paper's 100 packets for each destination. DCTCP needs a
// threshold of 16 packets of mtu bytes to fill the link (Appendix B), so RED begins there and
// marks all packets from twice that on; the paper does not give its thresholds.
func TCPDefault(mtu units.Bytes, r *rand.Rand) TCP {
	return TCP{Packets: 100, RED: Thresholds{KMin: 16 * mtu, KMax: 32 * mtu, PMax: 1}, Rand: r}
}

// Check returns an error if settings are wrong.
func (d *TCP) Check() error {
	var c registry.Check
	checkQueueLimit(&c, d.Packets)
	d.RED.checkRanges(&c)
	return c.Err()
}

// JudgePacket implements Discipline: RED for ECN-capable packets, which are dropped only when the
// queue is full.
func (d *TCP) JudgePacket(q Queue, _ units.Bytes, ect bool) Verdict {
	switch {
	case q.Packets >= d.Packets:
		return Drop
	case ect && d.RED.drawMark(q.Bytes, d.Rand):
		return Mark
	}
	return Accept
}

// RDMA is the EQIF class for RDMA. It tells queue pairs to slow down by its own CNPs, which
// shortens the control loop of DCQCN. A packet that does not fit is refused if the caller can
// keep it with the NIC, and dropped otherwise.
type RDMA struct {
	Packets  int // limit for each destination
	CNP      Thresholds
	Lossless bool // the NIC can be held up
	Rand     *rand.Rand
}

// RDMAPresets lists the names that RDMAPreset accepts: the columns of Appendix B's table.
var RDMAPresets = []string{"bluefield2", "connectx4", "baseline"}

// RDMAPreset returns the class with the thresholds of Appendix B, K_low and K_high. The paper's
// upper threshold is "set to 375 packets" (§8.5), and the limit of a queue is not given: here
// it is twice that. PMax, which the paper does not give either, is 1. r draws the marks.
func RDMAPreset(name string, r *rand.Rand) RDMA {
	d := RDMA{Packets: 750, CNP: Thresholds{KMin: 150 * units.KB, KMax: 1500 * units.KB, PMax: 1}, Rand: r}
	switch name {
	case "bluefield2":
		d.CNP.KMin, d.CNP.KMax = 72*units.KB, 584*units.KB
	case "connectx4", "baseline":
	default:
		panic("eqif: unknown preset " + name)
	}
	return d
}

// Check returns an error if settings are wrong.
func (d *RDMA) Check() error {
	var c registry.Check
	checkQueueLimit(&c, d.Packets)
	d.CNP.checkRanges(&c)
	return c.Err()
}

// JudgePacket implements Discipline. Whether a packet is ECN-capable does not matter.
func (d *RDMA) JudgePacket(q Queue, _ units.Bytes, _ bool) Verdict {
	switch {
	case q.Packets >= d.Packets && d.Lossless:
		return Refuse
	case q.Packets >= d.Packets:
		return Drop
	case d.CNP.drawMark(q.Bytes, d.Rand):
		return Notify
	}
	return Accept
}

// Native is the EQIF class for transports that know EQDS: they see the queue, and a packet
// that does not fit stays with them.
type Native struct {
	Packets int // limit for each destination
}

// Check returns an error if settings are wrong.
func (d *Native) Check() error {
	var c registry.Check
	checkQueueLimit(&c, d.Packets)
	return c.Err()
}

// JudgePacket implements Discipline.
func (d *Native) JudgePacket(q Queue, _ units.Bytes, _ bool) Verdict {
	if q.Packets >= d.Packets {
		return Refuse
	}
	return Accept
}
