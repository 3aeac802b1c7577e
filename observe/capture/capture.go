// Package capture carries packets from the engine's thread into a pcapng file,
// pipe or HTTP stream. The engine puts packets into a Tap, at the cost of a
// copy; everything else (filter, format, writing) happens on the reader's side,
// in Run.
//
// The filter is tcpdump's own compiler and x/net/bpf's machine. A full ring counts an
// overrun; in virtual time the producer waits instead.
package capture

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weftlab/weft/observe/pcapng"
	"github.com/weftlab/weft/sim/units"
)

// defaultRing is the size of the ring if Options does not set it.
const defaultRing = 16 << 20

// Interface is one port that a capture watches.
type Interface struct {
	Name        string     // such as "s1:3"
	Description string     // "" = none
	Speed       units.Rate // 0 = not limited
}

// Options says what a capture takes and how it is written.
type Options struct {
	Interfaces []Interface
	Comment    string    // about the whole file: the lab, its clock and dilation
	SnapLen    int       // bytes kept of each packet, up to 262144; 0 = 262144
	Filter     string    // tcpdump expression, on whole packets; "" = all
	Epoch      time.Time // instant of emulated time 0, from 1970 to 2261; the zero Time means 1970-01-01T00:00:00Z
	Ring       int       // bytes between producer and consumer; 0 = 16 MiB. It is raised to a power of two with room for two packets
	Wait       bool      // the producer waits for room instead of dropping, so that in virtual time results do not depend on the disk
	Count      uint64    // end after this many packets written; 0 = no end

	// Describe returns the comment for a packet whose Fate is not 0. Run calls
	// it on its own goroutine. Nil = no comments.
	Describe func(port int32, dir Direction, fate uint8, queue units.Bytes) string
}

// Capture is one capture, from New to the end of Run.
type Capture struct {
	options Options
	epoch   int64 // ns since 1970
	filter  *filter
	tap     Tap
	started atomic.Bool
}

// New prepares a capture. It takes milliseconds, for the memory of the ring and
// for tcpdump, which compiles the filter: too long for the engine's thread. It
// fails if an option is out of range, the filter cannot be compiled or tcpdump
// is missing.
func New(o Options) (*Capture, error) {
	if len(o.Interfaces) == 0 {
		return nil, errors.New("capture: no interface to watch")
	}
	if o.SnapLen < 0 || o.SnapLen > pcapng.MaxPacket {
		return nil, fmt.Errorf("capture: a snap length of %d bytes is outside 0 to %d", o.SnapLen, pcapng.MaxPacket)
	}
	if o.SnapLen == 0 {
		o.SnapLen = pcapng.MaxPacket
	}
	if o.Ring < 0 || o.Ring > 1<<40 {
		return nil, fmt.Errorf("capture: a ring of %d bytes is outside 0 to 1 TiB", o.Ring)
	}
	if o.Ring == 0 {
		o.Ring = defaultRing
	}
	if o.Epoch.IsZero() {
		o.Epoch = time.Unix(0, 0)
	}
	if y := o.Epoch.UTC().Year(); y < 1970 || y > 2261 {
		return nil, fmt.Errorf("capture: time cannot begin at %v: a file holds 1970 to 2261", o.Epoch)
	}
	f, err := newFilter(o.Filter)
	if err != nil {
		return nil, err
	}
	keep := o.SnapLen
	if f != nil {
		// The filter sees packets before they are cut.
		keep = pcapng.MaxPacket
	}
	return &Capture{
		options: o,
		epoch:   o.Epoch.UnixNano(),
		filter:  f,
		tap: Tap{
			ring:     newRing(o.Ring, recordHeader+keep),
			keep:     keep,
			wait:     o.Wait,
			overruns: make([]atomic.Uint64, len(o.Interfaces)),
		},
	}, nil
}

// Tap is the producer's end.
func (c *Capture) Tap() *Tap { return &c.tap }

// Close ends the capture: Run writes what has been put so far and returns. Put
// does nothing from then on.
func (c *Capture) Close() { c.tap.closed.Store(true) }
