package sched

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// queues has the lengths of waiting packets, by queue.
type queues [8][]units.Bytes

func (q *queues) backlogged() (mask uint8) {
	for i := range q {
		if len(q[i]) > 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// send lets the scheduler choose a packet among the queues that are not paused, and
// removes it.
func (q *queues) send(s *Scheduler, paused uint8) (queue int, size units.Bytes) {
	var first [8]units.Bytes
	for i := range q {
		if len(q[i]) > 0 {
			first[i] = q[i][0]
		}
	}
	backlogged := q.backlogged()
	queue = s.Next(backlogged&^paused, backlogged, &first)
	if again := s.Next(backlogged&^paused, backlogged, &first); again != queue {
		panic(fmt.Sprintf("asked again, queue %d instead of %d", again, queue))
	}
	size = q[queue][0]
	q[queue] = q[queue][1:]
	s.ChargeQueue(queue, size)
	return queue, size
}

// TestTranscript: the input is the queues, the output the order. The first case
// begins like figures 2 and 3 of Shreedhar and Varghese: 200 bytes leave, 300 of
// the quantum remain and suffice for a packet of 750 in the next round.
func TestTranscript(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights [8]int
		queues  queues
		want    string
	}{
		{"the paper's figure", [8]int{1, 1, 1, 1},
			queues{{200, 750, 20}, {500, 500}, {200, 600, 100}, {50, 700, 180}},
			"0:200 1:500 2:200 3:50 0:750 0:20 1:500 2:600 2:100 3:700 3:180"},
		{"weights", [8]int{1, 2},
			queues{{500, 500, 500}, {500, 500, 500, 500, 500}},
			"0:500 1:500 1:500 0:500 1:500 1:500 0:500 1:500"},
		{"strict", [8]int{},
			queues{1: {100, 100}, 3: {1500}, 7: {64, 64}},
			"7:64 7:64 3:1500 1:100 1:100"},
		{"strict over weights", [8]int{1, 0, 1, 0},
			queues{{500, 500}, {100}, {500, 500}, {9000}},
			"3:9000 1:100 0:500 2:500 0:500 2:500"},
		{"packets longer than the quantum", [8]int{1, 3},
			queues{{1200, 1200}, {1500, 1500, 1500, 1500, 1500, 1500}},
			"1:1500 1:1500 0:1200 1:1500 1:1500 0:1200 1:1500 1:1500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(c.weights, 500)
			var got []string
			for c.queues.backlogged() != 0 {
				queue, size := c.queues.send(&s, 0)
				got = append(got, fmt.Sprintf("%d:%d", queue, size))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPause: a queue that is paused in its turn continues with the rest of it,
// however long the pause and however often it happens, and a queue that becomes
// empty starts over.
func TestPause(t *testing.T) {
	s := New([8]int{4, 1}, 1000)
	packets := func(n int) []units.Bytes {
		p := make([]units.Bytes, n)
		for i := range p {
			p[i] = 1000
		}
		return p
	}
	q := queues{packets(20), packets(20)}
	var order strings.Builder
	// A digit is a queue that sends, p and r pause and resume queue 0, e empties it
	// for a moment.
	var paused uint8
	for _, step := range "s psss r s psss r ssss ssss pss r s e sssss" {
		switch step {
		case 's':
			queue, _ := q.send(&s, paused)
			fmt.Fprint(&order, queue)
			continue
		case 'p':
			paused = 1
		case 'r':
			paused = 0
		case 'e':
			was := q[0]
			q[0] = nil
			q.send(&s, 0)
			q[0] = was
		}
		order.WriteRune(step)
	}
	// Of queue 0's first turn of 4, one leaves, then one, then two.
	want := "0 p111 r 0 p111 r 0010 0001 p11 r 0 e 00001"
	if got := order.String(); got != want {
		t.Errorf("order %q\nwant  %q", got, want)
	}
}

const longest = 9738

// drawn is a scheduler with random weights and an endless supply of packets of
// random sizes.
type drawn struct {
	Scheduler
	weights [8]int
	quantum units.Bytes
	first   [8]units.Bytes
	size    *rapid.Generator[units.Bytes]
}

func draw(t *rapid.T) *drawn {
	d := &drawn{}
	for i := range d.weights {
		d.weights[i] = rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 5), rapid.IntRange(1, 1000)).Draw(t, "weight")
	}
	d.quantum = units.Bytes(rapid.OneOf(rapid.Just(longest), rapid.IntRange(64, 20000)).Draw(t, "quantum"))
	d.Scheduler = New(d.weights, d.quantum)
	d.size = rapid.SampledFrom([]units.Bytes{84, 85, 700, 1538, longest - 1, longest})
	for i := range d.first {
		d.first[i] = d.size.Draw(t, "size")
	}
	return d
}

// send sends from one of the queues in ready, and appends a packet to it.
func (d *drawn) send(t *rapid.T, ready, backlogged uint8) (queue int, size units.Bytes) {
	queue = d.Next(ready, backlogged, &d.first)
	if ready>>queue&1 == 0 {
		t.Fatalf("queue %d is chosen, %08b are ready", queue, ready)
	}
	if top := ready & d.strict; top != 0 && queue != bits.Len8(top)-1 {
		t.Fatalf("queue %d goes before strict ones, %08b are ready and %08b strict", queue, ready, d.strict)
	}
	size = d.first[queue]
	d.ChargeQueue(queue, size)
	d.first[queue] = d.size.Draw(t, "size")
	for i, held := range d.deficit {
		if held < 0 || held >= d.credit[i]+longest {
			t.Fatalf("queue %d holds credit of %d, a turn brings %d", i, held, d.credit[i])
		}
	}
	return queue, size
}

// share returns how much a queue has sent per unit of its weight.
func (d *drawn) share(sent [8]units.Bytes, i int) float64 {
	return float64(sent[i]) / float64(d.weights[i])
}

// TestShares: queues that are never empty get shares in proportion to their
// weights, to within one quantum and one packet (Shreedhar and Varghese, theorem
// 2), whatever their packets and however often strict queues send in between.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		busy := rapid.Uint8Range(1, 255).Draw(t, "busy")
		var sent [8]units.Bytes
		for range rapid.IntRange(1, 400).Draw(t, "packets") {
			ready := busy &^ d.strict
			if rapid.IntRange(0, 3).Draw(t, "strict too") == 0 || ready == 0 {
				ready = busy
			}
			queue, size := d.send(t, ready, busy)
			sent[queue] += size
			for i := range sent {
				for j := range sent {
					if both := uint8(1<<i | 1<<j); busy&^d.strict&both != both {
						continue
					}
					bound := float64(d.quantum) + longest/float64(d.weights[j])
					if ahead := d.share(sent, i) - d.share(sent, j); ahead > bound {
						t.Fatalf("sent %v by weights %v: queue %d is %v ahead of %d, bound %v", sent, d.weights, i, ahead, j, bound)
					}
				}
			}
		}
	})
}

// TestSharesUnderPause: as long as two queues are both ready they get their shares,
// whatever happened before and whichever others are paused, empty or strict. So a
// queue that was paused gets its share when it resumes, and no more.
func TestSharesUnderPause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		var sent [8]units.Bytes
		// Minimum and maximum of the lead of i over j since both are ready.
		var low, high [8][8]float64
		lead := func(i, j int) float64 { return d.share(sent, i) - d.share(sent, j) }
		var together [8][8]bool
		for range rapid.IntRange(1, 40).Draw(t, "phases") {
			backlogged := rapid.Uint8Range(1, 255).Draw(t, "backlogged")
			ready := backlogged &^ rapid.Uint8().Draw(t, "paused")
			if ready == 0 {
				ready = backlogged
			}
			for range rapid.IntRange(1, 30).Draw(t, "packets") {
				for i := range sent {
					for j := range sent {
						both := uint8(1<<i | 1<<j)
						now := i != j && ready&^d.strict&both == both
						if now && !together[i][j] {
							low[i][j], high[i][j] = lead(i, j), lead(i, j)
						}
						together[i][j] = now
					}
				}
				queue, size := d.send(t, ready, backlogged)
				sent[queue] += size
				for i := range sent {
					for j := range sent {
						if !together[i][j] {
							continue
						}
						low[i][j], high[i][j] = min(low[i][j], lead(i, j)), max(high[i][j], lead(i, j))
						bound := 2*float64(d.quantum) + longest/float64(d.weights[i]) + longest/float64(d.weights[j])
						if high[i][j]-low[i][j] > bound {
							t.Fatalf("sent %v by weights %v: the lead of %d over %d goes from %v to %v, bound %v", sent, d.weights, i, j, low[i][j], high[i][j], bound)
						}
					}
				}
			}
		}
	})
}

// TestNobodyStarves: a queue with a weight waits no longer than a turn of each
// of the others.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		ready := rapid.Uint8Range(1, 255).Draw(t, "ready") &^ d.strict
		if ready == 0 {
			t.Skip("strict ones starve all others")
		}
		d.quantum = max(d.quantum, longest)
		d.Scheduler = New(d.weights, d.quantum)
		var round units.Bytes
		for i := range d.weights {
			round += units.Bytes(d.weights[i])*d.quantum + longest
		}
		var waited [8]units.Bytes
		for range 200 {
			queue, size := d.send(t, ready, ready)
			for i := range waited {
				if waited[i] += size; ready>>i&1 != 0 && waited[i] > round {
					t.Fatalf("queue %d waits for %v, a round is %v", i, waited[i], round)
				}
			}
			waited[queue] = 0
		}
	})
}

func BenchmarkNext(b *testing.B) {
	first := [8]units.Bytes{1538, 84, 1538, 9038, 1538, 300, 1538, 84}
	for _, c := range []struct {
		name    string
		weights [8]int
		ready   uint8
	}{
		{"strict", [8]int{}, 0b10101010},
		{"dwrr", [8]int{1, 2, 3, 4, 5, 6, 7, 8}, 0b11111111},
		{"one of dwrr", [8]int{1, 2, 3, 4, 5, 6, 7, 8}, 0b00010000},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s := New(c.weights, 9738)
			for b.Loop() {
				q := s.Next(c.ready, c.ready, &first)
				s.ChargeQueue(q, first[q])
			}
		})
	}
}
