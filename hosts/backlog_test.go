package hosts

import (
	"testing"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// TestBacklog_HoldsFullQueuesAndReleasesThem: a queue of a real host's device is held while
// too much of what came from it waits, and at a lower bound while much waits of all queues;
// never for ever.
func TestBacklog_HoldsFullQueuesAndReleasesThem(t *testing.T) {
	iface := newWorld(nil).interfaces[0]
	var limit [class.Count]units.Bytes
	limit[0] = units.MB
	iface.AddEdge(edge.Choice{Settings: &holds{}}, limit, nil)
	held := map[int]bool{}
	iface.Watch(16, 100*units.KB, func(_ units.Time, queue int, full bool) {
		if held[queue] == full {
			t.Errorf("told twice that queue %d is full: %v", queue, full)
		}
		held[queue] = full
	})
	waits := make([]int, 41)
	move := func(queue, packets int) {
		p := &packet.Packet{In: uint16(queue), Size: 1000}
		for ; packets > 0; packets-- {
			waits[queue]++
			iface.edge.Waits(0, p)
		}
		for ; packets < 0; packets++ {
			waits[queue]--
			iface.edge.Leaves(0, p)
		}
	}
	for _, c := range []struct {
		queue, packets int
		want           bool
	}{{3, 100, false}, {3, 1, true}, {3, -50, true}, {3, -1, false}, {3, 60, true}} {
		if move(c.queue, c.packets); held[c.queue] != c.want {
			t.Errorf("with %d KB waiting queue %d is full: %v", waits[c.queue], c.queue, held[c.queue])
		}
	}
	// Like senders: on until they are held.
	for q := range 16 {
		for !held[q] {
			move(q, 1)
		}
	}
	if iface.edge.waiting > 500*units.KB+16*1000 {
		t.Errorf("%v wait of a queue of 1MB", iface.edge.waiting)
	}
	for q := range 16 {
		move(q, -waits[q])
		if held[q] {
			t.Errorf("queue %d is empty and held", q)
		}
	}
	move(40, 1) // from a queue that is not watched
	packets, bytes := iface.QueueLength(0)
	if packets != 0 || bytes != 0 || iface.edge.waiting != 0 {
		t.Errorf("%d packets, %v, %v", packets, bytes, iface.edge.waiting)
	}
}
