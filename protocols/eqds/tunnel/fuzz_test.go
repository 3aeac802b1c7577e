package tunnel

import (
	"testing"

	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
)

// FuzzEnds gives both ends of a tunnel any headers, with traffic in between: nothing panics,
// and the sender's sums hold.
func FuzzEnds(f *testing.F) {
	f.Add([]byte{0x40, 4, 0x14, 0, 0, 3, 0, 0, 0xc2, 0, 0x14, 0, 0, 1, 0, 2})
	f.Add([]byte{0x90, 0, 0x14, 2, 0, 1, 0, 2, 0xa0, 0, 0x14, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 40*eqds.HeaderLen {
			return // longer ones find nothing else, and take long
		}
		for _, backend := range []Backend{NDP, RTS} {
			w := newWorld(t, testConfig(backend), nil, 1)
			s := w.senders[0]
			s.push(20, 1000)
			for x := b; len(x) >= eqds.HeaderLen; x = x[eqds.HeaderLen:] {
				var d eqds.Data
				var c eqds.Control
				if d.Decode(x) == nil {
					d.Sender = 0
					s.receiver.ReceiveData(w.now, &d, load{0, 0}, 100, d.Path&1 != 0)
					w.settleHost()
				}
				if c.Decode(x) == nil {
					c.Sender = 0
					s.sender.ReceiveControl(w.now, &c)
					s.send()
				}
				w.run(w.now + units.Time(x[7])*us)
			}
			w.run(w.now + units.Minute)
			if !s.sender.IsIdle() || len(s.gone) != 20 || len(w.queue) > 0 {
				t.Fatalf("%v: the sender is rid of %d packets, %d events follow", backend, len(s.gone), len(w.queue))
			}
		}
	})
}
