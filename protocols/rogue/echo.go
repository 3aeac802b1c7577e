package rogue

import "github.com/weftlab/weft/sim/units"

// Echo is the immediate data by which the receiver of a batch over UC answers the last
// packet of it (§3.4). The 32 bits, whose format is this project's, are the lowest 12 of the
// number of the batch, and 20 with the time of the response in units of EchoUnit.
type Echo struct {
	Batch    uint16     // modulo EchoBatches
	Response units.Time // from when the immediate data came to when the answer was posted
	Late     bool       // the response took longer than the format can say
}

// The ranges of an Echo.
const (
	EchoBatches = 1 << 12
	EchoUnit    = 16 * units.Nanosecond
	echoMost    = 1<<20 - 1 // says that the response took longer: from 16.8 ms on
)

// Immediate is the echo as immediate data.
func (e Echo) Immediate() uint32 {
	t := max(0, e.Response) / EchoUnit
	if e.Late || t > echoMost {
		t = echoMost
	}
	return uint32(e.Batch%EchoBatches)<<20 | uint32(t)
}

// EchoOf reads immediate data.
func EchoOf(imm uint32) Echo {
	t := imm & echoMost
	return Echo{Batch: uint16(imm >> 20), Response: units.Time(t) * EchoUnit, Late: t == echoMost}
}
