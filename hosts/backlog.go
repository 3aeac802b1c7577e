package hosts

import (
	"math"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// backlog is what waits in the service and came from one queue of the device.
type backlog struct {
	bytes units.Bytes
	full  bool
}

// Waits implements edge.Host, as does Leaves.
func (h *edgeHost) Waits(now units.Time, p *packet.Packet) { h.wait(now, p, p.Size) }

func (h *edgeHost) Leaves(now units.Time, p *packet.Packet) { h.wait(now, p, -p.Size) }

// wait adds n bytes to the backlog that p belongs to.
func (h *edgeHost) wait(now units.Time, p *packet.Packet, n units.Bytes) {
	if int(p.In) >= len(h.backlogs) {
		return
	}
	b := &h.backlogs[p.In]
	b.bytes += n
	h.waiting += n
	high := max(min(h.high, h.room-h.waiting), 0)
	if full := b.bytes > high || b.full && b.bytes > high/2; full != b.full {
		b.full = full
		h.full(now, int(p.In), full)
	}
}

// Watch makes the interface call f when more than high bytes from one queue of the host's
// device wait in the edge service, and again when they have fallen to half of that. The
// bound is lower while much waits across all queues. This leaves room in the host's own
// queue, by whose limit services drop, for what arrives before a queue is held. Watch
// does nothing without an edge service. Another call changes the bound.
func (i *Interface) Watch(queues int, high units.Bytes, f func(now units.Time, queue int, full bool)) {
	h := i.edge
	if h == nil {
		return
	}
	if h.backlogs == nil {
		h.backlogs = make([]backlog, queues)
	}
	h.high, h.full, h.room = high, f, math.MaxInt64
	for _, limit := range h.limit {
		if limit > 0 {
			h.room = min(h.room, limit/2)
		}
	}
}
