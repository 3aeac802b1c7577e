package eqdsnic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/tunnel"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// TestCarries: packets of programs over both IP versions and of modelled flows leave inside tunnel
// packets, and come out unchanged, once, in order.
func TestCarries(t *testing.T) {
	for _, backend := range []tunnel.Backend{tunnel.NDP, tunnel.RTS} {
		w := newNetwork(t, 1, with(func(c *Config) { c.Backend = backend }), with(nil), with(nil))
		a, b, c := w.hosts[0], w.hosts[1], w.hosts[2]
		outer := map[uint16]int{} // data packets by source port
		w.seen = func(_ units.Time, from *host, p *packet.Packet) {
			switch h := headerOf(p); {
			case h == nil:
				t.Errorf("%v: a packet of kind %d outside a tunnel", backend, p.Kind)
			case !h.control && !h.data.IsRTS():
				outer[p.SrcPort]++
				if next := nextOf(p.Version); h.data.Next != next || p.Message.Inner.Version != p.Version {
					t.Errorf("%v: next protocol %d in IPv%d", backend, h.data.Next, p.Version)
				}
			}
		}
		const n = 300
		sent := map[uint32][]byte{}
		w.engine.Go("send", func(p *sim.Process) {
			for i := range uint32(n) {
				x := a.real(b, i, 100+int(i)*4, somePort, i%3 == 0)
				sent[i] = bytes.Clone(x.Frame)
				a.offer(x)
				c.offer(c.modelled(b, n+i, 1400))
				p.Sleep(3 * us)
			}
		})
		w.rest()
		last := map[bool]int64{}
		for _, x := range b.got {
			if !x.tunnel {
				t.Fatalf("%v: a packet came by itself", backend)
			}
			ipv6 := x.bytes != nil && x.bytes[14]>>4 == 6
			if x.bytes != nil && !bytes.Equal(x.bytes, sent[x.number]) {
				t.Errorf("%v: packet %d has changed", backend, x.number)
			}
			if x.bytes != nil && int64(x.number) < last[ipv6] {
				t.Errorf("%v: packet %d came after %d", backend, x.number, last[ipv6])
			}
			if x.bytes != nil {
				last[ipv6] = int64(x.number)
			}
		}
		if len(b.got) != 2*n || b.unwrapped != 2*n || a.finished+c.finished != 2*n {
			t.Errorf("%v: %d packets came, %d were acknowledged", backend, len(b.got), a.finished+c.finished)
		}
		if len(outer) < 200 { // of 256 paths, in three tunnels
			t.Errorf("%v: packets took %d paths", backend, len(outer))
		}
	}
}

// TestHarm: with packets lost, copied and out of order in both directions, all packets that hosts
// send to each other arrive once and in order, and nothing is left behind.
func TestHarm(t *testing.T) {
	for _, backend := range []tunnel.Backend{tunnel.NDP, tunnel.RTS} {
		for _, c := range []struct {
			name                   string
			loss, copies, disorder float64
		}{{"loss", 0.05, 0, 0}, {"copies", 0, 0.2, 0}, {"disorder", 0, 0, 0.5}, {"all", 0.03, 0.1, 0.3}} {
			t.Run(backend.String()+", "+c.name, func(t *testing.T) {
				for seed := range uint64(8) {
					settings := with(func(c *Config) {
						c.Backend, c.Reorder, c.TCPPackets, c.CreditPerPull = backend, 100*ms, 1000, []int{1, 4, 8}[seed%3]
					})
					w := newNetwork(t, seed, settings, settings, settings)
					w.loss, w.copies, w.disorder = c.loss, c.copies, c.disorder
					const n = 400
					a, b, d := w.hosts[0], w.hosts[1], w.hosts[2]
					w.stream(a, b, 0, n, 2*us)
					w.stream(b, a, 0, n, 2*us)
					w.stream(b, d, 0, n, 3*us)
					w.rest()
					for _, h := range w.hosts {
						if got, ok := h.inOrder(); got != n || !ok {
							t.Errorf("seed %d: host %d got %d packets, each once and in order: %v", seed, h.number+1, got, ok)
						}
					}
					if w.lost == 0 == (c.loss > 0) {
						t.Errorf("%d packets were lost", w.lost)
					}
				}
			})
		}
	}
}

// TestReceiverForgets: a receiving host that drops its state, at any moment, costs no packet.
// Packets that waited for others are delivered before them.
func TestReceiverForgets(t *testing.T) {
	for seed := range uint64(30) {
		w := newNetwork(t, seed, with(func(c *Config) { c.TCPPackets = 1000 }), with(nil))
		w.loss, w.disorder = 0.01, 0.3
		a, b := w.hosts[0], w.hosts[1]
		const n = 500
		w.stream(a, b, 0, n, 2*us)
		w.engine.Go("forget", func(p *sim.Process) {
			for range 5 {
				p.Sleep(units.Time(w.rand.Int64N(int64(300 * us))))
				for k := range b.service.table.All() {
					b.service.table.RemoveTunnel(k)
				}
				b.service.deliverPackets(p.Now())
			}
		})
		w.rest()
		came := map[uint32]bool{}
		for _, x := range b.got {
			came[x.number] = true
		}
		if len(came) != n {
			t.Errorf("seed %d: %d of %d packets came", seed, len(came), n)
		}
		if more := len(b.got) - n; more > 5*60 { // a window each time may have come and not be acknowledged
			t.Errorf("seed %d: %d packets came twice", seed, more)
		}
	}
}

// TestSenderBeginsAnew: a host that restarts knows no epochs. Whatever epoch it draws, the other
// host takes its packets, and the tunnel back works again.
func TestSenderBeginsAnew(t *testing.T) {
	for seed := range uint64(40) {
		w := newNetwork(t, seed, with(nil), with(nil))
		a, b := w.hosts[0], w.hosts[1]
		const n = 100
		w.stream(a, b, 0, n, 2*us)
		w.stream(b, a, 0, n, 2*us)
		w.engine.Go("restart", func(p *sim.Process) {
			p.Sleep(units.Time(w.rand.Int64N(int64(150 * us))))
			a.begin(with(nil))
			p.Sleep(5 * ms)
			w.stream(a, b, 1000, n, 2*us)
			w.stream(b, a, 1000, n, 2*us)
		})
		w.rest()
		for _, h := range w.hosts {
			came := map[uint32]bool{}
			for _, x := range h.got {
				came[x.number] = true
			}
			for i := range uint32(n) {
				if !came[1000+i] {
					t.Fatalf("seed %d: packet %d to host %d is missing", seed, i, h.number+1)
				}
			}
		}
		// Packets from b to a at a's restart were not lost: they were not acknowledged.
		if b.dropped > 0 {
			t.Errorf("seed %d: %d packets of the other host were dropped: %v", seed, b.dropped, b.drops)
		}
	}
}

// TestPassesBy: packets that a tunnel cannot carry, or that no peer could extract, leave unchanged.
func TestPassesBy(t *testing.T) {
	w := newNetwork(t, 1, with(nil), with(nil), nil)
	a, b, c := w.hosts[0], w.hosts[1], w.hosts[2]
	raw := func(change func(b []byte)) *packet.Packet {
		p := a.real(b, 1, 100, somePort, false)
		change(p.Frame)
		if !p.Parse() {
			t.Fatal("no packet")
		}
		return p
	}
	neighbour := func(kind byte) *packet.Packet {
		p := a.real(b, 1, 100, somePort, true)
		p.Frame[14+6], p.Frame[14+40] = wire.ProtoICMPv6, kind
		p.Parse()
		return p
	}
	flood := func(p *packet.Packet) *packet.Packet { p.Dest = packet.Flood; return p }
	for _, x := range []struct {
		name   string
		make   func() *packet.Packet
		to     []*host
		tunnel bool
	}{
		{"to a host with EQDS", func() *packet.Packet { return a.real(b, 1, 100, somePort, false) }, []*host{b}, true},
		{"to one without", func() *packet.Packet { return a.real(c, 1, 100, somePort, false) }, []*host{c}, false},
		{"to one without, IPv6", func() *packet.Packet { return a.real(c, 1, 100, somePort, true) }, []*host{c}, false},
		{"of a modelled flow to one without", func() *packet.Packet { return a.modelled(c, 1, 100) }, []*host{c}, false},
		{"ARP", func() *packet.Packet { return raw(func(b []byte) { binary.BigEndian.PutUint16(b[12:], 0x0806) }) }, []*host{b}, false},
		{"ARP to all", func() *packet.Packet {
			return flood(raw(func(b []byte) { binary.BigEndian.PutUint16(b[12:], 0x0806) }))
		}, []*host{b, c}, false},
		{"multicast", func() *packet.Packet { return flood(a.real(b, 1, 100, somePort, false)) }, []*host{b, c}, false},
		{"router solicitation", func() *packet.Packet { return neighbour(133) }, []*host{b}, false},
		{"neighbour solicitation", func() *packet.Packet { return neighbour(135) }, []*host{b}, false},
		{"redirect", func() *packet.Packet { return neighbour(137) }, []*host{b}, false},
		{"echo request", func() *packet.Packet { return neighbour(128) }, []*host{b}, true},
		{"VLAN", func() *packet.Packet {
			return raw(func(b []byte) {
				copy(b[16:], b[12:90])
				binary.BigEndian.PutUint16(b[12:], wire.EtherTypeVLAN)
				binary.BigEndian.PutUint16(b[14:], 7)
			})
		}, []*host{b}, false},
		{"to nobody's address", func() *packet.Packet { return raw(func(b []byte) { b[14+19] = 99 }) }, []*host{b}, false},
	} {
		for _, h := range w.hosts {
			h.got = nil
		}
		p := x.make()
		size := int(p.Size)
		a.offer(p)
		w.rest()
		for _, h := range w.hosts[1:] {
			want := 0
			for _, to := range x.to {
				if to == h {
					want = 1
				}
			}
			if len(h.got) != want || want == 1 && (h.got[0].tunnel != x.tunnel || h.got[0].bytes != nil && len(h.got[0].bytes) != size) {
				t.Errorf("%s: host %d got %+v", x.name, h.number+1, h.got)
			}
		}
	}
}

// TestTooLong: a packet that does not fit into a tunnel packet is dropped, one that just fits is
// not.
func TestTooLong(t *testing.T) {
	w := newNetwork(t, 1, with(nil), with(nil))
	a, b := w.hosts[0], w.hosts[1]
	for _, x := range []struct {
		size int
		ipv6 bool
		fits bool
	}{{1464, false, true}, {1465, false, false}, {1444, true, true}, {1445, true, false}} {
		b.got, a.drops = nil, map[packet.Fate]int{}
		a.offer(a.real(b, 1, 14+x.size, somePort, x.ipv6))
		w.rest()
		if got := len(b.got) == 1; got != x.fits || got == (a.drops[packet.TooBig] == 1) {
			t.Errorf("%d bytes, IPv6 %v: got %d, dropped %v", x.size, x.ipv6, len(b.got), a.drops)
		}
	}
}

// silent drops every packet of a network.
func silent(*packet.Packet) bool { return true }

// TestTCPQueue: the EQIF for TCP keeps 100 packets for a destination and drops the others. It marks
// ECN-capable packets between 16 and 32 packets with a rising probability, and all beyond; it never
// marks others.
func TestTCPQueue(t *testing.T) {
	for _, ecn := range []uint8{wire.NotECT, 1, 2} {
		w := newNetwork(t, 1, with(func(c *Config) { c.Backend = tunnel.RTS }), with(nil), with(nil))
		a, b, c := w.hosts[0], w.hosts[1], w.hosts[2]
		w.lose = silent
		marked := 0
		for i := range uint32(150) {
			p := a.real(b, i, 1478, somePort, false)
			p.TOS |= ecn
			a.offer(p)
			now := int(a.service.marked)
			was := marked
			marked = now
			switch {
			case ecn == wire.NotECT && now > 0, i <= 16 && now > 0:
				t.Errorf("ECN %d: packet %d is marked", ecn, i)
			case ecn != wire.NotECT && i > 33 && i < 100 && now == was:
				t.Errorf("ECN %d: packet %d is not marked", ecn, i)
			}
		}
		if a.drops[packet.QueueFull] != 50 {
			t.Errorf("ECN %d: of 150 packets %v were dropped", ecn, a.drops)
		}
		if ecn != wire.NotECT && (marked < 68 || marked > 82) {
			t.Errorf("ECN %d: %d packets are marked", ecn, marked)
		}
		// Another destination has a separate queue.
		for i := range uint32(100) {
			a.offer(a.real(c, i, 1478, somePort, false))
		}
		if a.drops[packet.QueueFull] != 50 {
			t.Errorf("ECN %d: %v were dropped on the way to two hosts", ecn, a.drops)
		}
		w.lose = nil
		w.rest()
		ce := 0
		for _, x := range b.got {
			if x.tos&3 == wire.CE {
				ce++
			}
		}
		if len(b.got) != 100 || ce != marked || len(c.got) != 100 {
			t.Errorf("ECN %d: %d packets came, %d marked, of %d; %d to the other", ecn, len(b.got), ce, marked, len(c.got))
		}
	}
}

// nicOf is a NIC with packets for one queue pair of another host.
type nicOf struct {
	h, to *host
	port  edge.Port
	left  int
	size  units.Bytes
	ends  *packet.Addresses
}

func newNIC(h, to *host, n int) *nicOf {
	f := &nicOf{h: h, to: to, left: n, size: 1400, ends: packet.NewAddresses(h.v4, to.v4)}
	f.port = h.service.NICPort(f)
	return f
}

func (f *nicOf) begin() { f.port.AnnouncePacket(f.h.engine.Now(), 0, f.size) }

func (f *nicOf) Next(now units.Time, _ uint8) *packet.Packet {
	if f.left == 0 {
		return nil
	}
	f.left--
	p := f.h.pool.NewRoCE()
	p.Size, p.Version, p.Proto, p.L3 = f.size, 4, wire.ProtoUDP, wire.EthernetHeader
	p.DstPort, p.Dest, p.RoCE.Addresses = roce.Port, packet.Endpoint(f.to.number), f.ends
	p.Seq = uint32(f.left)
	f.h.entered++
	if f.left == 0 {
		f.port.AnnouncePacket(now, 0, 0)
	}
	return p
}

// TestRDMAQueue: from k-low on queue pairs get CNPs, from k-high on one for each packet; the EQIF
// drops from 750 packets on, or, if it is lossless, holds up the NIC as PFC does. Then every packet
// arrives. Packets of programs to port 4791 use the same queue.
func TestRDMAQueue(t *testing.T) {
	const n = 1000
	for _, lossless := range []bool{false, true} {
		w := newNetwork(t, 1, with(func(c *Config) { c.Backend, c.Lossless = tunnel.RTS, lossless }), with(nil))
		a, b := w.hosts[0], w.hosts[1]
		f := newNIC(a, b, n)
		w.lose = silent
		w.engine.Go("begin", func(p *sim.Process) {
			f.begin()
			p.Sleep(us)
			low := 0
			for a.service.eqifs[rdmaEQIF].discipline != nil && p.Now() < 900*us {
				x := a.service.senders[address{b.v4, rdmaEQIF}]
				if _, bytes := x.Queue(); bytes <= a.service.KLow {
					low = a.notified
				}
				p.Sleep(us)
			}
			if low > 0 {
				t.Errorf("lossless %v: %d CNPs below k-low", lossless, low)
			}
			x := a.service.senders[address{b.v4, rdmaEQIF}]
			waiting, bytes := x.Queue()
			if lossless {
				if waiting != 750 || f.left != n-751 || a.dropped != 0 || a.service.nic.stalled == nil {
					t.Errorf("%d packets wait and %d are with the NIC, %d dropped", waiting, f.left, a.dropped)
				}
			} else if waiting != 750 || a.drops[packet.QueueFull] == 0 {
				t.Errorf("%d packets wait, dropped are %v", waiting, a.drops)
			}
			// The queue ends below k-high; the mean probability on the way is half of that at the
			// end.
			share := float64(bytes-a.service.KLow) / float64(a.service.KHigh-a.service.KLow)
			expect := share / 2 * float64(waiting) * float64(bytes-a.service.KLow) / float64(bytes)
			if got := float64(a.notified); got < 0.7*expect || got > 1.3*expect {
				t.Errorf("lossless %v: %v CNPs, expected are about %.0f", lossless, got, expect)
			}
			w.lose = nil
		})
		w.rest()
		got, ok := len(b.got), true
		for i := 1; i < got; i++ {
			ok = ok && b.got[i].number < b.got[i-1].number // the NIC counts down
		}
		if !ok || got+a.dropped != n || lossless && got != n {
			t.Errorf("lossless %v: %d packets came, in order: %v, %d were dropped", lossless, got, ok, a.dropped)
		}
	}

	w := newNetwork(t, 1, with(nil), with(nil))
	a, b := w.hosts[0], w.hosts[1]
	a.offer(a.real(b, 1, 200, roce.Port, false))
	a.offer(a.real(b, 2, 200, somePort, false))
	w.rest()
	if len(a.service.senders) != 2 || a.service.senders[address{b.v4, rdmaEQIF}] == nil {
		t.Errorf("tunnels: %v", a.service.senders)
	}
}

// TestCNPAtHigh: above k-high each packet causes a CNP.
func TestCNPAtHigh(t *testing.T) {
	w := newNetwork(t, 1, with(func(c *Config) { c.Backend, c.KLow, c.KHigh = tunnel.RTS, 0, 10_000 }), with(nil))
	a, b := w.hosts[0], w.hosts[1]
	w.lose = silent
	for i := range uint32(50) {
		was := a.notified
		a.offer(a.real(b, i, 1014, roce.Port, false))
		if i > 10 && a.notified != was+1 {
			t.Errorf("no CNP for packet %d", i)
		}
	}
	w.lose = nil
	w.rest()
}

// TestCongestionOfTheNetwork: an outer packet has the ECN codepoint of its inner packet. A mark is
// copied to the inner packet; if that is not ECN-capable it is dropped, and the tunnel continues
// (RFC 6040).
func TestCongestionOfTheNetwork(t *testing.T) {
	const notECT, ect1, ect0, ce = wire.NotECT, 1, 2, wire.CE
	for _, x := range []struct {
		inner, outer, want uint8
		drop               bool
	}{
		{notECT, notECT, notECT, false}, {notECT, ect0, notECT, false}, {notECT, ect1, notECT, false}, {notECT, ce, notECT, true},
		{ect0, notECT, ect0, false}, {ect0, ect0, ect0, false}, {ect0, ect1, ect1, false}, {ect0, ce, ce, false},
		{ect1, notECT, ect1, false}, {ect1, ect0, ect1, false}, {ect1, ect1, ect1, false}, {ect1, ce, ce, false},
		{ce, notECT, ce, false}, {ce, ect0, ce, false}, {ce, ect1, ce, false}, {ce, ce, ce, false},
	} {
		if got, drop := combineECN(x.inner, x.outer); got != x.want || drop != x.drop {
			t.Errorf("inner %d, outer %d: %d, drop %v", x.inner, x.outer, got, drop)
		}
	}
	for _, ecn := range []uint8{notECT, ect0, ect1, ce} {
		w := newNetwork(t, 1, with(nil), with(nil))
		a, b := w.hosts[0], w.hosts[1]
		w.disorder = 0.3
		marks := 0
		w.mark = func(p *packet.Packet) bool {
			h := headerOf(p)
			if h.control || h.data.IsRTS() {
				if p.ECN() != notECT {
					t.Errorf("a control packet with ECN %d", p.ECN())
				}
				return false
			}
			if p.ECN() != ecn {
				t.Errorf("ECN %d outside, and %d inside", p.ECN(), ecn)
			}
			marks++
			return marks%4 == 0
		}
		const n = 80
		for i := range uint32(n) {
			p := a.real(b, i, 500, somePort, i%2 == 0)
			p.SetECN(ecn)
			a.offer(p)
		}
		w.rest()
		kept := n
		if ecn == notECT {
			kept = n - n/4
		}
		got := 0
		for _, x := range b.got {
			if x.tos&3 == ce {
				got++
			}
			ip := x.bytes[14:]
			inFrame := ip[1] & 3
			if ip[0]>>4 == 6 {
				inFrame = ip[1] >> 4 & 3
			} else if wire.IPv4Checksum(ip[:20]) != binary.BigEndian.Uint16(ip[10:]) && wire.Checksum(ip[:20], 0) != 0 {
				t.Errorf("ECN %d: the checksum of the header is wrong", ecn)
			}
			if inFrame != x.tos&3 {
				t.Errorf("ECN %d: %d in the packet and %d in its bytes", ecn, x.tos&3, inFrame)
			}
		}
		want := map[uint8]int{notECT: 0, ect0: n / 4, ect1: n / 4, ce: n}[ecn]
		if len(b.got) != kept || got != want || b.drops[packet.EarlyDrop] != n-kept || a.finished != n || a.service.past.resent > 0 {
			t.Errorf("ECN %d: %d packets came, %d of them marked; %v dropped; %d acknowledged", ecn, len(b.got), got, b.drops, a.finished)
		}
	}
}

// TestIdle: a tunnel that has been idle is closed at the next event of the host, and the other end
// with it. Later packets reopen it with the next epoch, and arrive in the same time and without
// loss, whether the RST has arrived or not. Counts stay.
func TestIdle(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("RST lost: %v", lost), func(t *testing.T) {
			settings := with(func(c *Config) { c.Idle = 20 * ms })
			w := newNetwork(t, 1, settings, settings, settings)
			a, b, c := w.hosts[0], w.hosts[1], w.hosts[2]
			var epochs []eqds.Epoch
			resets := 0
			w.seen = func(_ units.Time, from *host, p *packet.Packet) {
				h := headerOf(p)
				if from != a || h.control || p.Message.To != b.v4 {
					return
				}
				if h.data.Flags.Has(eqds.FlagRST) {
					resets++
				} else if h.data.Flags.Has(eqds.FlagSYN) && (len(epochs) == 0 || epochs[len(epochs)-1] != epochOf(h)) {
					epochs = append(epochs, epochOf(h))
				}
			}
			w.lose = func(p *packet.Packet) bool { return lost && headerOf(p).data.Flags.Has(eqds.FlagRST) }
			var gone []edge.Flow
			a.service.OnFlowEnd(func(_ units.Time, x *edge.Flow) { gone = append(gone, *x) })
			const n, rounds = 50, 5
			w.engine.Go("rounds", func(p *sim.Process) {
				for r := range uint32(rounds) {
					start := p.Now()
					for i := range uint32(n) {
						a.offer(a.modelled(b, r*n+i, 1400))
					}
					p.Sleep(ms)
					if got := len(b.got); got != int(r+1)*n {
						t.Errorf("round %d: %d packets have come", r, got)
					} else if last := b.got[got-1].at - start; last > 80*us {
						t.Errorf("round %d: the last packet took %v", r, last)
					}
					p.Sleep(settings.Idle - 2*ms)
					a.offer(a.modelled(c, r, 100))
					if a.service.order.Len() != 2 {
						t.Errorf("round %d: a tunnel that was idle for less than %v is closed", r, settings.Idle)
					}
					p.Sleep(2 * ms)
					if x := a.service.FlowCount(p.Now()); x != 1 {
						t.Errorf("round %d: %d tunnels are not old", r, x)
					}
					a.offer(a.modelled(c, r, 100))
					p.Sleep(ms)
					if a.service.order.Len() != 1 || len(a.service.senders) != 1 || len(gone) != int(r)+1 {
						t.Errorf("round %d: %d tunnels, %d addresses, %d are gone", r, a.service.order.Len(), len(a.service.senders), len(gone))
					}
				}
				p.Sleep(3 * settings.Idle)
				for _, h := range w.hosts {
					h.service.Fire(p.Now()) // as at any event
				}
			})
			w.rest()
			if got, ok := b.inOrder(); got != n*rounds || !ok {
				t.Errorf("%d packets came, in order: %v", got, ok)
			}
			if len(epochs) != rounds || resets != rounds {
				t.Fatalf("epochs %v, %d RST", epochs, resets)
			}
			for i := range epochs[1:] {
				if epochs[i+1] != epochs[i].Next() {
					t.Errorf("epochs %v", epochs)
				}
			}
			numbers := map[uint64]bool{}
			for _, x := range gone {
				if numbers[x.Number] || x.Key.To == b.v4 && x.TxPackets != n || x.Packets != 0 {
					t.Errorf("gone: %+v", x)
				}
				numbers[x.Number] = true
			}
			values := a.service.AppendGauges(w.engine.Now(), nil)
			for i, g := range edgeGauges() {
				if want := map[string]float64{"tunnels": 0, "closed_tunnels": rounds + 1, "data": n*rounds + 2*rounds, "resent": 0}; want[g] != values[i] && (want[g] > 0 || g == "tunnels" || g == "resent") {
					t.Errorf("%s is %v", g, values[i])
				}
			}
			for _, h := range w.hosts {
				if s := h.service; s.order.Len() > 0 || len(s.senders) > 0 || s.table.Len() > 0 || s.agenda.Len() > 0 {
					t.Errorf("host %d keeps %d tunnels out and %d in", h.number+1, s.order.Len(), s.table.Len())
				}
			}
		})
	}
}

// edgeGauges are the names of the service's gauges.
func edgeGauges() (names []string) {
	k, err := edge.Services.Find("eqds")
	if err != nil {
		panic(err)
	}
	for _, g := range k.Gauges {
		names = append(names, g.Name)
	}
	return names
}

// TestGivesUp: packets for a host that does not answer are dropped, and the tunnel works when it
// answers again.
func TestGivesUp(t *testing.T) {
	w := newNetwork(t, 1, with(func(c *Config) { c.GiveUp = 10 * ms }), with(nil))
	a, b := w.hosts[0], w.hosts[1]
	w.lose = silent
	w.engine.Go("send", func(p *sim.Process) {
		for i := range uint32(60) {
			a.offer(a.modelled(b, i, 1400))
		}
		p.Sleep(50 * ms)
		if a.drops[packet.GivenUp] != 60 {
			t.Errorf("dropped are %v", a.drops)
		}
		w.lose = nil
		for i := range uint32(60) {
			a.offer(a.modelled(b, 100+i, 1400))
		}
	})
	w.rest()
	if got, ok := b.inOrder(); got != 60 || !ok {
		t.Errorf("%d packets came, in order: %v", got, ok)
	}
}

// TestSharesTheReceiver: two hosts that send at full rate to a third get half of its link each, and
// it is full.
func TestSharesTheReceiver(t *testing.T) {
	for _, credit := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d packets a PULL", credit), func(t *testing.T) { shareTheReceiver(t, credit) })
	}
}

func shareTheReceiver(t *testing.T, credit int) {
	c := with(func(c *Config) { c.CreditPerPull = credit })
	w := newNetwork(t, 1, c, c, c)
	a, b, d := w.hosts[0], w.hosts[1], w.hosts[2]
	const n = 4000
	w.stream(a, d, 0, n, 1200*units.Nanosecond)
	w.stream(b, d, 10*n, n, 1200*units.Nanosecond)
	controls := 0
	w.seen = func(_ units.Time, _ *host, p *packet.Packet) {
		if h := headerOf(p); h != nil && h.control {
			controls++
		}
	}
	w.rest()
	counts := [2]int{}
	until := d.got[len(d.got)-1].at
	for _, x := range d.got {
		counts[x.number/(10*n)]++
	}
	if each := float64(controls) / float64(len(d.got)); each < 0.9/float64(credit) || each > 1.2/float64(credit) {
		t.Errorf("%.3f control packets for each of data", each)
	}
	share := float64(len(d.got)) * float64(lineRate.TimeOf(packet.OnWire(1436))) / float64(until)
	if r := float64(counts[0]) / float64(counts[1]); r < 0.9 || r > 1.1 || share < 0.9 || share > 1 {
		t.Errorf("%v packets of the two came, %.2f of the link", counts, share)
	}
	for _, h := range []*host{a, b} {
		if h.drops[packet.QueueFull] != n-counts[h.number] {
			t.Errorf("host %d: %v dropped, %d came", h.number+1, h.drops, counts[h.number])
		}
	}
}

// TestOverheadOfDefaults: the settings of an MTU of 0 are refused, and do not panic.
func TestOverheadOfDefaults(t *testing.T) {
	c := tunnel.Default(lineRate, 0, us, 1)
	if c.Check() == nil {
		t.Error("an MTU of 0 passes")
	}
	if got := with(nil).Overhead(false); got != 36 {
		t.Errorf("%v over IPv4", got)
	}
	if got := with(nil).Overhead(true); got != 56 {
		t.Errorf("%v over IPv6", got)
	}
}

// TestCreditPerPull: settings of credit per PULL that cannot take effect are refused, and the
// others reach tunnels and the pacer.
func TestCreditPerPull(t *testing.T) {
	for _, c := range []struct {
		credit int
		window units.Bytes
		ok     bool
	}{{1, 0, true}, {64, 0, true}, {0, 0, false}, {-1, 0, false}, {65, 0, false}, {10, 30 * units.KB, false}, {9, 30 * units.KB, true}, {1, 3028, true}, {2, 3028, false}} {
		s := with(func(x *Config) { x.CreditPerPull, x.Window = c.credit, c.window })
		err := s.Validate(lineRate)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "credit-per-pull") {
			t.Errorf("%d packets of a window of %v: %v", c.credit, c.window, err)
		}
	}
	one, eight := with(nil), with(func(c *Config) { c.CreditPerPull = 8 })
	if p := eight.pullConfig(lineRate, 1514); p.Credit != 8 {
		t.Errorf("the pacer gives %d", p.Credit)
	}
	// A path whose product is above the least window, and whose RTO above the least.
	a, b := one.tunnelConfig(lineRate, 1514, 100*us), eight.tunnelConfig(lineRate, 1514, 100*us)
	if b.Credit != 8 || b.Window-a.Window != 7*1514 || b.RTO-a.RTO != 21*lineRate.TimeOf(1514) || a.AckDelay != 8*lineRate.TimeOf(1514) || b.AckDelay != 2*a.AckDelay {
		t.Errorf("%+v, with one packet a PULL %+v", b, a)
	}
	alone := with(func(c *Config) { c.CreditPerPull, c.MergeAcks = 8, false })
	if c := alone.tunnelConfig(lineRate, 1514, 100*us); c.AckDelay != 0 {
		t.Errorf("acknowledgements wait for %v", c.AckDelay)
	}
}
