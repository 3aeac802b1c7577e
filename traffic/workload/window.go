package workload

// windowBits is how far back a window remembers, in packets.
const windowBits = 4096

// window tells new packets from late ones and from duplicates by their sequence
// numbers, which may wrap around to 0. A packet that is late by windowBits or
// more counts as a duplicate.
type window struct {
	next uint32 // one above the highest number seen
	bits [windowBits / 64]uint64
}

// arrival says how a packet relates to earlier ones.
type arrival uint8

const (
	inOrder arrival = iota
	late
	again
)

func (w *window) addSequence(seq uint32) arrival {
	if int32(seq-w.next) >= 0 { // RFC 1982: also across the wrap to 0
		// The skipped numbers have not been seen: clear their bits.
		from := w.next
		if seq-from >= windowBits {
			w.bits = [windowBits / 64]uint64{}
			from = seq
		}
		for ; from != seq; from++ {
			w.bits[from/64%(windowBits/64)] &^= 1 << (from % 64)
		}
		w.bits[seq/64%(windowBits/64)] |= 1 << (seq % 64)
		w.next = seq + 1
		return inOrder
	}
	if w.next-seq > windowBits {
		return again
	}
	bit := uint64(1) << (seq % 64)
	word := &w.bits[seq/64%(windowBits/64)]
	if *word&bit != 0 {
		return again
	}
	*word |= bit
	return late
}
