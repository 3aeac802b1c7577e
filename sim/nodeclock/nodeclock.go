// Package nodeclock models the clock of a node: an oscillator that runs a little fast or slow,
// and the variation of the time between a port's decision to send and the first bit.
//
// A nil *Clock is exact. Its methods return what they are given, so code with clocks needs no
// case for nodes without one.
package nodeclock

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// PPB is the relative error of a clock in parts per billion. A clock with a positive error is
// fast: it sends more in a second than one that is exact.
type PPB int64

// PPM is one part per million.
const PPM PPB = 1000

// Bounds of settings. Both are far beyond real hardware: IEEE 802.3 allows 100 ppm.
const (
	MaxError  = 1000 * PPM
	MaxJitter = units.Millisecond
)

// Jitter is the bound of the random delay of each packet. The zero Jitter is none.
type Jitter struct {
	Time units.Time // 0 to MaxJitter
	// Packet means the time that the longest packet takes on the link, up to MaxPacketJitter,
	// in place of Time.
	Packet bool
}

// MaxPacketJitter is the most that Jitter.Packet means: a packet of 1500 B at 615 Mb/s.
const MaxPacketJitter = 20 * units.Microsecond

// On returns the bound on a link of a rate whose longest packet takes so many bytes of it. It is 0
// on a link without a rate, which serialises nothing.
func (j Jitter) On(r units.Rate, longest units.Bytes) units.Time {
	switch {
	case r == 0:
		return 0
	case j.Packet:
		return min(r.TimeOf(longest), MaxPacketJitter)
	}
	return j.Time
}

// String returns the bound as a lab file has it.
func (j Jitter) String() string {
	if j.Packet {
		return "packet"
	}
	return j.Time.String()
}

// String returns the error in parts per million with its sign, such as "+37.5 ppm".
func (e PPB) String() string {
	if e == 0 {
		return "0 ppm"
	}
	return fmt.Sprintf("%+.6g ppm", float64(e)/float64(PPM))
}

// Settings describe a clock. The zero Settings is exact.
type Settings struct {
	Error  PPB // -MaxError to MaxError
	Jitter Jitter
}

// Real describes the clocks of real hardware: Real.Error bounds the error of each.
//
// IEEE 802.3 allows line clocks an error of 100 ppm ("156.25 MHz ± 100 ppm for 10 Gb/s operation",
// AMD PG210). That oscillators are twice as good is an assumption, and so is the jitter: some 100 ns
// of pipelines and buses are about a packet at 100 Gb/s, and slower links keep this proportion.
var Real = Settings{Error: 50 * PPM, Jitter: Jitter{Packet: true}}

// IsExact reports whether the clock is exact.
func (s Settings) IsExact() bool { return s == Settings{} }

// String describes the clock, such as "+37.5 ppm, jitter 100ns", or "exact".
func (s Settings) String() string {
	switch {
	case s.IsExact():
		return "exact"
	case s.Jitter == Jitter{}:
		return s.Error.String()
	}
	return fmt.Sprintf("%v, jitter %v", s.Error, s.Jitter)
}

// ticks returns how many ticks the clock has in perBillion ticks of an exact one.
func (s Settings) ticks() uint64 { return uint64(perBillion + int64(s.Error)) }

// TrueRate returns the rate that the clock makes of r. An unlimited rate stays so.
func (s Settings) TrueRate(r units.Rate) units.Rate {
	if r <= 0 || r > math.MaxInt64/2 {
		return r
	}
	t, _ := scale(units.Time(r), s.ticks(), perBillion)
	return max(units.Rate(t), 1)
}

// DrawError draws the error of a node's clock from the seed of a run, uniformly within ± bound.
// It depends on the seed and the name alone.
func DrawError(seed uint64, node string, bound PPB) PPB {
	return PPB(sim.NewRand(seed, "clock "+node).Int64N(2*int64(bound)+1)) - bound
}

// Clock is the clock of a node. It does not change, so engines may share it.
type Clock struct {
	Settings
	ticks uint64 // of this clock in perBillion ticks of an exact one
	name  uint64 // of the stream of jitters
}

const perBillion = 1_000_000_000

// New returns the clock of a named node or port; nil if it is exact. The name and the seed
// determine the jitter of each packet.
func New(s Settings, seed uint64, name string) *Clock {
	if s.IsExact() {
		return nil
	}
	return &Clock{Settings: s, ticks: s.ticks(), name: sim.NewRand(seed, "jitter "+name).Uint64()}
}

// scale returns t · num / den, and the remainder. The quotient fits 63 bits.
func scale(t units.Time, num, den uint64) (quotient units.Time, rest uint64) {
	high, low := bits.Mul64(uint64(t), num)
	q, rest := bits.Div64(high, low, den)
	return units.Time(q), rest
}

// farAway is a time that no run reaches, from which on times are not converted.
const farAway = units.Never / 2

// ReadAt returns what the clock shows at an emulated time. All clocks show 0 at 0.
func (c *Clock) ReadAt(now units.Time) units.Time {
	if c == nil || now <= 0 || now >= farAway {
		return now
	}
	t, _ := scale(now, c.ticks, perBillion)
	return t
}

// ReachedAt returns the first emulated time at which the clock shows at least t.
func (c *Clock) ReachedAt(t units.Time) units.Time {
	if c == nil || t <= 0 || t >= farAway {
		return t
	}
	now, rest := scale(t, perBillion, c.ticks)
	if rest > 0 {
		now++
	}
	return now
}

// TrueRate returns the rate that the clock makes of r. An unlimited rate stays so.
func (c *Clock) TrueRate(r units.Rate) units.Rate {
	if c == nil {
		return r
	}
	return c.Settings.TrueRate(r)
}

// TrueTime returns how long the n-th of several equal times takes that the clock measures as t.
// It is a whole number of picoseconds for each n, such that their mean is exact.
func (c *Clock) TrueTime(t units.Time, n uint64) units.Time {
	if c == nil || t <= 0 || t >= farAway {
		return t
	}
	whole, rest := scale(t, perBillion, c.ticks)
	part, _ := bits.Div64(rest, 0, c.ticks)
	if n*golden < part {
		whole++
	}
	return whole
}

// golden is 2⁶⁴ divided by the golden ratio: its multiples are spread evenly over 64 bits.
const golden = 0x9e3779b97f4a7c15

// DelayOf returns the delay of the n-th packet of the clock's port, from 0 to bound. It depends on
// nothing else.
func (c *Clock) DelayOf(n uint64, bound units.Time) units.Time {
	delay, _ := bits.Mul64(sim.MixBits(c.name+n*golden), uint64(bound)+1)
	return units.Time(delay)
}
