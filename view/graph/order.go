package graph

import (
	"cmp"
	"math"
	"slices"
)

// sweeps is how often the rows are sorted by their neighbours. More sweeps
// hardly ever find a better order.
const sweeps = 8

// arrangeRows orders the nodes within their rows so that few links cross. It starts
// from the order of the plan, which is the natural one for generated labs, and
// leaves it only for a better one.
func (r *rows) arrangeRows() {
	for _, row := range r.order {
		r.chainRow(row)
		r.numberPlaces(row)
	}
	best, minCost := r.copyOrders(), r.countCrossings()
	for i := range sweeps {
		for t := range r.order {
			if i%2 == 0 { // downwards
				t = len(r.order) - 1 - t
				r.sortBy(t, t+1)
			} else {
				r.sortBy(t, t-1)
			}
		}
		if c := r.countCrossings(); c < minCost {
			best, minCost = r.copyOrders(), c
		}
	}
	r.order = best
	for _, row := range r.order {
		r.numberPlaces(row)
	}
}

func (r *rows) copyOrders() [][]int {
	var c [][]int
	for _, row := range r.order {
		c = append(c, slices.Clone(row))
	}
	return c
}

// numberPlaces records the places of a row's nodes.
func (r *rows) numberPlaces(row []int) {
	for i, n := range row {
		r.place[n] = i
	}
}

// chainRow sorts a row so that each node comes after one that it is linked to, if
// there is one: chains of switches come out in the order of the chain.
func (r *rows) chainRow(row []int) {
	degree := func(n int) (d int) {
		for _, m := range r.neighbours[n] {
			if r.tier[m] == r.tier[n] {
				d++
			}
		}
		return d
	}
	starts := slices.Clone(row)
	slices.SortStableFunc(starts, func(a, b int) int { return cmp.Compare(degree(a), degree(b)) })
	seen := make(map[int]bool, len(row))
	row = row[:0]
	for _, n := range starts {
		for todo := []int{n}; len(todo) > 0; {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[n] {
				continue
			}
			seen[n] = true
			row = append(row, n)
			for _, m := range slices.Backward(r.neighbours[n]) {
				if r.tier[m] == r.tier[n] {
					todo = append(todo, m)
				}
			}
		}
	}
}

// sortBy sorts row t by the mean place of each node's neighbours in another
// row. A node without such neighbours stays about where it is.
func (r *rows) sortBy(t, other int) {
	if other < 0 || other >= len(r.order) {
		return
	}
	share := func(n int) float64 { return (float64(r.place[n]) + 0.5) / float64(len(r.order[r.tier[n]])) }
	mean := make(map[int]float64, len(r.order[t]))
	for _, n := range r.order[t] {
		sum, count := 0.0, 0.0
		for _, m := range r.neighbours[n] {
			if r.tier[m] == other {
				sum += share(m)
				count++
			}
		}
		if mean[n] = sum / count; math.IsNaN(mean[n]) {
			mean[n] = share(n)
		}
	}
	slices.SortStableFunc(r.order[t], func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	r.numberPlaces(r.order[t])
}

// countCrossings returns how many links cross between rows, plus how many nodes the links
// within rows have to pass.
func (r *rows) countCrossings() int {
	cost := 0
	between := make([][][2]int, len(r.order)) // by row: places of the lower and upper ends of the links above it
	for _, l := range r.Links {
		upper := r.higherEnd(l)
		a, b := l.Ends[upper].Node, l.Ends[1-upper].Node
		if r.isLevel(l) {
			cost += r.place[b] - r.place[a] - 1
		} else {
			between[r.tier[b]] = append(between[r.tier[b]], [2]int{r.place[b], r.place[a]})
		}
	}
	for t, ends := range between {
		if len(ends) > 0 {
			cost += countInversions(ends, len(r.order[t+1]))
		}
	}
	return cost
}

// countInversions counts the pairs of lines that cross. lines has the places of
// their lower and upper ends; upper ones are less than n.
func countInversions(lines [][2]int, n int) int {
	slices.SortFunc(lines, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	sums := make([]int, n+1) // a Fenwick tree: how many lines so far end at each upper place
	count := 0
	for i, line := range lines {
		count += i
		for k := line[1] + 1; k > 0; k -= k & -k {
			count -= sums[k]
		}
		for k := line[1] + 1; k <= n; k += k & -k {
			sums[k]++
		}
	}
	return count
}
