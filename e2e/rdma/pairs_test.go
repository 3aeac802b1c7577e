package rdma

import (
	"strconv"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// rdmaPairs is four pairs of hosts with NICs: h1 and h5 to h4 and h8, with two paths between
// their switches that have room for all of them.
const rdmaPairs = `
topology:
  kinds: {host: {nic: roce}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 4, rate: 5Gbps, delay: 5us, uplink: {rate: 20Gbps}}}
`

// pair is two hosts for a server and its client.
type pair struct{ at, from string }

// address is the server's.
func (p pair) address() string { return addressOf(p.at) }

// onPairs runs a subtest for each case in a lab of rdmaPairs, several at once: each has a pair
// of hosts to itself.
func onPairs[C any](l *testlab.Lab, cases []C, name func(C) string, run func(l *testlab.Lab, p pair, c C)) {
	const pairs = 4
	free := make(chan pair, pairs)
	for i := range pairs {
		free <- pair{"h" + strconv.Itoa(i+1), "h" + strconv.Itoa(i+1+pairs)}
	}
	for _, c := range cases {
		l.T.Run(name(c), func(t *testing.T) {
			t.Parallel()
			p := <-free
			t.Cleanup(func() { free <- p }) // when its programs have ended
			run(l.In(t), p, c)
		})
	}
}

// itself returns the name of a case that is its own name.
func itself(name string) string { return name }
