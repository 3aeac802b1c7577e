package eqdsnic

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/wire"
)

const (
	us = units.Microsecond
	ms = units.Millisecond

	worldMTU = 1500
	lineRate = 10 * units.Gbps
	oneWay   = 5 * us
)

// network joins hosts by links of 10 Gb/s and a middle that takes 5 us, and loses, copies and
// delays packets as configured.
type network struct {
	t        testing.TB
	engine   sim.Engine
	pool     *packet.Pool
	rand     *rand.Rand
	hosts    []*host
	timer    sim.Timer
	inFlight flights
	count    uint64

	loss, copies, disorder float64                     // shares of packets
	mark                   func(p *packet.Packet) bool // sets CE of an outer packet; may be nil
	lose                   func(p *packet.Packet) bool // loses likewise
	seen                   func(now units.Time, from *host, p *packet.Packet)
	lost                   int
}

// flight is a packet under way.
type flight struct {
	at units.Time
	n  uint64
	p  *packet.Packet
	to *host
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].n < f[j].n
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}

// host is the host of a service with its port: it asks for packets as a port does. Without a
// service it is a host without EQDS.
type host struct {
	*network
	number  int
	v4, v6  netip.Addr
	service *service
	timer   sim.Timer
	port    sim.Timer

	free    units.Time // when the port is
	fed     [class.Count]units.Bytes
	asking  bool
	passing packet.List // in the port's own queue

	entered, unwrapped, finished, dropped, passed, notified int
	drops                                                   map[packet.Fate]int
	got                                                     []arrival
}

// arrival is a packet received by a host.
type arrival struct {
	at     units.Time
	tos    uint8
	number uint32 // of numbered packets
	tunnel bool   // it came out of a tunnel
	bytes  []byte // of a real program's
}

type portTimer host

func (p *portTimer) Fire(now units.Time) { (*host)(p).start(now) }

// Fire lets packets arrive.
func (w *network) Fire(now units.Time) {
	for len(w.inFlight) > 0 && w.inFlight[0].at <= now {
		f := heap.Pop(&w.inFlight).(flight)
		f.to.receive(now, f.p)
	}
	if len(w.inFlight) > 0 {
		w.timer.Arm(w.inFlight[0].at)
	}
}

// newNetwork makes a network of hosts with these settings; nil means a host without EQDS.
func newNetwork(t testing.TB, seed uint64, settings ...*Config) *network {
	w := &network{t: t, pool: packet.NewPools(1)[0], rand: rand.New(rand.NewPCG(seed, 7))}
	w.timer = w.engine.NewTimer(w)
	for i, c := range settings {
		h := &host{network: w, number: i, drops: map[packet.Fate]int{}}
		h.v4 = netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		h.v6 = netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1))
		h.timer, h.port = w.engine.NewTimer(h), w.engine.NewTimer((*portTimer)(h))
		w.hosts = append(w.hosts, h)
		if c != nil {
			if err := c.Validate(lineRate); err != nil {
				t.Fatal(err)
			}
			h.begin(c)
		}
	}
	return w
}

// begin gives the host a new service, as if the host restarted.
func (h *host) begin(c *Config) {
	if old := h.service; old != nil {
		for x := range old.order.All() {
			x.DropState() // drops its packets
		}
		for k := range old.table.All() {
			old.table.RemoveTunnel(k)
		}
		for p := old.arrived.Pop(); p != nil; p = old.arrived.Pop() {
			h.pool.Free(p)
		}
		h.timer.Disarm()
		h.fed = [class.Count]units.Bytes{}
	}
	h.service = newService(c, edge.Env{
		Host: h, Name: fmt.Sprintf("h%d:eth0", h.number+1), Line: lineRate, MTU: worldMTU,
		Classes: &class.Map{}, Rand: rand.New(rand.NewPCG(uint64(h.number), h.rand.Uint64())), Pool: h.pool, Now: h.engine.Now,
	})
}

// run runs for a time, or until no event is left.
func (w *network) run(until units.Time) {
	w.t.Helper()
	w.engine.Run(until, math.MaxInt)
	for _, h := range w.hosts {
		if h.service != nil {
			h.sound()
		}
	}
}

// rest runs until no event is left, and checks that no packet is left anywhere.
func (w *network) rest() {
	w.t.Helper()
	w.run(units.Never)
	for _, h := range w.hosts {
		if h.service == nil {
			continue
		}
		if n, b := h.service.HeldPackets(); n != 0 || b != 0 {
			w.t.Errorf("host %d holds %d packets of %v", h.number+1, n, b)
		}
		if h.service.armed != units.Never {
			w.t.Errorf("host %d has its timer armed for %v", h.number+1, h.service.armed)
		}
	}
	if live := w.pool.LivePackets(); live != 0 {
		w.t.Errorf("%d packets are out of the pool", live)
	}
}

// sound checks that the lists of a service are consistent.
func (h *host) sound() {
	h.t.Helper()
	s := h.service
	if err := s.agenda.Check(); err != nil {
		h.t.Fatal(err)
	}
	packets, idle, senders := 0, 0, 0
	for x := range s.order.All() {
		senders++
		if s.senders[x.address] != x {
			h.t.Fatalf("the tunnel to %v is not found by its address", x.to)
		}
		n, _ := x.Queue()
		packets += n + x.Unacknowledged()
		if x.IsIdle() != x.inIdle.IsLinked() {
			h.t.Fatalf("the tunnel to %v is idle: %v, and among idle ones: %v", x.to, x.IsIdle(), x.inIdle.IsLinked())
		}
		if x.IsIdle() {
			idle++
		}
		if waiting := x.NextSize() > 0; waiting != x.turn.IsWaiting() {
			h.t.Fatalf("the tunnel to %v has something that may leave: %v, and takes turns: %v", x.to, waiting, x.turn.IsWaiting())
		}
		if s.agenda.Next() > x.NextTimer() {
			h.t.Fatalf("the tunnel to %v is due at %v, and the agenda at %v", x.to, x.NextTimer(), s.agenda.Next())
		}
	}
	if n := s.packets; packets > n {
		h.t.Fatalf("tunnels have %d packets, counted are %d", packets, n)
	}
	if senders != s.order.Len() || idle != s.idle.Len() {
		h.t.Fatalf("%d tunnels, %d idle; counted are %d and %d", senders, idle, s.order.Len(), s.idle.Len())
	}
	if s.last != nil && s.senders[s.last.address] != s.last {
		h.t.Fatalf("the tunnel to %v is remembered, and is no more", s.last.to)
	}
}

func (h *host) Fire(now units.Time) { h.service.Fire(now) }
func (h *host) Arm(at units.Time)   { h.timer.Arm(at) }
func (h *host) Disarm()             { h.timer.Disarm() }

func (h *host) AnnouncePacket(now units.Time, prio uint8, size units.Bytes) {
	h.fed[prio] = size
	if !h.asking {
		h.start(now)
	}
}

// start sends packets as long as the port is free: packets that bypass the service go first.
func (h *host) start(now units.Time) {
	for h.free <= now {
		p := h.passing.Pop()
		if p == nil && h.fed[0] > 0 {
			size := h.fed[0]
			h.asking = true
			p = h.service.Next(now, 0)
			h.asking = false
			if p == nil {
				h.fed[0] = 0
				continue
			}
			if inner := p.Message.Inner; inner != nil && inner.Layer3()+36 != p.Layer3() && inner.Layer3()+56 != p.Layer3() {
				h.t.Errorf("a packet of %d bytes in one of %d", inner.Layer3(), p.Layer3())
			}
			if p.Size != size {
				h.t.Errorf("fed was a packet of %d bytes, and %d came", size, p.Size)
			}
		}
		if p == nil {
			return
		}
		h.free = now + lineRate.TimeOf(packet.OnWire(p.Size))
		h.launch(now, p)
	}
	h.port.Arm(h.free)
}

// launch sends a packet over the network, or loses it.
func (h *host) launch(now units.Time, p *packet.Packet) {
	w := h.network
	if w.seen != nil {
		w.seen(now, h, p)
	}
	if p.Dest == packet.Flood {
		for _, to := range w.hosts {
			if to != h {
				w.send(now, w.pool.ClonePacket(p), to)
			}
		}
		w.pool.Free(p)
		return
	}
	if w.loss > 0 && w.rand.Float64() < w.loss || w.lose != nil && w.lose(p) {
		w.lost++
		w.pool.Free(p)
		return
	}
	if w.copies > 0 && w.rand.Float64() < w.copies {
		w.send(now+units.Time(w.rand.Int64N(int64(20*us))), w.pool.ClonePacket(p), w.hosts[p.Dest])
	}
	w.send(now, p, w.hosts[p.Dest])
}

func (w *network) send(now units.Time, p *packet.Packet, to *host) {
	at := now + lineRate.TimeOf(packet.OnWire(p.Size)) + oneWay
	if w.disorder > 0 && w.rand.Float64() < w.disorder {
		at += units.Time(w.rand.Int64N(int64(20 * us)))
	}
	if w.mark != nil && p.Kind == packet.Protocol && w.mark(p) && !p.MarkCE() {
		p.TOS |= wire.CE // like a switch that does not check
	}
	w.count++
	heap.Push(&w.inFlight, flight{at, w.count, p, to})
	w.timer.Arm(w.inFlight[0].at)
}

// receive takes a packet as a station does.
func (h *host) receive(now units.Time, p *packet.Packet) {
	if h.service != nil && h.service.WantsPacket(p) {
		h.service.ReceivePacket(now, p)
		return
	}
	h.deliver(now, p, false)
}

func (h *host) deliver(now units.Time, p *packet.Packet, tunnel bool) {
	if h.service != nil && p.Kind == packet.Protocol && p.Message.Protocol == h.service.TakenProtocol() {
		h.service.TakePacket(now, p)
		return
	}
	a := arrival{at: now, tos: p.TOS, tunnel: tunnel, number: p.Seq}
	if p.Frame != nil {
		a.bytes = bytes.Clone(p.Frame)
		if at := len(p.Frame) - 4; p.Version != 0 && at >= 40 {
			a.number = binary.BigEndian.Uint32(p.Frame[at:])
		}
	}
	h.got = append(h.got, a)
	h.pool.Free(p)
}

func (h *host) Pass(now units.Time, p *packet.Packet) {
	h.passed++
	h.passing.Push(p)
	if !h.asking {
		h.start(now)
	}
}

func (h *host) Drop(_ units.Time, p *packet.Packet, why packet.Fate) {
	h.dropped++
	h.drops[why]++
	h.pool.Free(p)
}

func (h *host) DeliverPacket(now units.Time, p *packet.Packet) {
	h.t.Fatal("a tunnel delivers as others do")
}

func (h *host) Consume(_ units.Time, p *packet.Packet) { h.pool.Free(p) }
func (h *host) Waits(units.Time, *packet.Packet)       {}
func (h *host) Leaves(units.Time, *packet.Packet)      {}
func (h *host) Admit(units.Time, *packet.Packet)       { h.entered++ }
func (h *host) Ends(flow int32) (from, to netip.Addr)  { return h.v4, h.hosts[flow].v4 }
func (h *host) Finish(p *packet.Packet)                { h.finished++; h.pool.Free(p) }
func (h *host) Notify(units.Time, *packet.Packet) bool { h.notified++; return true }
func (h *host) owner(a netip.Addr) (found *host, ok bool) {
	for _, x := range h.hosts {
		if x.v4 == a || x.v6 == a {
			return x, true
		}
	}
	return nil, false
}

func (h *host) Address(p *packet.Packet) bool {
	to, ok := h.owner(p.Message.To)
	if !ok {
		return false
	}
	if p.Message.From = h.v4; p.Message.To.Is6() {
		p.Message.From = h.v6
	}
	p.Dest = packet.Endpoint(to.number)
	p.SetFields()
	return true
}

func (h *host) Peer(a netip.Addr) (p edge.Peer, ok bool) {
	x, ok := h.owner(a)
	if !ok || x.service == nil || x == h {
		return p, false
	}
	p.Line = lineRate
	if p.Address = x.v4; a.Is6() {
		p.Address = x.v6
	}
	return p, true
}

func (h *host) Unwrap(now units.Time, p *packet.Packet, fate packet.Fate) {
	h.unwrapped++
	if fate.IsDrop() {
		h.drops[fate]++
		h.pool.Free(p)
		return
	}
	h.deliver(now, p, true)
}

func (h *host) Trip(_ packet.FlowKey, size, answer units.Bytes) cc.Path {
	return cc.Path{RTT: 2*oneWay + lineRate.TimeOf(size) + lineRate.TimeOf(answer), Bottleneck: lineRate}
}

// modelled makes a packet of the flow to a host, with a number.
func (h *host) modelled(to *host, number uint32, size units.Bytes) *packet.Packet {
	p := h.pool.New()
	p.Kind, p.Flow, p.Seq, p.Size, p.Version, p.Proto, p.L3 = packet.Modelled, int32(to.number), number, size, 4, wire.ProtoUDP, wire.EthernetHeader
	p.Dest = packet.Endpoint(to.number)
	return p
}

// ports of a real program's packets.
const somePort = 5001

// real makes the packet of a real program: UDP with a number in its last bytes.
func (h *host) real(to *host, number uint32, size int, port uint16, ipv6 bool) *packet.Packet {
	p := h.pool.NewFrame(size)
	b := p.Frame
	clear(b)
	copy(b, []byte{2, 0, 0, 0, 0, byte(to.number), 2, 0, 0, 0, 0, byte(h.number)})
	ip := b[wire.EthernetHeader:]
	var udp []byte
	if ipv6 {
		binary.BigEndian.PutUint16(b[12:], wire.EtherTypeIPv6)
		ip[0], ip[6], ip[7] = 0x60, wire.ProtoUDP, 64
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-wire.IPv6Header))
		from, dst := h.v6.As16(), to.v6.As16()
		copy(ip[8:], from[:])
		copy(ip[24:], dst[:])
		udp = ip[wire.IPv6Header:]
	} else {
		binary.BigEndian.PutUint16(b[12:], wire.EtherTypeIPv4)
		ip[0], ip[8], ip[9] = 0x45, 64, wire.ProtoUDP
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		from, dst := h.v4.As4(), to.v4.As4()
		copy(ip[12:], from[:])
		copy(ip[16:], dst[:])
		binary.BigEndian.PutUint16(ip[10:], wire.IPv4Checksum(ip[:20]))
		udp = ip[wire.IPv4Header:]
	}
	binary.BigEndian.PutUint16(udp, 40000)
	binary.BigEndian.PutUint16(udp[2:], port)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	binary.BigEndian.PutUint32(b[size-4:], number)
	if !p.Parse() {
		h.t.Fatal("no packet")
	}
	p.Dest = packet.Endpoint(to.number)
	return p
}

// offer makes a program of the host send a packet.
func (h *host) offer(p *packet.Packet) {
	h.entered++
	h.service.SendPacket(h.engine.Now(), p)
}

// stream makes a host send numbered packets of 1400 bytes to another one, at fixed intervals.
func (w *network) stream(from, to *host, first, n uint32, every units.Time) {
	w.engine.Go("stream", func(p *sim.Process) {
		for i := range n {
			from.offer(from.modelled(to, first+i, 1400))
			p.Sleep(every)
		}
	})
}

// inOrder returns how many numbers a host has received, and whether each came once and in order.
func (h *host) inOrder() (n int, ok bool) {
	last, ok := int64(-1), true
	for _, a := range h.got {
		if int64(a.number) <= last {
			ok = false
		}
		last = int64(a.number)
	}
	return len(h.got), ok
}

// headerOf returns the header of a tunnel packet; nil for others.
func headerOf(p *packet.Packet) *header {
	if p.Kind != packet.Protocol || p.Message.Protocol != protocol {
		return nil
	}
	return p.Message.Body.(*header)
}

// with changes the default settings.
func with(f func(c *Config)) *Config {
	c := presetDefaults("")
	if f != nil {
		f(c)
	}
	return c
}

// epochOf returns the epoch of a data packet's number.
func epochOf(h *header) eqds.Epoch { return eqds.EpochOf(h.data.Seq) }
