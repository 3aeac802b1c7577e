package pattern

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Destinations says where the flows of a host go: AnyOther, Partners or Weights.
type Destinations interface {
	makeRoute(s Stream, from []int) (route, error)
}

// route is a Destinations applied to given senders.
type route struct {
	receivers []int
	share     func(i int) float64                // of the load, by sender; 1 on average; nil means 1
	to        func(i int) func(r *rand.Rand) int // chooses destinations of the i-th sender
	// receiversOf yields what to may choose for the i-th sender, and possibly the sender.
	receiversOf func(i int) iter.Seq[int]
}

// AnyOther chooses the destination of each flow among hosts, with equal probability for
// all but the sender.
type AnyOther struct {
	Among []int // nil means the hosts that send
}

func (d AnyOther) makeRoute(_ Stream, from []int) (route, error) {
	among := d.Among
	if among == nil {
		among = from
	}
	if err := checkHosts("destinations", among, 1); err != nil {
		return route{}, err
	}
	if len(among) == 1 && slices.Contains(from, among[0]) {
		return route{}, fmt.Errorf("host %d has no other host to send to", among[0])
	}
	return route{receivers: among, receiversOf: func(int) iter.Seq[int] { return slices.Values(among) }, to: func(i int) func(*rand.Rand) int {
		self := slices.Index(among, from[i])
		n := len(among)
		if self >= 0 {
			n--
		}
		return func(r *rand.Rand) int {
			j := r.IntN(n)
			if self >= 0 && j >= self {
				j++
			}
			return among[j]
		}
	}}, nil
}

// Partners gives each sender one destination for the whole run: the hosts that send are
// permuted so that no host sends to itself and each receives from one host.
type Partners struct {
	// Stride is how far a host's partner comes after it in the list of hosts, treated
	// as a ring; 0 means a permutation drawn from the seed, the same for all hosts.
	Stride int
}

func (d Partners) makeRoute(s Stream, from []int) (route, error) {
	if err := checkHosts("a permutation", from, 2); err != nil {
		return route{}, err
	}
	n := len(from)
	if d.Stride < 0 || d.Stride >= n {
		return route{}, fmt.Errorf("a stride of %d among %d hosts: it must be less than their number", d.Stride, n)
	}
	partner := make([]int, n)
	if d.Stride > 0 {
		for i := range partner {
			partner[i] = from[(i+d.Stride)%n]
		}
	} else {
		// All permutations without a fixed point have the same probability; one in e
		// permutations is of this kind.
		r := s.streamOf("permutation")
		for ok := false; !ok; {
			copy(partner, from)
			r.Shuffle(n, func(i, j int) { partner[i], partner[j] = partner[j], partner[i] })
			ok = true
			for i, p := range partner {
				ok = ok && p != from[i]
			}
		}
	}
	return route{receivers: from, receiversOf: func(i int) iter.Seq[int] { return slices.Values(partner[i : i+1]) }, to: func(i int) func(*rand.Rand) int {
		return func(*rand.Rand) int { return partner[i] }
	}}, nil
}

// Weights is a traffic matrix: it says how the total load of all hosts is spread over
// pairs of hosts.
type Weights struct {
	To []int // hosts of the columns; nil means the sending hosts
	// Matrix has a row for each sending host, in their order, and a column for each host
	// in To. Only ratios matter. A host has no weight to itself.
	Matrix [][]float64
}

func (d Weights) makeRoute(_ Stream, from []int) (route, error) {
	to := d.To
	if to == nil {
		to = from
	}
	if err := checkHosts("destinations", to, 1); err != nil {
		return route{}, err
	}
	if len(d.Matrix) != len(from) {
		return route{}, fmt.Errorf("a matrix of %d rows for %d sending hosts", len(d.Matrix), len(from))
	}
	sums := make([]float64, len(from))
	all := 0.0
	for i, row := range d.Matrix {
		if len(row) != len(to) {
			return route{}, fmt.Errorf("row %d of the matrix has %d weights for %d receiving hosts", i+1, len(row), len(to))
		}
		for j, w := range row {
			switch {
			case !(w >= 0) || math.IsInf(w, 1):
				return route{}, fmt.Errorf("row %d, column %d of the matrix: %v is not a weight", i+1, j+1, w)
			case w > 0 && from[i] == to[j]:
				return route{}, fmt.Errorf("row %d, column %d of the matrix: host %d would send to itself", i+1, j+1, from[i])
			}
			sums[i] += w
		}
		all += sums[i]
	}
	if all == 0 || math.IsInf(all, 1) {
		return route{}, errors.New("the weights of the matrix add up to 0, or too much")
	}
	return route{
		receivers: to,
		receiversOf: func(i int) iter.Seq[int] {
			return func(yield func(int) bool) {
				for j, w := range d.Matrix[i] {
					if w > 0 && !yield(to[j]) {
						return
					}
				}
			}
		},
		share: func(i int) float64 { return sums[i] / all * float64(len(from)) },
		to: func(i int) func(*rand.Rand) int {
			upTo := make([]float64, len(to))
			sum, last := 0.0, 0
			for j, w := range d.Matrix[i] {
				sum += w
				upTo[j] = sum
				if w > 0 {
					last = j
				}
			}
			return func(r *rand.Rand) int {
				u := r.Float64() * sum
				return to[min(sort.Search(len(upTo), func(j int) bool { return upTo[j] > u }), last)]
			}
		},
	}, nil
}
