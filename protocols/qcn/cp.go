package qcn

import (
	"math/rand/v2"

	"github.com/weftlab/weft/sim/units"
)

// MaxFb is the largest quantized feedback.
const MaxFb = 63

// CPConfig has the parameters of a congestion point by the standard's names.
type CPConfig struct {
	// QSp is the set point of the queue (cpQSp), above 0.
	QSp units.Bytes
	// W is the weight of the queue's growth against its length (cpW), 2^-10 to 2^10.
	W float64
	// SampleBase is what is enqueued between samples while there is no congestion
	// (cpSampleBase), above 0.
	SampleBase units.Bytes
	// MinHeaderOctets is how much of a sampled frame's MSDU a message carries at least
	// (cpMinHeaderOctets), 0 to MaxMSDU.
	MinHeaderOctets units.Bytes
}

// StandardCP has the defaults of IEEE8021-CN-MIB.
func StandardCP() CPConfig {
	return CPConfig{QSp: 26_000, W: 2, SampleBase: 150 * units.KB}
}

// CP is the congestion point of one queue. It samples frames, the more often the worse
// the congestion at the sample before, and measures that by
//
//	cpFb = (cpQSp - cpQLen) - cpW·(cpQLen - cpQLenOld)
//
// which is below 0 for a queue that is too long or grows.
type CP struct {
	config CPConfig
	rand   *rand.Rand

	enqueued units.Bytes // cpEnqued: what may still be enqueued before the next sample
	lenOld   units.Bytes // cpQLenOld: the queue at the last sample
}

// NewCP makes the congestion point of an empty queue.
func NewCP(c CPConfig, random *rand.Rand) *CP {
	return &CP{config: c, rand: random, enqueued: c.SampleBase}
}

// Sample is what a congestion point measures.
type Sample struct {
	Fb      uint8       // quantized -cpFb, 0 to MaxFb
	QOffset units.Bytes // cpQOffset: how much shorter than the set point the queue is
	QDelta  units.Bytes // cpQDelta: how much longer than at the last sample it is
}

// sampleShares are what of SampleBase is enqueued until the next sample, by the upper
// three bits of the quantized feedback: 150, 75, 50, 37.5, 30, 25, 21.5, 18.5 KB.
var sampleShares = [8]float64{1, 1. / 2, 1. / 3, 1. / 4, 1. / 5, 1. / 6, 21.5 / 150, 18.5 / 150}

// Arrive tells of a frame of n bytes that has joined the queue, which has queue bytes
// now. The answer is true if a message with that sample is to be sent to where the
// frame came from.
func (p *CP) Arrive(n, queue units.Bytes) (Sample, bool) {
	if p.enqueued -= n; p.enqueued >= 0 {
		return Sample{}, false
	}
	s := p.Measure(queue)
	run := float64(p.config.SampleBase) * sampleShares[s.Fb>>3] * vary(variation, p.rand.Float64())
	p.enqueued, p.lenOld = units.Bytes(run), queue
	return s, s.Fb > 0
}

// Measure is what a sample of a queue with queue bytes is now. It changes nothing.
func (p *CP) Measure(queue units.Bytes) Sample {
	s := Sample{QOffset: p.config.QSp - queue, QDelta: queue - p.lenOld}
	worst := float64(p.config.QSp) * (float64(2*p.config.W) + 1)
	fb := float64(s.QOffset) - float64(p.config.W*float64(s.QDelta))
	s.Fb = uint8(MaxFb * min(1, max(0, -fb)/worst))
	return s
}
