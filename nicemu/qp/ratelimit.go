package qp

import "github.com/weftlab/weft/sim/units"

// RateLimit is the limit of a queue pair's rate (ibv_qp_rate_limit_attr). The zero
// RateLimit is none.
type RateLimit struct {
	Rate          units.Rate  // 0 is without limit
	MaxBurst      units.Bytes // what may leave without a gap, on the wire; 0 is a packet
	TypicalPacket units.Bytes // a hint, which has no effect here
}
