package eqdsnic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds/tunnel"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// open opens a socket of a host.
func (h *host) open(c SocketConfig) *Socket {
	h.t.Helper()
	n, err := NativeOf(h.service)
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := n.Open(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

// text makes a message that its number identifies.
func text(number, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(number), uint64(size)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestNativeMessages: messages of any length, over both IP versions, between several sockets,
// arrive whole, once and in order, through a network that loses, copies and reorders packets; the
// sender is told of each.
func TestNativeMessages(t *testing.T) {
	for _, backend := range []tunnel.Backend{tunnel.NDP, tunnel.RTS} {
		for seed := range uint64(4) {
			settings := with(func(c *Config) { c.Backend, c.Reorder, c.NativePackets = backend, 100*ms, 20 })
			w := newNetwork(t, seed, settings, settings)
			w.loss, w.copies, w.disorder = 0.02, 0.05, 0.3
			a, b := w.hosts[0], w.hosts[1]
			v4, v6 := a.open(SocketConfig{}), a.open(SocketConfig{})
			if v4.Port != firstFree || v6.Port != firstFree+1 {
				t.Errorf("ports %d and %d", v4.Port, v6.Port)
			}
			sizes := []int{0, 1, 1416, 1417, 100_000, 7, 1376, 1377, 300_000, 64}
			packets := 0
			sink := b.open(SocketConfig{Port: 7})
			send := func(s *Socket, to netip.Addr, chunk int) {
				w.engine.Go("send", func(p *sim.Process) {
					var all []*Sending
					for i, size := range sizes {
						m, err := s.Send(at(to, 7), text(i, size))
						if err != nil {
							t.Error(err)
						}
						all = append(all, m)
						packets += max(1, (size+chunk-1)/chunk)
					}
					for i, m := range all {
						d, err := m.Wait(p, units.Second)
						if err != nil || d.Packets != max(1, (sizes[i]+chunk-1)/chunk) || d.Done <= d.Posted || d.Resent == 0 && d.RTT < 10*us && d.Packets > 0 && d.RTT != 0 || int(m.Number()) != i+1 {
							t.Errorf("%v, message %d: %+v, %v", backend, i, d, err)
						}
					}
				})
			}
			send(v4, b.v4, 1416)
			send(v6, b.v6, 1376)
			next := map[netip.AddrPort]int{}
			w.engine.Go("receive", func(p *sim.Process) {
				for range 2 * len(sizes) {
					m, err := sink.Receive(p, units.Second)
					if err != nil {
						t.Error(err)
						return
					}
					i := next[m.From]
					next[m.From]++
					if !bytes.Equal(m.Data, text(i, sizes[i])) || m.Size != units.Bytes(sizes[i]) || m.At != p.Now() {
						t.Errorf("%v: message %d of %v has %d bytes, or other ones", backend, i, m.From, len(m.Data))
					}
				}
				if _, err := sink.Receive(p, 100*us); !errors.Is(err, syscall.ETIMEDOUT) {
					t.Errorf("one message too many, or %v", err)
				}
			})
			w.rest()
			if len(next) != 2 || next[at(a.v4, v4.Port)] != len(sizes) || next[at(a.v6, v6.Port)] != len(sizes) || a.finished != packets {
				t.Errorf("%v: messages %v, %d packets of %d", backend, next, a.finished, packets)
			}
			if n := a.service.native; n.sent != 2*uint64(len(sizes)) || n.lost > 0 || b.service.native.received != n.sent {
				t.Errorf("%v: counted are %+v", backend, n)
			}
		}
	}
}

// TestNativeSegment checks the inner packet's format.
func TestNativeSegment(t *testing.T) {
	x := &segment{from: 0x0102, to: 0x0304, session: 5, number: 6, total: 7, offset: 4, size: 3, data: []byte("abc")}
	b := bytes.Repeat([]byte{0xff}, x.Len())
	x.EncodeTo(b)
	want := append([]byte{1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 4}, "abc"...)
	if !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
	y := &segment{sending: &Sending{}}
	y.Set(x)
	x.data[0] = 'x'
	if string(y.data) != "abc" || y.sending != nil {
		t.Errorf("a copy shares %+v", y)
	}
	x.data = nil
	x.EncodeTo(b)
	if !bytes.Equal(b[segmentHeader:], make([]byte, 3)) {
		t.Errorf("a length is written as % x", b[segmentHeader:])
	}
	if y.Set(x); y.data != nil || y.size != 3 {
		t.Errorf("a copy of a length is %+v", y)
	}
}

// TestNativeQueues: a program's view of its destination: the EQIF's queue is bounded and the rest
// stays with the program, the pull queue and credit of the tunnel, the RTT of packets and paths.
func TestNativeQueues(t *testing.T) {
	w := newNetwork(t, 1, with(func(c *Config) { c.NativePackets = 30 }), with(nil))
	a, b := w.hosts[0], w.hosts[1]
	var reports []PacketReport
	s := a.open(SocketConfig{Packet: func(_ units.Time, r PacketReport) { reports = append(reports, r) }})
	b.open(SocketConfig{Port: 1})
	n := s.native
	if d := n.Destination(b.v4); d != (Destination{}) || n.Paths(b.v4) != nil {
		t.Errorf("before anything was sent: %+v", d)
	}
	w.engine.Go("send", func(p *sim.Process) {
		m, err := s.SendSize(at(b.v4, 1), 1416*200)
		if err != nil {
			t.Error(err)
			return
		}
		p.Sleep(8 * us) // the first window is leaving, nothing has come back
		d := n.Destination(b.v4)
		gone := 200 - int(d.Backlog)/1416 - d.Packets
		if d.Messages != 1 || d.Packets != 30 || d.Queue != 30*1514 || d.Unacknowledged != gone || gone < 6 || gone > 9 || d.SRTT != 0 || d.Credit != 50*1514-units.Bytes(gone*1514) {
			t.Errorf("%+v", d)
		}
		p.Sleep(40 * us)
		if d = n.Destination(b.v4); d.SRTT < 10*us || d.SRTT > 20*us || d.PullQueue == 0 || d.PullQueue > 50 {
			t.Errorf("%+v", d)
		}
		if _, err := m.Wait(p, 10*us); !errors.Is(err, syscall.ETIMEDOUT) || m.Done() {
			t.Errorf("after 60 us: %v", err)
		}
		d2, err := m.Wait(p, units.Never)
		if err != nil || d2.Packets != 200 || d2.Resent != 0 || d2.RTT < 10*us || d2.RTT > 15*us {
			t.Errorf("%+v, %v", d2, err)
		}
	})
	w.rest()
	var sum units.Bytes
	for _, r := range reports {
		sum += r.Size
		if r.To != at(b.v4, 1) || r.Number != 1 || !r.Delivered || r.Tries != 1 {
			t.Fatalf("%+v", r)
		}
	}
	if len(reports) != 200 || sum != 1416*200 {
		t.Errorf("%d reports of %d bytes", len(reports), sum)
	}
	used := 0
	for _, path := range n.Paths(b.v4) {
		if path.Latency > 0 {
			used++
		}
	}
	if used < 100 { // of 200 packets over 256 paths, those whose acknowledgement is of them alone
		t.Errorf("%d paths have an RTT", used)
	}
}

// TestNativeErrors: each error says what is wrong.
func TestNativeErrors(t *testing.T) {
	w := newNetwork(t, 1, with(func(c *Config) { c.GiveUp = 5 * ms }), with(nil), nil)
	a, b, c := w.hosts[0], w.hosts[1], w.hosts[2]
	s := a.open(SocketConfig{Port: 9})
	if _, err := s.native.Open(SocketConfig{Port: 9}); err == nil || !strings.Contains(err.Error(), "port 9 is in use") {
		t.Errorf("a port twice: %v", err)
	}
	for _, to := range []netip.Addr{c.v4, netip.MustParseAddr("10.9.9.9"), a.v4, {}} {
		if _, err := s.Send(at(to, 1), nil); err == nil || !strings.Contains(err.Error(), "no other host with edge: eqds has") {
			t.Errorf("to %v: %v", to, err)
		}
	}
	if _, err := s.SendSize(at(b.v4, 1), MaxMessage+1); err == nil || !strings.Contains(err.Error(), "the maximum is 16777216") {
		t.Errorf("too long: %v", err)
	}
	if _, err := NativeOf(struct{ edge.Service }{}); err == nil || !strings.Contains(err.Error(), "write edge: eqds") {
		t.Errorf("another service: %v", err)
	}

	// No answer: waiting messages are given up, and later ones go out.
	w.lose = silent
	sink := b.open(SocketConfig{Port: 1, Room: 5000})
	w.engine.Go("give up", func(p *sim.Process) {
		long, err := s.SendSize(at(b.v4, 1), units.MB)
		if err != nil {
			t.Error(err)
		}
		if _, err := long.Wait(p, units.Second); !errors.Is(err, ErrGivenUp) || p.Now() > 10*ms {
			t.Errorf("given up: %v", err)
		}
		w.lose = nil
		// To a port without a socket, and beyond the room of one: delivered, and dropped there.
		for _, x := range []struct {
			port uint16
			size units.Bytes
		}{{2, 10}, {1, 3000}, {1, 3000}} {
			m, err := s.SendSize(at(b.v4, x.port), x.size)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := m.Wait(p, units.Second); err != nil {
				t.Error(err)
			}
		}
		if n := b.service.native; n.lost != 2 || n.received != 1 {
			t.Errorf("%d messages lost, %d received", n.lost, n.received)
		}
		if m, ok := sink.TakeMessage(); !ok || m.Size != 3000 || m.Data != nil {
			t.Errorf("%+v", m)
		}
		// Close cuts messages off.
		m, _ := s.SendSize(at(b.v4, 1), units.MB)
		p.Sleep(20 * us)
		s.Close()
		s.Close()
		if _, err := m.Wait(p, units.Second); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		if _, err := s.Send(at(b.v4, 1), nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		sink.Close()
	})
	w.engine.Go("wait", func(p *sim.Process) {
		other := b.open(SocketConfig{})
		w.engine.Go("close", func(p *sim.Process) {
			p.Sleep(ms)
			other.Close()
		})
		if _, err := other.Receive(p, units.Never); !errors.Is(err, net.ErrClosed) || p.Now() != ms {
			t.Errorf("closed while waiting: %v at %v", err, p.Now())
		}
	})
	w.rest()
}

// TestNativeForgets: whatever state the receiving ends of tunnels drop, messages arrive once.
// Messages of a reopened socket are not taken for the old one's.
func TestNativeForgets(t *testing.T) {
	for seed := range uint64(20) {
		settings := with(func(c *Config) { c.Reorder = 100 * ms })
		w := newNetwork(t, seed, settings, settings)
		w.loss, w.disorder = 0.01, 0.3
		a, b := w.hosts[0], w.hosts[1]
		sink := b.open(SocketConfig{Port: 1})
		const n, rounds = 40, 3
		w.engine.Go("send", func(p *sim.Process) {
			for r := range rounds {
				s := a.open(SocketConfig{Port: 5})
				var last *Sending
				for i := range n {
					last, _ = s.Send(at(b.v4, 1), binary.BigEndian.AppendUint32(text(i, 5000), uint32(r*n+i)))
				}
				for !last.Done() {
					p.Sleep(100 * us)
				}
				p.Sleep(20 * ms)
				s.Close()
			}
		})
		w.engine.Go("forget", func(p *sim.Process) {
			for range 12 {
				p.Sleep(units.Time(w.rand.Int64N(int64(150 * us))))
				for k := range b.service.table.All() {
					b.service.table.RemoveTunnel(k)
				}
				b.service.deliverPackets(p.Now())
			}
		})
		w.rest()
		came := map[uint32]int{}
		for m, ok := sink.TakeMessage(); ok; m, ok = sink.TakeMessage() {
			came[binary.BigEndian.Uint32(m.Data[5000:])]++
		}
		for i := range uint32(n * rounds) {
			if came[i] != 1 {
				t.Fatalf("seed %d: message %d came %d times", seed, i, came[i])
			}
		}
	}
}

// TestNativeBesideTCP: programs and TCP share a host's link and a receiver in turn.
func TestNativeBesideTCP(t *testing.T) {
	w := newNetwork(t, 1, with(nil), with(nil))
	a, b := w.hosts[0], w.hosts[1]
	s, sink := a.open(SocketConfig{}), b.open(SocketConfig{Port: 1})
	w.stream(a, b, 0, 2000, 1200*units.Nanosecond)
	m, err := s.SendSize(at(b.v4, 1), 1416*1000)
	if err != nil {
		t.Fatal(err)
	}
	w.rest()
	d, err := m.Delivery()
	if r, ok := sink.TakeMessage(); !ok || err != nil || r.Size != 1416*1000 {
		t.Fatalf("%+v, %v", r, err)
	}
	share := float64(1000*lineRate.TimeOf(packet.OnWire(1514))) / float64(d.Done)
	if share < 0.45 || share > 0.55 {
		t.Errorf("%.2f of the link", share)
	}
}

// TestPullOrders: the settings decide who is pulled first: all in turn, RDMA, or TCP, and native
// between them.
func TestPullOrders(t *testing.T) {
	for name, want := range map[string][]int{"rdma-first": {rdmaEQIF, nativeEQIF, tcpEQIF}, "tcp-first": {tcpEQIF, nativeEQIF, rdmaEQIF}} {
		p := pullOrders[name]
		var none uint64
		for i := range want[1:] {
			if p.Rank(pullClasses[want[i]], 0, 0, &none) >= p.Rank(pullClasses[want[i+1]], 0, 0, &none) {
				t.Errorf("%s: %d is not before %d", name, want[i], want[i+1])
			}
		}
	}
}
