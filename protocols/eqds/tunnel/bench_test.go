package tunnel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
)

// pair is a sender and its receiver, with no network in between.
type pair struct {
	now      units.Time
	pacer    *pull.Pacer[*Receiver[int]]
	sender   *Sender[int]
	receiver *Receiver[int]
}

func newPair(c *Config) *pair {
	clock := &pull.Config{Line: 100 * units.Gbps, MTU: c.MTU, Share: pull.DefaultShare, Credit: c.Credit}
	x := &pair{pacer: pull.New[*Receiver[int]](clock)}
	x.sender = NewSender(c, 0, rand.New(rand.NewPCG(1, 2)), func(int, Outcome) {})
	x.receiver = NewReceiver(c, x.pacer, 0, 0, func(int) {})
	return x
}

// packet sends one packet through the tunnel, and its acknowledgement and credit back.
func (x *pair) packet(size units.Bytes) {
	x.now += x.pacer.PullInterval()
	x.sender.Push(x.now, 1, size)
	for {
		if s := x.pacer.Next(x.now); s != nil {
			c := s.Owner.TakePull(x.now)
			x.sender.ReceiveControl(x.now, &c)
		}
		h, p, _, ok := x.sender.Next(x.now)
		if !ok {
			return
		}
		if a := x.receiver.ReceiveData(x.now, &h, p, size, false); a.Send {
			x.sender.ReceiveControl(x.now, &a.Control)
		}
	}
}

// TestNoAllocation: in a steady state neither end allocates.
func TestNoAllocation(t *testing.T) {
	for _, b := range []Backend{NDP, RTS} {
		for _, credit := range []int{1, 8} {
			c := Default(100*units.Gbps, 1514, 10*us, credit)
			c.Backend = b
			x := newPair(&c)
			for range 100 {
				x.packet(1514)
			}
			if n := testing.AllocsPerRun(1000, func() { x.packet(1514) }); n != 0 {
				t.Errorf("%v, %d MTUs a PULL: a packet costs %v allocations", b, credit, n)
			}
			if k := x.receiver.Receipts(); k.Packets < 1080 {
				t.Errorf("%v, %d MTUs a PULL: %d packets came", b, credit, k.Packets)
			}
		}
	}
}

// BenchmarkTunnel measures a packet at both ends: pushed, sent, received, acknowledged, and the
// credit for it; with PULLs of one MTU and of eight.
func BenchmarkTunnel(b *testing.B) {
	for _, credit := range []int{1, 8} {
		for _, backend := range []Backend{NDP, RTS} {
			b.Run(fmt.Sprintf("%v/%d", backend, credit), func(b *testing.B) {
				c := Default(100*units.Gbps, 1514, 10*us, credit)
				c.Backend = backend
				x := newPair(&c)
				b.ReportAllocs()
				for b.Loop() {
					x.packet(1514)
				}
				if n := x.receiver.Receipts().Packets; n+uint64(c.windowMTUs()) < uint64(b.N) {
					b.Fatalf("%d of %d packets came", n, b.N)
				}
			})
		}
	}
}

// BenchmarkTunnelMemory measures the memory of the two ends of a tunnel that has carried
// traffic, without the packets: with a window in flight at the sender, and with a window in the
// reorder queue of the receiver, which is the worst case of §8.5.
func BenchmarkTunnelMemory(b *testing.B) {
	const tunnels = 1000
	for _, paths := range []int{16, 256} {
		b.Run(map[int]string{16: "16paths", 256: "256paths"}[paths], func(b *testing.B) {
			c := Default(25*units.Gbps, 1514, 10*us, 1)
			c.Paths = paths
			clock := &pull.Config{Line: 25 * units.Gbps, MTU: c.MTU, Share: pull.DefaultShare, Credit: 1}
			var senders, receivers float64
			for b.Loop() {
				pacer := pull.New[*Receiver[int]](clock)
				random := rand.New(rand.NewPCG(1, 2))
				all := make([]*pair, tunnels)
				for i := range all {
					all[i] = new(pair)
				}
				before := heapInUse()
				for _, x := range all {
					x.sender = NewSender(&c, 0, random, func(int, Outcome) {})
					for range 100 {
						x.sender.Push(0, 1, 1514)
					}
					for x.sender.NextSize() > 0 && x.sender.inFlight < int(c.windowMTUs()) {
						x.sender.Next(0)
					}
				}
				senders = float64(heapInUse()-before) / tunnels
				before = heapInUse()
				for _, x := range all {
					x.receiver = NewReceiver(&c, pacer, 0, 0, func(int) {})
					for n := range c.windowMTUs() {
						h := eqds.Data{Flags: eqds.FlagSYN, Next: eqds.NextIPv4, Seq: n + 1}
						x.receiver.ReceiveData(0, &h, 1, 1514, false)
					}
				}
				receivers = float64(heapInUse()-before) / tunnels
				runtime.KeepAlive(all)
			}
			b.ReportMetric(senders, "B/sender")
			b.ReportMetric(receivers, "B/receiver")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
