package nicemu

import "github.com/weftlab/weft/nicemu/qp"

// firstNumber is the lowest queue pair number, as with rdma_rxe.
const firstNumber = 17

// restBefore is the number of freed numbers needed before one is reused, so that late packets of an
// old queue pair do not reach a new one.
const restBefore = 4096

// numbers assigns numbers to queue pairs and finds queue pairs by number.
type numbers struct {
	slots   []*QP
	freed   []uint32 // oldest first
	aliases aliases
}

// nextNumber returns the number for a new queue pair; false if all are in use.
func (n *numbers) nextNumber() (uint32, bool) {
	end := uint32(qp.MaxNumber + 1)
	if n.aliases.first > 0 {
		end = n.aliases.first
	}
	switch {
	case firstNumber+uint32(len(n.slots)) < end && len(n.freed) <= restBefore:
		return firstNumber + uint32(len(n.slots)), true
	case len(n.freed) > 0:
		return n.freed[0], true
	}
	return 0, false
}

// addQP enters a queue pair, which has next's number.
func (n *numbers) addQP(q *QP) {
	i := q.Number() - firstNumber
	if int(i) == len(n.slots) {
		n.slots = append(n.slots, q)
		return
	}
	n.freed = n.freed[1:]
	n.slots[i] = q
}

func (n *numbers) removeQP(q *QP) {
	n.slots[q.Number()-firstNumber] = nil
	n.freed = append(n.freed, q.Number())
}

// findQP returns the queue pair with a number; nil if there is none.
func (n *numbers) findQP(number uint32) *QP {
	if i := number - firstNumber; int(i) < len(n.slots) {
		return n.slots[i]
	}
	if n.aliases.first > 0 && number >= n.aliases.first {
		return n.aliases.named[number]
	}
	return nil
}

// allQPs returns the queue pairs by rising number.
func (n *numbers) allQPs() []*QP {
	list := make([]*QP, 0, len(n.slots)-len(n.freed))
	for _, q := range n.slots {
		if q != nil {
			list = append(list, q)
		}
	}
	return list
}
