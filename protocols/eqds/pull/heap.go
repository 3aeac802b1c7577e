package pull

// before reports whether x is nearer to the head of the list than y.
func before[O any](x, y *Sender[O]) bool {
	return x.rank < y.rank || x.rank == y.rank && x.order < y.order
}

// push adds a sender to the list.
func (p *Pacer[O]) push(s *Sender[O]) {
	p.heap = append(p.heap, s)
	s.index = int32(len(p.heap))
	p.up(len(p.heap) - 1)
}

// pop removes a sender from the list.
func (p *Pacer[O]) pop(s *Sender[O]) {
	i, last := int(s.index)-1, len(p.heap)-1
	s.index = 0
	moved := p.heap[last]
	p.heap[last] = nil
	p.heap = p.heap[:last]
	if i < last {
		p.put(i, moved)
		p.down(i)
		p.up(int(moved.index) - 1)
	}
}

func (p *Pacer[O]) put(i int, s *Sender[O]) {
	p.heap[i] = s
	s.index = int32(i + 1)
}

func (p *Pacer[O]) up(i int) {
	s := p.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !before(s, p.heap[parent]) {
			break
		}
		p.put(i, p.heap[parent])
		i = parent
	}
	p.put(i, s)
}

func (p *Pacer[O]) down(i int) {
	s := p.heap[i]
	for {
		child := 2*i + 1
		if child >= len(p.heap) {
			break
		}
		if child+1 < len(p.heap) && before(p.heap[child+1], p.heap[child]) {
			child++
		}
		if !before(p.heap[child], s) {
			break
		}
		p.put(i, p.heap[child])
		i = child
	}
	p.put(i, s)
}
