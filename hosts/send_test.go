package hosts

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
)

// TestEnter_IdentifiesAndCountsPackets: a packet that enters has its destination, an identity that
// no other has, its origin, the time and its class; what arrives at the other host is the frame.
func TestEnter_IdentifiesAndCountsPackets(t *testing.T) {
	w := newWorld(nil)
	to := &inbox{}
	w.interfaces[1].Attach(to)
	sent := [][]byte{frame(0, 1, 0, 9, 100), frame(0, 1, 8, 9, 200)}
	size := uint64(0)
	for _, b := range sent {
		w.interfaces[0].Enter(w.engine.Now(), w.parsed(b))
		size += uint64(len(b))
	}
	w.run()
	if len(to.got) != len(sent) {
		t.Fatalf("%d of %d packets have arrived", len(to.got), len(sent))
	}
	for i, p := range to.got {
		want := sent[i]
		if p.ID != uint64(i)+1 || p.Origin != 0 || p.Dest != 1 || p.Created != 0 || p.Prio != []uint8{0, 3}[i] || p.In != buffer.Own || !bytes.Equal(p.Frame, want) {
			t.Errorf("packet %d: %+v", i, p)
		}
		w.pool.Free(p)
	}
	a, b := w.interfaces[0], w.interfaces[1]
	if a.Entered != 2 || a.EnteredBytes != size || a.Delivered != 0 || b.Entered != 0 || b.Delivered != 2 || b.DeliveredBytes != size {
		t.Errorf("%d, %d entered, %d, %d were delivered", a.Entered, b.Entered, a.Delivered, b.Delivered)
	}
	b.Enter(w.engine.Now(), w.parsed(frame(1, 0, 0, 9, 100)))
	w.run()
	if d := drops(w.engine.Now(), a.Port); !cmp.Equal(d, map[packet.Fate]uint64{packet.NoReceiver: 1}) || a.Delivered != 0 {
		t.Errorf("a host without a receiver drops %v", d)
	}
	if n := w.pool.LivePackets(); n != 0 {
		t.Errorf("%d packets live", n)
	}
}

// TestEnter_AsksTheDirectory: the destination of each frame is what the directory says of it.
func TestEnter_AsksTheDirectory(t *testing.T) {
	w := newWorld(func(w *world) { w.classes = false })
	to := &inbox{}
	w.interfaces[1].Attach(to)
	for _, b := range [][]byte{frame(0, 1, 0, 9, 10), frame(0, 7, 0, 9, 10)} {
		w.interfaces[0].Enter(0, w.parsed(b))
	}
	w.run()
	var got []packet.Endpoint
	for _, p := range to.got {
		got = append(got, p.Dest)
	}
	if want := []packet.Endpoint{1, packet.ByMAC}; !slices.Equal(got, want) {
		t.Errorf("destinations %v, want %v", got, want)
	}
}

// TestMalformed_IsCountedAndDropped: a malformed frame enters and is dropped at the port, so that
// accounts balance.
func TestMalformed_IsCountedAndDropped(t *testing.T) {
	w := newWorld(nil)
	s := w.interfaces[0]
	p := w.pool.NewFrame(20)
	s.Malformed(0, p)
	if d := drops(0, s.Port); s.Entered != 1 || s.EnteredBytes != 20 || !cmp.Equal(d, map[packet.Fate]uint64{packet.Malformed: 1}) || w.pool.LivePackets() != 0 {
		t.Errorf("%d entered with %d bytes, dropped %v", s.Entered, s.EnteredBytes, d)
	}
}

// super makes a super-packet of TCP from the first host to the second, and its head.
func (w *world) super(payload, segment int) (*packet.Super, *packet.Packet) {
	ip := &layers.IPv4{Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolTCP, SrcIP: addressOf(0, false).AsSlice(), DstIP: addressOf(1, false).AsSlice()}
	tcp := &layers.TCP{SrcPort: 1, DstPort: 2, Seq: 1000, ACK: true, Window: 100}
	b := serialize(0, 1, ip, tcp, gopacket.Payload(make([]byte, payload)))
	s := w.pool.NewSuper()
	s.Data = s.DataRoom()[:copy(s.DataRoom(), b)]
	head := &packet.Packet{}
	if err := gso.PrepareSuper(s, gso.Header{Flags: gso.NeedsCsum, GSOType: gso.GSOTCPv4, GSOSize: uint16(segment)}, head); err != nil {
		panic(err)
	}
	return s, head
}

// TestEnterSuper_TrainOrPackets: a super-packet is a train where it passes at once; behind classes,
// an edge service or a link with a rate it is packets. Either way the same frames arrive, with
// complete checksums, and the same is counted.
func TestEnterSuper_TrainOrPackets(t *testing.T) {
	const payload, segment, pieces = 10*1400 + 100, 1400, 11
	type result struct {
		Frames                          [][]byte
		IDs                             []uint64
		Entered, EnteredBytes           uint64
		Delivered, DeliveredBytes, Live uint64
	}
	var want result
	for i, c := range []struct {
		name   string
		change func(w *world)
		edge   bool
		plain  bool // the receiver takes no trains
		trains int
	}{
		{name: "at once", change: func(w *world) { w.rate, w.classes, w.delay = 0, false, 0 }, trains: 1},
		{name: "a receiver without trains", change: func(w *world) { w.rate, w.classes, w.delay = 0, false, 0 }, plain: true},
		{name: "a rate", change: func(w *world) { w.classes = false }},
		{name: "classes", change: func(w *world) { w.rate, w.delay = 0, 0 }},
		{name: "an edge service", change: func(w *world) { w.rate, w.delay = 0, 0 }, edge: true},
		{name: "an edge service of the receiver", change: func(w *world) {
			w.rate, w.classes, w.delay = 0, false, 0
			w.prepare = func(i *Interface) {
				if i.ID == 1 {
					i.addClasses()
					addHolding(i)
				}
			}
		}},
	} {
		w := newWorld(c.change)
		from, to := w.interfaces[0], w.interfaces[1]
		in := &trainInbox{inbox: inbox{pool: w.pool}}
		to.Attach(in)
		if c.plain {
			to.Attach(&in.inbox)
		}
		if c.edge {
			addHolding(from)
		}
		super, head := w.super(payload, segment)
		from.EnterSuper(0, super, head)
		w.run()
		if in.trains != c.trains {
			t.Errorf("%s: %d trains", c.name, in.trains)
		}
		got := result{Entered: from.Entered, EnteredBytes: from.EnteredBytes, Delivered: to.Delivered, DeliveredBytes: to.DeliveredBytes}
		for _, p := range in.got {
			p = w.pool.MakeBytes(p)
			got.Frames, got.IDs = append(got.Frames, bytes.Clone(p.Frame)), append(got.IDs, p.ID)
			w.pool.Free(p)
		}
		got.Live = uint64(w.pool.LivePackets() + w.pool.LiveSupers())
		if i == 0 {
			want = got
			if len(got.Frames) != pieces || got.Entered != pieces || got.Delivered != pieces || got.Live != 0 {
				t.Errorf("%d frames, %d entered, %d delivered, %d live", len(got.Frames), got.Entered, got.Delivered, got.Live)
			}
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs from a train (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestEnterSuper_CopiesPiecesOfTooMany: while many super-packets wait in queues, pieces of another
// one have bytes of their own, so that the queue does not hold its 64 KB.
func TestEnterSuper_CopiesPiecesOfTooMany(t *testing.T) {
	w := newWorld(nil)
	w.interfaces[1].Attach(&inbox{})
	var held []*packet.Super
	for range maxSupers {
		held = append(held, w.pool.NewSuper())
	}
	super, head := w.super(5*1400, 1400)
	w.interfaces[0].EnterSuper(0, super, head)
	if n := w.pool.LiveSupers(); n != maxSupers {
		t.Errorf("%d super-packets live beside %d others", n-maxSupers, maxSupers)
	}
	for _, s := range held {
		w.pool.ReleaseSuper(s)
	}
	super, head = w.super(5*1400, 1400)
	w.interfaces[0].EnterSuper(0, super, head)
	if n := w.pool.LiveSupers(); n != 1 {
		t.Errorf("%d super-packets live: pieces of one in a short queue refer to it", n)
	}
}

// TestQueueLength_HasPortAndEdgeService: what waits at an interface is in the queue of its port, or
// in its edge service.
func TestQueueLength_HasPortAndEdgeService(t *testing.T) {
	for _, edge := range []bool{false, true} {
		w := newWorld(nil)
		s := w.interfaces[0]
		want := 2 // one is on the link
		if edge {
			addHolding(s)
			want = 3
		}
		for range 3 {
			s.OriginatePacket(0, w.parsed(frame(0, 1, 0, 9, 1000-42)))
		}
		if n, size := s.QueueLength(0); n != want || size != units.Bytes(want)*1000 {
			t.Errorf("with an edge service %v: %d packets of %v wait, want %d", edge, n, size, want)
		}
		w.run()
		if n, size := s.QueueLength(w.engine.Now()); n != 0 || size != 0 {
			t.Errorf("%d packets of %v wait for ever", n, size)
		}
	}
}

// TestEnter_DoesNotAllocate: neither does a packet that enters and is delivered.
func TestEnter_DoesNotAllocate(t *testing.T) {
	w := newWorld(nil)
	w.interfaces[1].Attach(drain{w.pool})
	b := frame(0, 1, 8, 9, 100)
	pass := func() {
		p := w.pool.NewFrame(len(b))
		copy(p.Frame, b)
		p.Parse()
		w.interfaces[0].Enter(w.engine.Now(), p)
		w.run()
	}
	pass()
	if n := testing.AllocsPerRun(100, pass); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
}

// drain is a device that frees what it gets.
type drain struct{ pool *packet.Pool }

func (d drain) DeliverPacket(_ units.Time, p *packet.Packet) { d.pool.Free(p) }

// BenchmarkEnter measures a packet from the device of a host to that of another.
func BenchmarkEnter(b *testing.B) {
	w := newWorld(nil)
	w.interfaces[1].Attach(drain{w.pool})
	bytes := frame(0, 1, 8, 9, 100)
	for b.Loop() {
		p := w.pool.NewFrame(len(bytes))
		copy(p.Frame, bytes)
		p.Parse()
		w.interfaces[0].Enter(w.engine.Now(), p)
		w.run()
	}
}
