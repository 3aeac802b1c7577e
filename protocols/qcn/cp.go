package qcn

import (
	"math/rand/v2"

	"github.com/weftlab/weft/sim/units"
)

// MaxFb is the largest quantized feedback.
const MaxFb = 63

// CPConfig holds the parameters of a congestion point under the standard's names.
type CPConfig struct {
	// QSp is the set point of the queue (cpQSp), above 0.
	QSp units.Bytes
	// W is the weight of the queue's growth relative to its length (cpW), 2^-10 to
	// 2^10.
	W float64
	// SampleBase is the number of bytes enqueued between samples without congestion
	// (cpSampleBase), above 0.
	SampleBase units.Bytes
	// MinHeaderOctets is the minimum number of bytes of a sampled frame's MSDU that a
	// message carries (cpMinHeaderOctets), 0 to MaxMSDU.
	MinHeaderOctets units.Bytes
}

// StandardCP returns the defaults of IEEE8021-CN-MIB.
func StandardCP() CPConfig {
	return CPConfig{QSp: 26_000, W: 2, SampleBase: 150 * units.KB}
}

// CP is the congestion point of one queue. It samples frames, more often if the
// previous sample saw more congestion, and measures congestion as
//
//	cpFb = (cpQSp - cpQLen) - cpW·(cpQLen - cpQLenOld)
//
// which is negative for a queue that is too long or grows.
type CP struct {
	config CPConfig
	rand   *rand.Rand

	enqueued units.Bytes // cpEnqued: bytes left to enqueue before the next sample
	lenOld   units.Bytes // cpQLenOld: queue length at the last sample
}

// NewCP returns the congestion point of an empty queue.
func NewCP(c CPConfig, random *rand.Rand) *CP {
	return &CP{config: c, rand: random, enqueued: c.SampleBase}
}

// Sample is a measurement of a congestion point.
type Sample struct {
	Fb      uint8       // quantized -cpFb, 0 to MaxFb
	QOffset units.Bytes // cpQOffset: how much shorter than the set point the queue is
	QDelta  units.Bytes // cpQDelta: how much longer than at the last sample it is
}

// sampleShares are the shares of SampleBase to enqueue before the next sample,
// indexed by the upper three bits of the quantized feedback: 150, 75, 50, 37.5, 30,
// 25, 21.5, 18.5 KB.
var sampleShares = [8]float64{1, 1. / 2, 1. / 3, 1. / 4, 1. / 5, 1. / 6, 21.5 / 150, 18.5 / 150}

// CountFrame records that a frame of n bytes has joined the queue, which now has queue
// bytes. It returns true if a message with the sample must be sent to the source of
// the frame.
func (p *CP) CountFrame(n, queue units.Bytes) (Sample, bool) {
	if p.enqueued -= n; p.enqueued >= 0 {
		return Sample{}, false
	}
	s := p.SampleQueue(queue)
	run := float64(p.config.SampleBase) * sampleShares[s.Fb>>3] * varyBy(variation, p.rand.Float64())
	p.enqueued, p.lenOld = units.Bytes(run), queue
	return s, s.Fb > 0
}

// SampleQueue returns what a sample of a queue with queue bytes would be now. It changes
// nothing.
func (p *CP) SampleQueue(queue units.Bytes) Sample {
	s := Sample{QOffset: p.config.QSp - queue, QDelta: queue - p.lenOld}
	worst := float64(p.config.QSp) * (float64(2*p.config.W) + 1)
	fb := float64(s.QOffset) - float64(p.config.W*float64(s.QDelta))
	s.Fb = uint8(MaxFb * min(1, max(0, -fb)/worst))
	return s
}
