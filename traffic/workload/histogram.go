package workload

import "math/bits"

// histogram counts lengths of time in nanoseconds to two significant digits. It uses
// HdrHistogram's buckets, but keeps only those between the shortest and the longest
// time: delays of a flow lie close together, and files have thousands of flows. The
// zero histogram is empty.
type histogram struct {
	total  uint64
	first  int // number of the bucket of counts[0]
	counts []uint64
}

const (
	// subBits sets the resolution: times below 2<<subBits have a bucket each, and
	// longer ones 1<<subBits buckets for each doubling, so a bucket is at most 1/128
	// of the time wide.
	subBits = 7
	// bucketStep is how many buckets a histogram allocates at a time.
	bucketStep = 32
)

// bucketOf returns the number of the bucket of a time.
func bucketOf(ns uint64) int {
	shift := max(bits.Len64(ns)-subBits-1, 0)
	return shift<<subBits + int(ns>>shift)
}

// longestIn returns the longest time in a bucket.
func longestIn(bucket int) int64 {
	shift := max(bucket>>subBits-1, 0)
	return int64(bucket-shift<<subBits+1)<<shift - 1
}

// addTime counts a time, which is not negative.
func (h *histogram) addTime(ns int64) {
	i := bucketOf(uint64(ns)) - h.first
	if uint(i) >= uint(len(h.counts)) {
		i = h.growTo(i + h.first)
	}
	h.counts[i]++
	h.total++
}

// growTo makes room for a bucket and returns its index in counts.
func (h *histogram) growTo(bucket int) int {
	from := bucket &^ (bucketStep - 1)
	to := from + bucketStep
	if h.counts != nil {
		from, to = min(from, h.first), max(to, h.first+len(h.counts))
	}
	counts := make([]uint64, to-from)
	copy(counts[max(h.first-from, 0):], h.counts)
	h.first, h.counts = from, counts
	return bucket - from
}

// percentile returns a percentile, 0 to 100: the time whose rank is nearest to it.
func (h *histogram) percentile(percent float64) int64 {
	return h.timeOfRank(min(max(uint64(percent/100*float64(h.total)+0.5), 1), h.total))
}

// timeOfRank returns the longest time in the bucket that contains a rank, from 1 to total; 0
// for an empty histogram.
func (h *histogram) timeOfRank(rank uint64) int64 {
	for i, n := range h.counts {
		if rank <= n {
			return longestIn(h.first + i)
		}
		rank -= n
	}
	return 0
}
