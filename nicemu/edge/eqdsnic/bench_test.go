package eqdsnic

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/wire"
)

// bare is a host with a minimal environment for its service: packets go straight to the service of
// another host, and the test advances time.
type bare struct {
	t       testing.TB
	service *service
	pool    *packet.Pool
	address netip.Addr
	peers   map[netip.Addr]*bare
	fed     units.Bytes
	due     units.Time
	now     units.Time
	asking  bool
	got     int
}

func newBare(t testing.TB, pool *packet.Pool, peers map[netip.Addr]*bare, number int, c *Config) *bare {
	h := &bare{t: t, pool: pool, peers: peers, due: units.Never}
	h.address = netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)})
	peers[h.address] = h
	h.service = newService(c, edge.Env{
		Host: h, Name: "h", Line: 100 * units.Gbps, MTU: 1500, Classes: &class.Map{},
		Rand: rand.New(rand.NewPCG(uint64(number), 1)), Pool: pool, Now: func() units.Time { return h.now },
	})
	return h
}

func (h *bare) AnnouncePacket(now units.Time, _ uint8, size units.Bytes) {
	h.fed = size
	h.send(now)
}

// send sends all packets that may leave.
func (h *bare) send(now units.Time) {
	if h.asking {
		return
	}
	h.asking = true
	for h.fed > 0 {
		if p := h.service.Next(now, 0); p != nil {
			h.carry(now, p)
		} else {
			h.fed = 0
		}
	}
	h.asking = false
}

func (h *bare) carry(now units.Time, p *packet.Packet) {
	to := h.peers[p.Message.To]
	to.now = now
	to.service.ReceivePacket(now, p)
}

func (h *bare) Arm(at units.Time)                                    { h.due = at }
func (h *bare) Disarm()                                              { h.due = units.Never }
func (h *bare) Pass(now units.Time, p *packet.Packet)                { h.carry(now, p) }
func (h *bare) Drop(units.Time, *packet.Packet, packet.Fate)         { h.t.Fatal("a packet is dropped") }
func (h *bare) DeliverPacket(units.Time, *packet.Packet)             { h.t.Fatal("a packet is delivered") }
func (h *bare) Consume(_ units.Time, p *packet.Packet)               { h.pool.Free(p) }
func (h *bare) Waits(units.Time, *packet.Packet)                     {}
func (h *bare) Leaves(units.Time, *packet.Packet)                    {}
func (h *bare) Admit(units.Time, *packet.Packet)                     {}
func (h *bare) Ends(int32) (from, to netip.Addr)                     { return from, to }
func (h *bare) Finish(p *packet.Packet)                              { h.pool.Free(p) }
func (h *bare) Notify(units.Time, *packet.Packet) bool               { return false }
func (h *bare) Unwrap(_ units.Time, p *packet.Packet, _ packet.Fate) { h.got++; h.pool.Free(p) }
func (h *bare) Peer(a netip.Addr) (edge.Peer, bool) {
	return edge.Peer{Address: a, Line: 100 * units.Gbps}, h.peers[a] != nil
}
func (h *bare) Address(p *packet.Packet) bool {
	p.Message.From = h.address
	p.SetFields()
	return true
}
func (h *bare) Trip(packet.FlowKey, units.Bytes, units.Bytes) cc.Path {
	return cc.Path{RTT: 10 * us, Bottleneck: 100 * units.Gbps}
}

// template returns a packet of a modelled flow to a host.
func (h *bare) template(to *bare) *packet.Packet {
	p := h.pool.NewMessage(templateProtocol)
	p.Message.To = to.address
	p.SetFields()
	p.Size = 1464
	return p
}

// templateProtocol is the protocol of empty datagrams.
var templateProtocol = packet.NewMessageProtocol(packet.MessageProtocol{
	Name: "template", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: 9, Data: true, New: func() packet.Body { return &segment{} },
})

// sendTo has a program send n packets to another one, and runs the work due until then.
func (h *bare) sendTo(to *bare, template *packet.Packet, n int) {
	for range n {
		h.service.SendPacket(h.now, h.pool.ClonePacket(template))
	}
	for _, x := range []*bare{h, to} {
		if x.due <= h.now {
			x.now = h.now
			x.service.Fire(h.now)
		}
	}
}

// BenchmarkService measures a packet of 1464 bytes through a tunnel, at both hosts: queued, sent,
// received, put in order, acknowledged, credit given; with PULLs of one packet and of eight. There
// is no network in between.
func BenchmarkService(b *testing.B) {
	for _, credit := range []int{1, 8} {
		for _, backend := range []string{"ndp", "rts"} {
			b.Run(fmt.Sprintf("%s/%d", backend, credit), func(b *testing.B) {
				c := presetDefaults(backend)
				c.CreditPerPull = credit
				pool, peers := packet.NewPools(1)[0], map[netip.Addr]*bare{}
				x, y := newBare(b, pool, peers, 1, c), newBare(b, pool, peers, 2, c)
				t := x.template(y)
				send := func() {
					x.now += 130 * units.Nanosecond
					x.sendTo(y, t, 1)
				}
				for range 1000 {
					send()
				}
				was := y.got
				b.ReportAllocs()
				for b.Loop() {
					send()
				}
				if y.got < was+b.N-100 { // some still wait for credit
					b.Fatalf("%d of %d packets came", y.got-was, b.N)
				}
			})
		}
	}
}

// BenchmarkTunnelMemory measures the memory of a tunnel that has carried traffic, at both its hosts
// together, with 10,000 destinations as in §8.5, without packets; and the memory left when it has
// been idle.
func BenchmarkTunnelMemory(b *testing.B) {
	const tunnels = 10_000
	for _, paths := range []int{16, 256} {
		b.Run(fmt.Sprintf("%dpaths", paths), func(b *testing.B) {
			var open, closed float64
			for b.Loop() {
				pool, peers := packet.NewPools(1)[0], map[netip.Addr]*bare{}
				c := with(func(c *Config) { c.Paths = paths })
				hub := newBare(b, pool, peers, 1, c)
				others := make([]*bare, tunnels)
				for i := range others {
					others[i] = newBare(b, pool, peers, i+2, c)
				}
				t := hub.template(others[0])
				pool.Free(pool.ClonePacket(t))
				before := heapInUse()
				for _, to := range others {
					t.Message.To = to.address
					hub.sendTo(to, t, 40)
					for range 40 {
						hub.now += us
						hub.sendTo(to, t, 0)
					}
					if to.got != 40 {
						b.Fatalf("%d packets came", to.got)
					}
				}
				full := heapInUse()
				open = float64(full-before) / tunnels
				for range tunnels {
					hub.now += c.Idle
					hub.service.Fire(hub.now)
				}
				for _, h := range others {
					h.service.Fire(hub.now)
				}
				if n := hub.service.order.Len() + others[0].service.table.Len(); n != 0 {
					b.Fatalf("%d tunnels are left", n)
				}
				closed = float64(int64(heapInUse())-int64(before)) / tunnels
				runtime.KeepAlive(others)
				runtime.KeepAlive(hub)
			}
			b.ReportMetric(open, "B/tunnel")
			b.ReportMetric(closed, "B/closed")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heapInUse returns the heap in use.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
