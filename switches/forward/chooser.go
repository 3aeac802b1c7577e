package forward

import (
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Chooser chooses for one switch.
type Chooser struct {
	mode mode
	seed uint64 // of hashes
	rand *rand.Rand

	turn []uint32 // round-robin: by group, packets so far

	gap      units.Time
	flowlets []flowlet // by hash

	field  Field
	divide uint32
}

type mode uint8

const (
	ecmp mode = iota
	random
	roundRobin
	flowlets
	entropy
)

// flowlet is packets of a flow that follow each other closely.
type flowlet struct {
	until units.Time // it ends unless a packet comes before
	draw  uint64     // decides its way
}

// New makes a chooser. Seed decides how flows fall on ways by their hash;
// random draws what is drawn.
func New(c Config, seed uint64, random *rand.Rand) *Chooser {
	h := &Chooser{mode: mode(c.Spread), seed: packet.Mix(seed), rand: random}
	switch {
	case c.Flowlet != nil:
		size := c.Flowlet.Table
		if size == 0 {
			size = DefaultTable
		}
		h.mode, h.gap, h.flowlets = flowlets, c.Flowlet.Gap, make([]flowlet, size)
	case c.Entropy != nil:
		h.mode, h.field, h.divide = entropy, c.Entropy.Field, max(uint32(c.Entropy.Divide), 1)
	}
	return h
}

// SetGroups says how many sets of ways there are, and forgets whose turn it
// was in them.
func (h *Chooser) SetGroups(n int) {
	if h.mode == roundRobin {
		h.turn = make([]uint32, n)
	}
}

// Choice is what decides the way of one packet, whatever the number of ways.
type Choice struct {
	number uint64
	modulo bool // the number counts; otherwise its bits are random
}

// Choose decides about a packet, whose ways are those of a group.
func (h *Chooser) Choose(now units.Time, p *packet.Packet, group uint16) Choice {
	switch h.mode {
	case random:
		return Choice{h.rand.Uint64(), false}
	case roundRobin:
		h.turn[group]++
		return Choice{uint64(h.turn[group] - 1), true}
	case flowlets:
		return Choice{h.flowlet(now, p).draw, false}
	case entropy:
		if v := h.value(p); v != 0 {
			return Choice{uint64(v / h.divide), true}
		}
	}
	return Choice{packet.Mix(p.Hash ^ h.seed), false}
}

// Stateful tells whether a choice depends on those before it and changes those
// behind it.
func (h *Chooser) Stateful() bool { return h.mode != ecmp && h.mode != entropy }

// flowlet gives the flowlet that a packet belongs to. What an entry keeps is
// not a way but what decides it, so flows to different places may share one.
func (h *Chooser) flowlet(now units.Time, p *packet.Packet) *flowlet {
	f := &h.flowlets[scale(uint32(packet.Mix(p.Hash^h.seed)>>32), uint32(len(h.flowlets)))]
	if now >= f.until {
		f.draw = h.rand.Uint64()
	}
	f.until = now + h.gap
	return f
}

// value is the field by which the source chooses, 0 where there is none.
func (h *Chooser) value(p *packet.Packet) uint32 {
	switch {
	case h.field == FlowLabel && p.Version == 6:
		return p.Label
	case h.field == SourcePort && p.Proto == wire.ProtoUDP:
		return uint32(p.SrcPort)
	}
	return 0
}

// Among gives one of n ways, 0 to n-1.
func (c Choice) Among(n uint32) uint32 {
	if c.modulo {
		return uint32(c.number) % n
	}
	return scale(uint32(c.number>>32), n)
}

// Others gives one of others ways, 0 to others-1, for a packet that cannot
// take the one that Among has given it among n. It depends on what Among did
// not look at, so such packets spread evenly over the rest.
func (c Choice) Others(n, others uint32) uint32 {
	if c.modulo {
		return uint32(c.number) / n % others
	}
	return scale(uint32(c.number), others)
}

// scale makes a number from 0 to n-1 of 32 random bits, without the bias or
// the cost of a division.
func scale(bits, n uint32) uint32 { return uint32(uint64(bits) * uint64(n) >> 32) }
