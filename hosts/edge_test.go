package hosts

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/wire"
)

// TestAddEdge_GivesTheServiceItsWorld: the service knows its interface, link and classes.
func TestAddEdge_GivesTheServiceItsWorld(t *testing.T) {
	w := newWorld(nil)
	i := w.interfaces[0]
	var h holds
	limit := [class.Count]units.Bytes{3: 5 * units.KB}
	random := rand.New(rand.NewPCG(1, 2))
	i.AddEdge(edge.Choice{Name: "test", Preset: "slow", Settings: &h}, limit, random)
	e := h.made.env
	if e.Name != "h1:eth0" || e.Line != units.Gbps || e.MTU != 1500 || e.Limit != limit || e.Rand != random || e.Pool != w.pool || e.Classes.DSCP[8] != 3 || e.Now() != 0 {
		t.Errorf("%+v", e)
	}
	if c := i.EdgeChoice(); !i.HasEdge() || i.EdgeService() != edge.Service(h.made) || c.Name != "test" || c.Preset != "slow" {
		t.Errorf("%v, %+v", i.EdgeService(), c)
	}
	if i.SetLineRate(0, 2*units.Gbps); h.made.line != units.Gbps { // what the link has is what counts
		t.Errorf("the service knows %v", h.made.line)
	}
	i.Port.SetLink(0, withRate(i, 100*units.Mbps))
	if i.SetLineRate(0, 100*units.Mbps); h.made.line != 100*units.Mbps {
		t.Errorf("the service knows %v", h.made.line)
	}
}

// TestInterfaceWithoutEdge_HasNone: all that concerns edge services does nothing.
func TestInterfaceWithoutEdge_HasNone(t *testing.T) {
	i := newWorld(nil).interfaces[0]
	i.Watch(1, units.KB, func(units.Time, int, bool) { t.Error("called") })
	i.SetLineRate(0, units.Gbps)
	if a, b := i.TunnelledPackets(); i.HasEdge() || i.EdgeService() != nil || i.EdgeChoice().Settings != nil || a+b != 0 {
		t.Error("it has something")
	}
}

// TestEdgeService_GetsWhatTheHostSends: packets are counted as they enter the service, with the
// device queue that they came from, and leave when the port asks for them.
func TestEdgeService_GetsWhatTheHostSends(t *testing.T) {
	w := newWorld(nil)
	from, to := w.interfaces[0], &inbox{}
	w.interfaces[1].Attach(to)
	s := addHolding(from)
	p := w.parsed(frame(0, 1, 8, 9, 100))
	p.In = 5
	from.Enter(0, p)
	if n, _ := s.HeldPackets(); n != 1 || from.Entered != 1 || p.In != 5 || p.Prio != 3 || p.ID != 1 {
		t.Errorf("%d held, %d entered, %+v", n, from.Entered, p)
	}
	from.OriginatePacket(0, w.parsed(frame(0, 1, 8, 9, 100)))
	w.run()
	if n, _ := s.HeldPackets(); n != 0 || len(to.got) != 2 || w.engine.Now() < 2*units.Microsecond {
		t.Errorf("%d held, %d arrived, at %v", n, len(to.got), w.engine.Now())
	}
}

// TestEdgeService_GetsWhatItWants: a service gets arriving packets before the host, which gets all
// others; PeekFate knows. What it consumes is delivered.
func TestEdgeService_GetsWhatItWants(t *testing.T) {
	w := newWorld(nil)
	i := w.interfaces[1]
	s := addHolding(i)
	if i.PeekFate(0, i.Port, w.message()) != packet.Fine || i.PeekFate(0, i.Port, w.parsed(frame(0, 1, 0, 9, 10))) != packet.NoReceiver {
		t.Error("PeekFate knows no service")
	}
	i.SetReceiver(notes, func(units.Time, *packet.Packet) { t.Error("the host gets what the service wants") })
	i.InputPacket(0, i.Port, w.message())
	i.InputPacket(0, i.Port, w.parsed(frame(0, 1, 0, 9, 10)))
	if len(s.took) != 1 || i.Delivered != 0 || drops(0, i.Port)[packet.NoReceiver] != 1 {
		t.Fatalf("the service has %d packets, %d are delivered", len(s.took), i.Delivered)
	}
	size := uint64(s.took[0].Size)
	s.env.Consume(0, s.took[0])
	if i.Delivered != 1 || i.DeliveredBytes != size {
		t.Errorf("%d delivered, %d bytes", i.Delivered, i.DeliveredBytes)
	}
	in := &inbox{}
	i.Attach(in)
	s.env.DeliverPacket(0, w.parsed(frame(0, 1, 0, 9, 10)))
	if len(in.got) != 1 || i.Delivered != 2 {
		t.Errorf("%d packets delivered by the service", len(in.got))
	}
}

// taking is a holding that programs use directly.
type taking struct{ *holding }

func (taking) TakenProtocol() *packet.MessageProtocol        { return notes }
func (s taking) TakePacket(_ units.Time, p *packet.Packet)   { s.took = append(s.took, p) }
func (taking) WantsPacket(*packet.Packet) bool               { return false }
func (s taking) NICPort(f edge.Feeder) edge.Port             { s.nic = f; return s.env.Host }
func (s taking) New(env edge.Env) edge.Service               { s.env = env; return s }
func (s taking) Validate(units.Rate) error                   { return nil }
func (s taking) SendPacket(now units.Time, p *packet.Packet) { s.env.Pass(now, p) }
func (taking) ReceivePacket(units.Time, *packet.Packet)      { panic("it wants nothing") }

// TestTaker_GetsItsProtocol: packets of the protocol of a service that programs use are for it.
func TestTaker_GetsItsProtocol(t *testing.T) {
	w := newWorld(nil)
	s := taking{&holding{}}
	w.interfaces[1].AddEdge(edge.Choice{Settings: s}, [class.Count]units.Bytes{}, nil)
	w.interfaces[1].InputPacket(0, w.interfaces[1].Port, w.message())
	if len(s.took) != 1 || w.interfaces[1].Delivered != 1 {
		t.Errorf("%d taken, %d delivered", len(s.took), w.interfaces[1].Delivered)
	}
}

// TestPassAndDrop_EndAtThePort: a packet that passes by the service is in the port's own queue, and
// one that it drops is counted there, for the true reason.
func TestPassAndDrop_EndAtThePort(t *testing.T) {
	w := newWorld(nil)
	from, to := w.interfaces[0], &inbox{}
	w.interfaces[1].Attach(to)
	s := addHolding(from)
	for range 2 {
		p := w.parsed(frame(0, 1, 0, 9, 100))
		p.In = 7 // a queue of the device, which the port does not have
		s.env.Admit(0, p)
		s.env.Pass(0, p)
	}
	lost := w.parsed(frame(0, 1, 0, 9, 100))
	s.env.Admit(0, lost)
	s.env.Drop(0, lost, packet.EarlyDrop)
	w.run()
	if d := drops(w.engine.Now(), from.Port); len(to.got) != 2 || from.Entered != 3 || !cmp.Equal(d, map[packet.Fate]uint64{packet.EarlyDrop: 1}) {
		t.Errorf("%d arrived of %d, dropped %v", len(to.got), from.Entered, d)
	}
}

// TestAddress_CompletesMessages: a message gets the addresses of either end, again for another
// destination, and none for an address that nobody has.
func TestAddress_CompletesMessages(t *testing.T) {
	w := newWorld(nil)
	s := addHolding(w.interfaces[0])
	for _, v6 := range []bool{false, true, false} {
		p := w.pool.NewMessage(notes)
		p.Message.To = addressOf(1, v6)
		if !s.env.Address(p) {
			t.Fatalf("%v has no path", p.Message.To)
		}
		if p.Message.From != addressOf(0, v6) || p.Dest != 1 || p.Dst != macOf(1) || p.Src != macOf(0) || p.Version != map[bool]uint8{false: 4, true: 6}[v6] || p.DstPort != notes.Port {
			t.Errorf("%+v from %v", p, p.Message.From)
		}
		other := w.pool.NewMessage(notes)
		other.Message.To = netip.MustParseAddr("192.0.2.1")
		if s.env.Address(other) {
			t.Error("nobody has 192.0.2.1")
		}
	}
}

// TestPeer_IsAnotherInterfaceWithTheService: with its first address and the rate that its link had
// when the run began.
func TestPeer_IsAnotherInterfaceWithTheService(t *testing.T) {
	w := newWorld(nil)
	a, b := w.interfaces[0], w.interfaces[1]
	s := addHolding(a)
	if _, ok := s.env.Peer(addressOf(1, false)); ok {
		t.Error("a peer has no service")
	}
	addHolding(b)
	b.Port.SetLink(0, withRate(b, 10*units.Mbps))
	for _, v6 := range []bool{false, true} {
		want := edge.Peer{Address: addressOf(1, v6), Line: units.Gbps}
		if got, ok := s.env.Peer(addressOf(1, v6)); !ok || got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if _, ok := s.env.Peer(addressOf(0, false)); ok {
		t.Error("the interface is its own peer")
	}
	if _, ok := s.env.Peer(netip.MustParseAddr("192.0.2.1")); ok {
		t.Error("nobody has 192.0.2.1")
	}
	b.edge.chosen.Name = "test-other"
	if _, ok := s.env.Peer(addressOf(1, false)); ok {
		t.Error("a peer has another service")
	}
	b.edge.chosen.Name = a.edge.chosen.Name
	b.Addresses = b.Addresses[:1]
	if _, ok := s.env.Peer(addressOf(1, true)); ok {
		t.Error("a peer has no address of IPv6")
	}
}

// TestUnwrap_DeliversOrDrops: what comes out of a tunnel is delivered, with the Ethernet address of
// the host also behind routers, or counted as dropped.
func TestUnwrap_DeliversOrDrops(t *testing.T) {
	for _, routed := range []bool{false, true} {
		w := newWorld(func(w *world) { w.routed = routed })
		i, in := w.interfaces[1], &inbox{}
		i.Attach(in)
		s := addHolding(i)
		s.env.Unwrap(0, w.parsed(frame(0, 7, 0, 9, 100)), packet.Fine) // to the first router
		s.env.Unwrap(0, w.parsed(frame(0, 1, 0, 9, 100)), packet.BadFCS)
		s.env.Finish(w.parsed(frame(1, 0, 0, 9, 100)))
		want := macOf(7)
		if routed {
			want = macOf(1)
		}
		if len(in.got) != 1 || i.Delivered != 1 || wire.ReadMAC(in.got[0].Frame) != want {
			t.Errorf("routed %v: %d delivered", routed, i.Delivered)
		}
		if routed && (in.got[0].Dst != want || in.got[0].Src != macOf(0)) {
			t.Errorf("routed: to %x from %x", in.got[0].Dst, in.got[0].Src)
		}
		if d := drops(0, i.Port); !cmp.Equal(d, map[packet.Fate]uint64{packet.BadFCS: 1}) {
			t.Errorf("routed %v: dropped %v", routed, d)
		}
		if unwrapped, finished := i.TunnelledPackets(); unwrapped != 2 || finished != 1 {
			t.Errorf("routed %v: %d unwrapped, %d finished", routed, unwrapped, finished)
		}
	}
}

// TestTrip_OfFlowsAndAddresses: a modelled flow is known by its number, others by their destination.
func TestTrip_OfFlowsAndAddresses(t *testing.T) {
	w := newWorld(nil)
	s := addHolding(w.interfaces[0])
	if got := s.env.Trip(packet.FlowKey{Flow: 1, To: addressOf(1, false)}, 100, 64); got != (cc.Path{Hops: 1}) {
		t.Errorf("of flow 1: %+v", got)
	}
	if got := s.env.Trip(packet.FlowKey{Flow: -1, To: addressOf(1, false)}, 100, 64); got != (cc.Path{RTT: 100, Hops: 64}) {
		t.Errorf("to an address: %+v", got)
	}
	if from, to := s.env.Ends(1); from != addressOf(1, false) || to != addressOf(0, false) {
		t.Errorf("flow 1 is from %v to %v", from, to)
	}
	if s.env.Notify(0, w.ofNIC()) {
		t.Error("a host without a NIC has a sender")
	}
}

// TestDisarm_StopsTheTimer: a service without work lets a run end.
func TestDisarm_StopsTheTimer(t *testing.T) {
	w := newWorld(nil)
	s := addHolding(w.interfaces[0])
	s.env.Arm(units.Second)
	s.env.Disarm()
	if w.run(); w.engine.Now() != 0 {
		t.Errorf("the timer fires at %v", w.engine.Now())
	}
}

// TestReceiverOf_IsTheLastThatWasSet: so that another can take its place and pass on packets.
func TestReceiverOf_IsTheLastThatWasSet(t *testing.T) {
	w := newWorld(nil)
	i := w.interfaces[1]
	if i.ReceiverOf(notes) != nil {
		t.Error("there is one at first")
	}
	var order []int
	i.SetReceiver(notes, func(_ units.Time, p *packet.Packet) { order = append(order, 1); w.pool.Free(p) })
	before := i.ReceiverOf(notes)
	i.SetReceiver(notes, func(now units.Time, p *packet.Packet) { order = append(order, 2); before(now, p) })
	i.InputPacket(0, i.Port, w.message())
	if !slices.Equal(order, []int{2, 1}) {
		t.Errorf("%v", order)
	}
}
