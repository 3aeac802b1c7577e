package hosts

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// note is the body of the messages in these tests.
type note struct{}

func (*note) Len() int        { return 4 }
func (*note) EncodeTo([]byte) {}
func (*note) Set(packet.Body) {}
func (*note) Reset()          {}

var notes = packet.NewMessageProtocol(packet.MessageProtocol{Name: "note", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: 50002, New: func() packet.Body { return &note{} }})

// nicBox is a NIC that describes what it gets.
type nicBox struct {
	pool *packet.Pool
	got  []string
}

func (n *nicBox) ReceivePacket(_ units.Time, p *packet.Packet) {
	n.got = append(n.got, describe(p))
	n.pool.Free(p)
}

func describe(p *packet.Packet) string {
	return fmt.Sprintf("kind %d, %d bytes, sum %d", p.Kind, len(p.Frame), p.Sum)
}

// message returns a packet with a note to the second host.
func (w *world) message() *packet.Packet {
	p := w.pool.NewMessage(notes)
	p.Message.From, p.Message.To = addressOf(0, false), addressOf(1, false)
	p.Dest, p.Dst, p.Src = 1, macOf(1), macOf(0)
	p.SetFields()
	return p
}

// ofNIC returns a packet of a NIC to the second host.
func (w *world) ofNIC() *packet.Packet {
	p := w.pool.NewRoCE()
	p.Size, p.Dest, p.Dst, p.Src, p.L3, p.Version = 100, 1, macOf(1), macOf(0), wire.EthernetHeader, 4
	p.Proto, p.DstPort = wire.ProtoUDP, roce.Port
	return p
}

// TestInputPacket_ChoosesTheReceiver: each packet goes to the receiver that the host has for it, is
// counted once, and PeekFate foresees whether there is one. Receivers of real frames get complete
// bytes.
func TestInputPacket_ChoosesTheReceiver(t *testing.T) {
	const none, device, nic, taker, modelled = "none", "device", "nic", "taker", "modelled"
	udp := func(port uint16) func(w *world) *packet.Packet {
		return func(w *world) *packet.Packet { return w.parsed(frame(0, 1, 0, port, 100)) }
	}
	fragment := func(w *world) *packet.Packet {
		b := frame(0, 1, 0, roce.Port, 100)
		binary.BigEndian.PutUint16(b[wire.EthernetHeader+6:], 0x2000) // more fragments
		return w.parsed(b)
	}
	for _, c := range []struct {
		name string
		make func(w *world) *packet.Packet
		has  string // the receivers of the host
		want string
	}{
		{"a frame", udp(9), device, device},
		{"a frame", udp(9), device + " " + nic, device},
		{"a frame", udp(9), nic, none},
		{"a frame", udp(9), "", none},
		{"RoCEv2 of a program", udp(roce.Port), device + " " + nic, nic},
		{"RoCEv2 of a program", udp(roce.Port), device, device},
		{"telemetry", udp(telemetry.Port), device + " " + nic, nic},
		{"a fragment to port 4791", fragment, device + " " + nic, device},
		{"a NIC's packet", (*world).ofNIC, device + " " + nic, nic},
		{"a NIC's packet", (*world).ofNIC, device, device},
		{"a NIC's packet", (*world).ofNIC, "", none},
		{"a message", (*world).message, device + " " + taker, taker},
		{"a message", (*world).message, device + " " + nic, device},
		{"a message", (*world).message, taker, taker},
		{"a message", (*world).message, nic, none},
		{"a modelled flow", func(w *world) *packet.Packet {
			p := w.pool.New()
			p.Kind, p.Size = packet.Modelled, 100
			return p
		}, "", modelled},
	} {
		w := newWorld(nil)
		i := w.interfaces[1]
		in, box, taken := &inbox{}, &nicBox{pool: w.pool}, 0
		if strings.Contains(c.has, device) {
			i.Attach(in)
		}
		if strings.Contains(c.has, nic) {
			i.SetNIC(box)
		}
		if strings.Contains(c.has, taker) {
			i.SetReceiver(notes, func(_ units.Time, p *packet.Packet) {
				taken++
				w.pool.Free(p)
			})
		}
		p := c.make(w)
		size := uint64(p.Size)
		if fate := i.PeekFate(0, i.Port, p); (fate == packet.NoReceiver) != (c.want == none) {
			t.Errorf("%s to a host with %q: PeekFate is %v", c.name, c.has, fate)
		}
		i.InputPacket(0, i.Port, p)
		got := map[string]int{device: len(in.got), nic: len(box.got), taker: taken, modelled: len(w.modelled), none: int(drops(0, i.Port)[packet.NoReceiver])}
		for r, n := range got {
			if (n != 0) != (r == c.want) || n > 1 {
				t.Errorf("%s to a host with %q: %v, want %s", c.name, c.has, got, c.want)
			}
		}
		if counted := i.Delivered == 1 && i.DeliveredBytes == size; counted != (c.want != none) {
			t.Errorf("%s to a host with %q: %d delivered with %d bytes", c.name, c.has, i.Delivered, i.DeliveredBytes)
		}
		for _, p := range in.got {
			if p.Kind != packet.Real || len(p.Frame) != int(size) || wire.ReadMAC(p.Frame) != macOf(1) {
				t.Errorf("%s to a device: %s", c.name, describe(p))
			}
			w.pool.Free(p)
		}
		if w.pool.LivePackets() != 0 {
			t.Errorf("%s: %d packets live", c.name, w.pool.LivePackets())
		}
	}
}

// TestDeliver_CompletesChecksumsForNICs: a NIC gets complete checksums and whole frames, whether a
// packet of a program had only a partial checksum or was a piece of a super-packet.
func TestDeliver_CompletesChecksumsForNICs(t *testing.T) {
	w := newWorld(nil)
	var got [][]byte
	w.interfaces[1].SetNIC(receiver(func(p *packet.Packet) {
		if p.Sum != 0 || p.Piece.Of != nil {
			t.Errorf("the NIC gets %s", describe(p))
		}
		got = append(got, p.Frame)
	}))
	whole := frame(0, 1, 0, roce.Port, 101)
	partial := w.parsed(whole)
	const field = wire.EthernetHeader + wire.IPv4Header + 6
	// As the kernel leaves it: the sum of the pseudo-header alone.
	sum := uint32(wire.ProtoUDP) + uint32(len(whole)-wire.EthernetHeader-wire.IPv4Header)
	for at := wire.EthernetHeader + 12; at < wire.EthernetHeader+20; at += 2 {
		sum += uint32(binary.BigEndian.Uint16(whole[at:]))
	}
	binary.BigEndian.PutUint16(partial.Frame[field:], uint16(sum&0xffff+sum>>16))
	partial.Sum = field
	w.interfaces[0].Enter(0, partial)

	// A super-packet of UDP, as with UDP_SEGMENT.
	const segment = 101
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: addressOf(0, false).AsSlice(), DstIP: addressOf(1, false).AsSlice()}
	b := serialize(0, 1, ip, &layers.UDP{SrcPort: 4000, DstPort: roce.Port}, gopacket.Payload(make([]byte, 2*segment)))
	s := w.pool.NewSuper()
	s.Data = s.DataRoom()[:copy(s.DataRoom(), b)]
	var head packet.Packet
	if err := gso.PrepareSuper(s, gso.Header{Flags: gso.NeedsCsum, GSOType: gso.GSOUDPL4, GSOSize: segment}, &head); err != nil {
		t.Fatal(err)
	}
	w.interfaces[0].EnterSuper(0, s, &head)
	w.run()
	if len(got) != 3 {
		t.Fatalf("%d packets have arrived", len(got))
	}
	for i, b := range got {
		copy(b[wire.EthernetHeader+4:], whole[wire.EthernetHeader+4:wire.EthernetHeader+6])    // the ID,
		copy(b[wire.EthernetHeader+10:], whole[wire.EthernetHeader+10:wire.EthernetHeader+12]) // and the sum that has it
		if diff := cmp.Diff(whole, b); diff != "" {
			t.Errorf("packet %d (-want +got):\n%s", i, diff)
		}
	}
}

// receiver is a NIC from a function.
type receiver func(p *packet.Packet)

func (r receiver) ReceivePacket(_ units.Time, p *packet.Packet) { r(p) }

// TestRefused_IsNotDelivered: what the kernel of a host refuses, also a train, counts as dropped.
func TestRefused_IsNotDelivered(t *testing.T) {
	w := newWorld(func(w *world) { w.rate, w.classes, w.delay = 0, false, 0 })
	to := w.interfaces[1]
	to.Attach(refusing{to})
	super, head := w.super(10*1400, 1400)
	w.interfaces[0].EnterSuper(0, super, head)
	w.interfaces[0].Enter(0, w.parsed(frame(0, 1, 0, 9, 100)))
	w.run()
	now := w.engine.Now()
	if d := drops(now, to.Port); to.Delivered != 0 || to.DeliveredBytes != 0 || !cmp.Equal(d, map[packet.Fate]uint64{packet.HostRefused: 11}) {
		t.Errorf("%d delivered with %d bytes, dropped %v", to.Delivered, to.DeliveredBytes, d)
	}
}

// refusing is a device whose kernel takes nothing.
type refusing struct{ of *Interface }

func (r refusing) DeliverPacket(now units.Time, p *packet.Packet) {
	r.of.Refused(now, p)
	r.of.Pool.Free(p)
}

func (r refusing) DeliverTrain(now units.Time, p *packet.Packet) { r.DeliverPacket(now, p) }

// TestPriorityOf_IsThatOfPackets: PriorityOf says what class packets get; without classes it is 0.
func TestPriorityOf_IsThatOfPackets(t *testing.T) {
	for _, classes := range []bool{true, false} {
		w := newWorld(func(w *world) { w.classes = classes })
		for dscp := range uint8(64) {
			p := w.parsed(frame(0, 1, dscp, 9, 10))
			w.interfaces[0].Admit(0, p)
			want := uint8(0)
			if classes && dscp == 8 {
				want = 3
			}
			if got := w.interfaces[0].PriorityOf(dscp); got != want || p.Prio != want {
				t.Errorf("DSCP %d with classes %v: %d, packets %d, want %d", dscp, classes, got, p.Prio, want)
			}
		}
	}
}
