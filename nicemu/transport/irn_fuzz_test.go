package transport

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// FuzzIRN lets an input decide what happens to each packet of a fixed exchange over IRN: everything
// completes once and in order, as in TestIRN_CompletesEverythingOnceAndInOrder. The first two bytes
// give the settings, each further one the fate of a packet; later packets arrive.
func FuzzIRN(f *testing.F) {
	f.Add([]byte{0, 0})
	f.Add([]byte{1, 0, 0, fuzzLose, 0, 0, fuzzCopy | 30})
	f.Add([]byte{fuzzOrdered, 2, 60, 0, 0, fuzzLose, fuzzLose, 50, fuzzCopy, 0, 40, 30, 20, 10})
	f.Add([]byte{fuzzLocal | fuzzOldest, 1, 0, 0, 0, 0, 0, fuzzLose, 0, 0, 0, 0, 0, fuzzLose, 9, 0, 0, 0, fuzzLose})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 2 || len(script) > 300 {
			return
		}
		s := irnDefaults("", 0).(*IRNSettings)
		s.Window = []int{1, 2, 7, 110, 0}[script[0]&7%5]
		s.Reordering = 1 + int(script[1]&3)
		losses := 20 // none of which may cost all patience
		if script[0]&fuzzOrdered != 0 {
			s.Placement = PlaceOrdered
		}
		if script[0]&fuzzOldest != 0 {
			s.Resend = ResendOldest
		}
		if script[0]&fuzzLocal != 0 {
			s.Timeouts, losses = LocalTimeouts, 5 // each may cost one of seven retries
		}
		p := newBusyPair(t, s.New)
		p.channel.fate = func(n int) (x fate) {
			if 1+n >= len(script) {
				return x
			}
			b := script[1+n]
			if x.lost = b&fuzzLose != 0 && losses > 0; x.lost {
				losses--
			}
			x.copied, x.late = b&fuzzCopy != 0, units.Time(b&63)*units.Microsecond
			return x
		}
		for _, s := range p.sides {
			s.watch = func() { s.checkNotOlder(t) }
			for ; s.ready < len(s.receives); s.ready++ { // all at once
				if err := s.qp.PostRecv(&s.receives[s.ready]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !p.channel.run(units.Second) {
			t.Fatal("it does not come to an end")
		}
		for _, s := range p.sides {
			s.checkWhole(t)
			if n := s.qp.resp.buffer.n; n > 0 {
				t.Fatalf("%s: %d packets are still kept", s.name, n)
			}
		}
	})
}

// Bits of an input of FuzzIRN: of the settings, and of a packet's fate. Its lower bits say by how
// many microseconds the packet is late.
const (
	fuzzOrdered = 0x20
	fuzzOldest  = 0x40
	fuzzLocal   = 0x80

	fuzzCopy = 0x40
	fuzzLose = 0x80
)
