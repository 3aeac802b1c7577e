package flowtable

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
)

// index finds entries by key. It is a hash table with chains, because two look-ups for
// each packet are most of a table's cost, and a map hashes such a key field by field.
type index struct {
	buckets []*entry // a power of two; nil before the first flow
	n       int
}

// hashed is a key with its hash.
type hashed struct {
	packet.FlowKey
	hash uint64
}

// hashKey returns the hash of a key. It is not Packet.Hash, because a sender may change
// that to take another path.
func hashKey(k *packet.FlowKey) uint64 {
	h := packet.FlowHash(packet.FoldAddress(k.From), packet.FoldAddress(k.To), k.Proto, k.SrcPort, k.DstPort)
	return sim.MixBits(h ^ uint64(k.QP)<<32 ^ uint64(uint32(k.Flow)))
}

// findKey returns the entry of a key, or nil.
func (x *index) findKey(k *hashed) *entry {
	if x.n == 0 {
		return nil
	}
	for e := x.buckets[k.hash&uint64(len(x.buckets)-1)]; e != nil; e = e.chain {
		if e.hash == k.hash && e.Key == k.FlowKey {
			return e
		}
	}
	return nil
}

// putEntry adds an entry.
func (x *index) putEntry(e *entry) {
	if x.n == len(x.buckets) {
		x.growBuckets()
	}
	x.n++
	x.chainEntry(e)
}

// growBuckets doubles the number of buckets.
func (x *index) growBuckets() {
	old := x.buckets
	x.buckets = make([]*entry, max(8, 2*len(old)))
	for _, e := range old {
		for e != nil {
			next := e.chain
			x.chainEntry(e)
			e = next
		}
	}
}

// chainEntry puts an entry into its bucket.
func (x *index) chainEntry(e *entry) {
	b := &x.buckets[e.hash&uint64(len(x.buckets)-1)]
	e.chain, *b = *b, e
}

// dropEntry removes an entry, which must be present.
func (x *index) dropEntry(e *entry) {
	b := &x.buckets[e.hash&uint64(len(x.buckets)-1)]
	for *b != e {
		b = &(*b).chain
	}
	*b, e.chain = e.chain, nil
	x.n--
}
