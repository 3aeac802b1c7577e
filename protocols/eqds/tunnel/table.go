package tunnel

import (
	"iter"
	"net/netip"

	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// Key names an incoming tunnel at a host.
type Key struct {
	From   netip.Addr
	Sender uint8 // EQIF of that host
}

// Table holds the incoming tunnels of a host. It is bounded, and so is each peer's part of it:
// a peer that invents sender IDs takes turns only from itself. A new tunnel replaces the least
// recently used one if that was idle for long enough, and is ignored otherwise; its sender asks
// again.
type Table[P any] struct {
	limits   Limits
	create   func(k Key) *Receiver[P]
	onRemove func(k Key, r *Receiver[P])
	tunnels  map[Key]*place[P]
	peers    map[netip.Addr]int
	order    queue.List[place[P]] // the least recently used first
	last     *place[P]            // last one used: it is mostly the next one, too
	refused  uint64
}

// Limits bound a Table. The paper has none; all are this project's.
type Limits struct {
	Tunnels int        // in total, above 0
	Peer    int        // of one address, above 0
	Idle    units.Time // how long a tunnel must be unused to be replaced
}

// DefaultLimits returns four tunnels for a peer, whose EQIFs have three classes, and the 10,000
// destinations of §8.5.
func DefaultLimits() Limits {
	return Limits{Tunnels: 10_000, Peer: 4, Idle: 10 * units.Millisecond}
}

// place is a tunnel's place in the order of use.
type place[P any] struct {
	*Receiver[P]
	key   Key
	inUse queue.Link[place[P]]
}

// NewTable returns an empty table. create makes the receiver of a new tunnel, and gone is
// called for one that was removed; by then it is closed, and what waited in it has been
// delivered.
func NewTable[P any](l Limits, create func(k Key) *Receiver[P], onRemove func(k Key, r *Receiver[P])) *Table[P] {
	return &Table[P]{limits: l, create: create, onRemove: onRemove, tunnels: map[Key]*place[P]{}, peers: map[netip.Addr]int{}}
}

// Len returns the number of tunnels.
func (t *Table[P]) Len() int { return len(t.tunnels) }

// RefusedPackets returns the number of packets that found no place.
func (t *Table[P]) RefusedPackets() uint64 { return t.refused }

// ReceiverFor returns the receiver for a packet that arrives now, or nil if there is no place for
// it.
func (t *Table[P]) ReceiverFor(now units.Time, k Key) *Receiver[P] {
	p := t.last
	if p != nil && p.key == k {
		p.used = now
		return p.Receiver
	}
	p = t.tunnels[k]
	if p == nil {
		if !t.makeRoom(now, k.From) {
			t.refused++
			return nil
		}
		p = &place[P]{Receiver: t.create(k), key: k}
		t.tunnels[k] = p
		t.peers[k.From]++
	} else {
		t.order.Remove(&p.inUse)
	}
	t.order.Push(&p.inUse, p)
	p.used, t.last = now, p
	return p.Receiver
}

// Has reports whether there is such a tunnel.
func (t *Table[P]) Has(k Key) bool { return t.tunnels[k] != nil }

// All iterates over all tunnels, the least recently used first. The loop may remove the current
// one.
func (t *Table[P]) All() iter.Seq2[Key, *Receiver[P]] {
	return func(yield func(Key, *Receiver[P]) bool) {
		for p := range t.order.All() {
			if !yield(p.key, p.Receiver) {
				return
			}
		}
	}
}

// ExpireUnused removes tunnels that were not used after since, the least recently used first, at most
// most of them. It returns how many it removed.
func (t *Table[P]) ExpireUnused(since units.Time, maxRemoved int) (n int) {
	for p := t.order.First(); n < maxRemoved && p != nil && p.used <= since; p = t.order.First() {
		t.removeReceiver(p)
		n++
	}
	return n
}

// RemoveTunnel removes a tunnel, if it is there.
func (t *Table[P]) RemoveTunnel(k Key) {
	if p := t.tunnels[k]; p != nil {
		t.removeReceiver(p)
	}
}

// makeRoom makes room for one more tunnel of a peer, if it can.
func (t *Table[P]) makeRoom(now units.Time, peer netip.Addr) bool {
	if t.peers[peer] >= t.limits.Peer {
		return t.evictReceiver(now, t.oldestOf(peer))
	}
	return len(t.tunnels) < t.limits.Tunnels || t.evictReceiver(now, t.order.First())
}

// oldestOf returns the least recently used tunnel of a peer. A peer has few, and 256 sender IDs.
func (t *Table[P]) oldestOf(peer netip.Addr) (eldest *place[P]) {
	for id := range 256 {
		if p := t.tunnels[Key{peer, uint8(id)}]; p != nil && (eldest == nil || p.used < eldest.used) {
			eldest = p
		}
	}
	return eldest
}

func (t *Table[P]) evictReceiver(now units.Time, p *place[P]) bool {
	if now-p.used < t.limits.Idle {
		return false
	}
	t.removeReceiver(p)
	return true
}

func (t *Table[P]) removeReceiver(p *place[P]) {
	if t.last == p {
		t.last = nil
	}
	t.order.Remove(&p.inUse)
	delete(t.tunnels, p.key)
	if t.peers[p.key.From]--; t.peers[p.key.From] == 0 {
		delete(t.peers, p.key.From)
	}
	p.Receiver.DropState()
	t.onRemove(p.key, p.Receiver)
}
