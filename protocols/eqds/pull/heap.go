package pull

// isBefore reports whether x is nearer to the head of the list than y.
func isBefore[O any](x, y *Sender[O]) bool {
	return x.rank < y.rank || x.rank == y.rank && x.order < y.order
}

// pushSender adds a sender to the list.
func (p *Pacer[O]) pushSender(s *Sender[O]) {
	p.heap = append(p.heap, s)
	s.index = int32(len(p.heap))
	p.siftUp(len(p.heap) - 1)
}

// popSender removes a sender from the list.
func (p *Pacer[O]) popSender(s *Sender[O]) {
	i, last := int(s.index)-1, len(p.heap)-1
	s.index = 0
	moved := p.heap[last]
	p.heap[last] = nil
	p.heap = p.heap[:last]
	if i < last {
		p.putAt(i, moved)
		p.siftDown(i)
		p.siftUp(int(moved.index) - 1)
	}
}

func (p *Pacer[O]) putAt(i int, s *Sender[O]) {
	p.heap[i] = s
	s.index = int32(i + 1)
}

func (p *Pacer[O]) siftUp(i int) {
	s := p.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !isBefore(s, p.heap[parent]) {
			break
		}
		p.putAt(i, p.heap[parent])
		i = parent
	}
	p.putAt(i, s)
}

func (p *Pacer[O]) siftDown(i int) {
	s := p.heap[i]
	for {
		child := 2*i + 1
		if child >= len(p.heap) {
			break
		}
		if child+1 < len(p.heap) && isBefore(p.heap[child+1], p.heap[child]) {
			child++
		}
		if !isBefore(p.heap[child], s) {
			break
		}
		p.putAt(i, p.heap[child])
		i = child
	}
	p.putAt(i, s)
}
