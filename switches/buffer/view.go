package buffer

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// Ingress is a view of the account of packets that came in through a port in one
// class.
type Ingress struct {
	Reserve, Shared, Headroom units.Bytes // used of each
	ReserveSize, HeadroomSize units.Bytes
	Threshold                 units.Bytes // of the shared part at this moment; 0 means none
	Lossless, Pausing         bool
	Peak, HeadroomPeak        units.Bytes // maximum of Reserve plus Shared, and of Headroom
	Refused                   uint64      // packets that found no room in the headroom
	Nearest                   HighWatermark
}

// Ingress returns an ingress account; in may be Own. With global PAUSE all
// priorities of a port share one account.
func (b *Buffer) Ingress(in uint16, prio uint8) Ingress {
	a := b.ingressOf(in, prio)
	s := sharedPart(a.used, a.reserve)
	return Ingress{
		Reserve: a.used - s, Shared: s, Headroom: a.headroom, ReserveSize: a.reserve, HeadroomSize: a.maxHeadroom,
		Threshold: visibleLimit(a.limit.thresholdAt(b.in.freeBytes())), Lossless: a.lossless, Pausing: a.pausing && !a.credited,
		Peak: a.peak, HeadroomPeak: a.headroomPeak, Refused: a.refused, Nearest: a.highWatermark,
	}
}

// Egress is a view of the account of one queue.
type Egress struct {
	Reserve, Shared units.Bytes // used of each
	ReserveSize     units.Bytes
	Threshold       units.Bytes // of the shared part at this moment; 0 means none
	Peak            units.Bytes
	Nearest         HighWatermark
}

// Egress returns the account of a queue.
func (b *Buffer) Egress(out int, prio uint8) Egress {
	q := b.egressOf(out, prio)
	s := sharedPart(q.used, q.reserve)
	return Egress{
		Reserve: q.used - s, Shared: s, ReserveSize: q.reserve, Threshold: visibleLimit(q.limit.thresholdAt(b.out.freeBytes())),
		Peak: q.peak, Nearest: q.highWatermark,
	}
}

// visibleLimit returns 0 for no threshold, and one byte for a threshold that admits
// nothing, as when the pool is used up.
func visibleLimit(limit units.Bytes) units.Bytes {
	if limit == math.MaxInt64 {
		return 0
	}
	return max(limit, 1)
}
