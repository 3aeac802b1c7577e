package capture

import (
	"sync/atomic"
	"time"

	"github.com/weftlab/weft/observe/pcapng"
	"github.com/weftlab/weft/sim/units"
)

// Direction says in which direction a packet passed its port.
type Direction = pcapng.Direction

// Directions as seen by the port.
const (
	In  = pcapng.Inbound  // the port received the packet
	Out = pcapng.Outbound // the port sent it
)

// Packet is one packet at one port.
type Packet struct {
	At       units.Time  // emulated time
	Port     int32       // index into Options.Interfaces
	Dir      Direction   // In or Out
	Data     []byte      // from the destination MAC, without FCS
	Length   int32       // bytes before Data was cut; below len(Data) it counts as len(Data)
	Fate     uint8       // 0 = nothing special; otherwise a code for Options.Describe
	Queue    units.Bytes // depth of the queue concerned, if Fate is not 0
	FCSError bool
}

// waitNap is how long a producer that waits for room sleeps between checks.
const waitNap = 100 * time.Microsecond

// Tap is the producer's end of a capture. It serves a single producer.
type Tap struct {
	ring     *ring
	keep     int             // bytes of a packet that go into the ring
	wait     bool            // Options.Wait
	overruns []atomic.Uint64 // by port; written by the producer
	closed   atomic.Bool
}

// PutPacket copies p into the capture. It never blocks and never allocates; if the
// consumer is too far behind, the packet is dropped and counted as an overrun.
// With Options.Wait it sleeps until there is room instead, which Run makes.
// After the end of the capture it does nothing. It panics if p.Port is not the
// index of an interface.
func (t *Tap) PutPacket(p Packet) {
	if t.closed.Load() {
		return
	}
	overruns := &t.overruns[p.Port]
	n := recordHeader + min(len(p.Data), t.keep)
	b := t.ring.reserveRecord(n)
	for b == nil && t.wait && !t.closed.Load() {
		time.Sleep(waitNap)
		b = t.ring.reserveRecord(n)
	}
	if b == nil {
		overruns.Add(1)
		return
	}
	encodeRecord(b, &p, overruns.Load())
	t.ring.commitRecord()
}

// IsClosed reports whether the capture has ended, or is about to: the producer
// may release the tap.
func (t *Tap) IsClosed() bool { return t.closed.Load() }
