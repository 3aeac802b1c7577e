package cmnic

import (
	"net/netip"
	"testing"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// FuzzInputs gives two CMs any inputs in any order: consumer requests with any ID, repeated
// messages and messages with bytes changed, times. Each input is four bytes. Nothing may panic, and
// after all is destroyed nothing may be left.
func FuzzInputs(f *testing.F) {
	f.Add([]byte{})
	// Connect, accept, confirm, disconnect both sides, all delivered.
	f.Add([]byte{0, 0, 0, 0, 9, 0, 0, 0, 1, 1, 0, 0, 9, 1, 0, 0, 2, 0, 0, 0, 9, 2, 0, 0, 6, 0, 0, 0, 6, 1, 0, 0, 9, 3, 0, 0, 9, 4, 0, 0, 11, 0, 0, 0})
	// Changed copies of a REQ.
	f.Add([]byte{0, 0, 0, 0, 10, 0, 24, 1, 10, 0, 67, 4, 10, 0, 17, 3, 4, 1, 0, 0, 9, 0, 0, 0, 3, 1, 0, 31, 9, 1, 0, 0, 11, 0, 0, 0, 7, 0, 0, 0})
	// A service is resolved.
	f.Add([]byte{5, 0, 0, 0, 9, 0, 0, 0, 8, 1, 0, 0, 9, 1, 0, 0, 9, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 300
		var ends [2]*CM
		addrs := [2]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}
		for i := range ends {
			config := DefaultConfig(uint64(i))
			config.FirstID = msg.CommID(1 + 8*i)
			ends[i], _ = New(config)
			for _, datagram := range []bool{false, true} {
				if _, err := ends[i].Listen(Listen{Service: service7, Datagram: datagram, Backlog: 3}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var now units.Time
		var sends []Send
		b := make([]byte, msg.MADLen)
		deliver := func(s *Send) {
			for i, e := range ends {
				if addrs[i] == s.To {
					e.Receive(now, s.From, s.To, b)
				}
			}
		}
		for ; len(data) >= 4 && len(sends) < limit && now < 30*24*units.Hour; data = data[4:] {
			i, x, y := int(data[1])%2, data[2], data[3]
			e := ends[i]
			id := msg.CommID(x%16) + e.config.FirstID
			local := netip.AddrPortFrom(addrs[i], uint16(y))
			// Errors are expected: inputs fit no state.
			switch data[0] % 14 {
			case 0:
				_, _ = e.Connect(now, Connect{Service: service7, Local: local, Peer: addrs[1-i], QP: QP{Number: 2 + uint32(y)}, PathMTU: msg.MTU(1 + y%5)})
			case 1:
				_, _ = e.Accept(now, id, Accept{QP: QP{Number: 2 + uint32(y)}})
			case 2:
				_ = e.Confirm(id, nil)
			case 3:
				_ = e.ProlongTimeout(id, msg.Timeout(y), nil)
			case 4:
				_ = e.Reject(now, id, Reject{Reason: msg.Reason(y)})
			case 5:
				_, _ = e.Resolve(now, Resolve{Service: service7, Local: local, Peer: addrs[1-i]})
			case 6:
				_ = e.Disconnect(now, id, nil)
			case 7:
				_ = e.Destroy(now, id)
			case 8:
				_ = e.AnswerResolution(now, id, Answer{QPN: uint32(y)})
			case 9, 10: // deliver, unchanged or with a byte changed
				if n := int(data[1]); n < len(sends) {
					sends[n].EncodeTo(b)
					if data[0]%14 == 10 {
						b[x] ^= y
					}
					deliver(&sends[n])
				}
			case 11: // the next work due
				if due := min(ends[0].NextWork(), ends[1].NextWork()); due != units.Never {
					now = max(now, due)
				}
				ends[0].DoDueWork(now)
				ends[1].DoDueWork(now)
			case 12:
				_ = e.Established(id)
			case 13: // cut short
				e.Receive(now, addrs[1-i], addrs[i], b[:x])
			}
			for _, e := range ends {
				s, _ := e.TakeOutput()
				sends = append(sends, s...)
			}
		}
		for _, e := range ends {
			ids := make([]msg.CommID, 0, e.Len())
			for id := range e.conns {
				ids = append(ids, id)
			}
			for _, id := range ids {
				if _, err := e.findConnection(id); err != nil {
					continue
				}
				if err := e.Destroy(now, id); err != nil {
					t.Fatal(err)
				}
			}
			for n := 0; e.NextWork() != units.Never; n++ {
				if n > 100*limit {
					t.Fatal("timers without end")
				}
				e.DoDueWork(e.NextWork())
			}
			if e.Len() != 0 || len(e.peers) != 0 || len(e.queues) != 0 || len(e.resolving) != 0 {
				t.Fatalf("there are left %d connections, %d peers, %d queue pairs, %d resolutions", e.Len(), len(e.peers), len(e.queues), len(e.resolving))
			}
		}
	})
}
