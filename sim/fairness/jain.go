// Package fairness measures how evenly a resource is shared.
package fairness

// Jain returns Jain's fairness index of n shares x (Jain, Chiu and Hawe 1984):
//
//	(Σx)² / (n·Σx²)
//
// It lies between 1/n, if one has everything, and 1, if all are equal. It has no unit and does
// not depend on that of the shares, which are not negative. It is NaN if there are no shares, or
// all are 0.
func Jain(shares ...float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return JainOf(len(shares), sum, squares)
}

// JainOf returns the index of n shares from their sum and the sum of their squares.
func JainOf(n int, sum, squares float64) float64 { return sum * sum / (float64(n) * squares) }
