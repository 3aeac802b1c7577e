package qp

import "github.com/weftlab/weft/sim/units"

// RateLimit is the rate limit of a queue pair (ibv_qp_rate_limit_attr). The zero RateLimit means no
// limit.
type RateLimit struct {
	Rate          units.Rate  // on the wire; 0 means no limit. The verb counts in kb/s
	MaxBurst      units.Bytes // most bytes on the wire without a gap; at least, and if 0, a packet
	TypicalPacket units.Bytes // a hint without effect here, since gaps depend on each packet's size
}

// StaticRate returns the rate of a code of ibv_rate, as named (25 Gb/s for IBV_RATE_25_GBPS, which
// with InfiniBand stands for 25.78125 Gb/s); 0 means no limit: IBV_RATE_MAX, and invalid codes.
func StaticRate(code uint8) units.Rate {
	if int(code) < len(staticRates) {
		return staticRates[code] * units.Mbps
	}
	return 0
}

// staticRates are the rates of ibv_rate in Mb/s.
var staticRates = [maxRate + 1]units.Rate{
	2: 2_500, 5: 5_000, 3: 10_000, 6: 20_000, 4: 30_000, 7: 40_000, 8: 60_000, 9: 80_000, 10: 120_000,
	11: 14_000, 12: 56_000, 13: 112_000, 14: 168_000, 15: 25_000, 16: 100_000, 17: 200_000, 18: 300_000,
	19: 28_000, 20: 50_000, 21: 400_000, 22: 600_000, 23: 800_000, 24: 1_200_000,
}
