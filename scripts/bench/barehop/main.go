// Command barehop measures the minimum cost of a packet-hop: packets move from node to node
// of a fabric that is reduced to its memory. Each node in turn takes the packets that came
// in the previous window, touches the cache lines of a packet, of its ingress port and of
// its egress port that weft touches, and puts it into the inbox of another node. There are
// no events, no queues and no rates. It prints nanoseconds per hop.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	line = 64
	// What a hop through a switch of weft touches: one line of the packet, and of each of the two
	// ports three (port.Port).
	packetLines = 1
	portLines   = 3
	degree      = 8 // ports of a node
)

type packet struct {
	lines [packetLines][line / 8]uint64
	_     [5*line - packetLines*line]byte // as large as weft's
}

type port struct{ lines [portLines][line / 8]uint64 }

type node struct {
	ports [degree]port
	inbox [2][]*packet // for this window and the next
}

func main() {
	n, packets := numberArgument(1), numberArgument(2)
	nodes := make([]node, n)
	state := uint64(1)
	random := func() uint64 { // xorshift64
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		return state
	}
	for range packets {
		to := &nodes[random()%uint64(n)]
		to.inbox[0] = append(to.inbox[0], &packet{})
	}
	const hops = 20_000_000
	start := time.Now()
	done := 0
	for turn := 0; done < hops; turn++ {
		half := turn % 2
		for i := range nodes {
			here := &nodes[i]
			for _, p := range here.inbox[half] {
				way := random()
				in, out := &here.ports[way%degree], &here.ports[way>>8%degree]
				for l := range p.lines {
					p.lines[l][0]++
				}
				for l := range in.lines {
					in.lines[l][0]++
					out.lines[l][1]++
				}
				next := &nodes[(uint64(i)+way>>16)%uint64(n)]
				next.inbox[1-half] = append(next.inbox[1-half], p)
			}
			done += len(here.inbox[half])
			here.inbox[half] = here.inbox[half][:0]
		}
	}
	fmt.Printf("%.1f\n", float64(time.Since(start).Nanoseconds())/float64(done))
}

// numberArgument returns argument i as a number.
func numberArgument(i int) int {
	if len(os.Args) > i {
		if n, err := strconv.Atoi(os.Args[i]); err == nil && n > 0 {
			return n
		}
	}
	fmt.Fprintln(os.Stderr, "usage: barehop NODES PACKETS")
	os.Exit(2)
	return 0
}
