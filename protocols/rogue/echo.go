package rogue

import "github.com/weftlab/weft/sim/units"

// Echo is the immediate data with which the receiver of a batch over UC answers its last
// packet (§3.4). The format is this project's: of the 32 bits, 12 are the lowest bits of the
// number of the batch, and 20 are the response time in units of EchoUnit.
type Echo struct {
	Batch    uint16     // modulo EchoBatches
	Response units.Time // from the arrival of the immediate data to the posting of the answer
	Late     bool       // the response took longer than the format can express
}

// The ranges of an Echo.
const (
	EchoBatches = 1 << 12
	EchoUnit    = 16 * units.Nanosecond
	maxEcho     = 1<<20 - 1 // the response took longer: 16.8 ms or more
)

// Immediate returns the echo as immediate data.
func (e Echo) Immediate() uint32 {
	t := max(0, e.Response) / EchoUnit
	if e.Late || t > maxEcho {
		t = maxEcho
	}
	return uint32(e.Batch%EchoBatches)<<20 | uint32(t)
}

// EchoOf reads immediate data.
func EchoOf(imm uint32) Echo {
	t := imm & maxEcho
	return Echo{Batch: uint16(imm >> 20), Response: units.Time(t) * EchoUnit, Late: t == maxEcho}
}
