package testlab

import (
	"strconv"
	"testing"
)

// Pair is two hosts for a server and its client.
type Pair struct{ At, From string }

// Address is the server's.
func (p Pair) Address() string { return AddressOf(p.At) }

// AddressOf returns the first address of a host hN of a lab that gives addresses itself.
func AddressOf(host string) string { return "10.0.0." + host[1:] }

// OnPairs runs a subtest for each case in a lab with the hosts h1 to h8, several at once: each has
// a pair of hosts to itself, h1 and h5 or another up to h4 and h8.
func OnPairs[C any](l *Lab, cases []C, name func(C) string, run func(l *Lab, p Pair, c C)) {
	const pairs = 4
	free := make(chan Pair, pairs)
	for i := range pairs {
		free <- Pair{"h" + strconv.Itoa(i+1), "h" + strconv.Itoa(i+1+pairs)}
	}
	Beside(l.T, pairs, cases, name, func(t *testing.T, c C) {
		p := <-free
		t.Cleanup(func() { free <- p }) // when its programs have ended
		run(l.In(t), p, c)
	})
}
