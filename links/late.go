package links

import "github.com/weftlab/weft/packet"

// lateQueue is a binary heap of packets by time of arrival, first in first out among
// equal times. Only links with disorder use it.
type lateQueue struct {
	packets []*packet.Packet
	order   []uint64 // insertion order, parallel to packets
	count   uint64
}

func (q *lateQueue) isLess(i, j int) bool {
	a, b := q.packets[i].At, q.packets[j].At
	return a < b || a == b && q.order[i] < q.order[j]
}

func (q *lateQueue) swapAt(i, j int) {
	q.packets[i], q.packets[j] = q.packets[j], q.packets[i]
	q.order[i], q.order[j] = q.order[j], q.order[i]
}

func (q *lateQueue) length() int { return len(q.packets) }

func (q *lateQueue) peekPacket() *packet.Packet {
	return q.packets[0]
}

func (q *lateQueue) pushPacket(p *packet.Packet) {
	q.packets = append(q.packets, p)
	q.order = append(q.order, q.count)
	q.count++
	for i := len(q.packets) - 1; i > 0 && q.isLess(i, (i-1)/2); i = (i - 1) / 2 {
		q.swapAt(i, (i-1)/2)
	}
}

func (q *lateQueue) popPacket() *packet.Packet {
	p := q.packets[0]
	last := len(q.packets) - 1
	q.swapAt(0, last)
	q.packets, q.order = q.packets[:last], q.order[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return p
		}
		if c+1 < last && q.isLess(c+1, c) {
			c++
		}
		if !q.isLess(c, i) {
			return p
		}
		q.swapAt(i, c)
		i = c
	}
}
