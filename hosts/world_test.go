package hosts

import (
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// world is two hosts, and a link between them of 1 Gb/s and 1 us. It is their Directory.
type world struct {
	engine     sim.Engine
	pool       *packet.Pool
	interfaces [2]*Interface
	modelled   []string // the packets of modelled flows that arrived

	// What a test may change before the interfaces are made:
	rate    units.Rate
	delay   units.Time
	loss    units.Fraction
	routed  bool
	classes bool // packets with DSCP 8 have the class 3, all others 0
	clock   *nodeclock.Clock
	prepare func(*Interface) // called for each when all is joined; may be nil
}

// addressOf returns the address of a host; both have one of each IP version.
func addressOf(host int, v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00::%d", host+1))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", host+1))
}

func macOf(host int) wire.MAC { return 0x020000000001 + wire.MAC(host) }

// Resolve implements Directory: the other host's address is its endpoint, any other ByMAC.
func (w *world) Resolve(frame []byte, _ *packet.Packet, from packet.Endpoint, own wire.MAC) packet.Endpoint {
	if own != macOf(int(from)) {
		return packet.Flood
	}
	if peer := 1 - from; wire.ReadMAC(frame) == macOf(int(peer)) {
		return peer
	}
	return packet.ByMAC
}

// side is a host's Network.
type side struct {
	*world
	host int
}

func (s side) PathTo(to netip.Addr) (nicemu.Path, bool) {
	for h := range s.interfaces {
		if to == addressOf(h, to.Is6()) {
			return nicemu.Path{Dest: packet.Endpoint(h), MAC: macOf(h)}, true
		}
	}
	return nicemu.Path{}, false
}

func (s side) SourceTo(to netip.Addr) (netip.Addr, bool) { return addressOf(s.host, to.Is6()), true }

func (s side) InterfaceWith(a netip.Addr) *Interface {
	if p, ok := s.PathTo(a); ok {
		return s.interfaces[p.Dest]
	}
	return nil
}

func (s side) TripTo(_ netip.Addr, size, answer units.Bytes) cc.Path {
	return cc.Path{RTT: units.Time(size), Hops: int(answer)}
}

func (s side) TripOfFlow(flow int32, _, _ units.Bytes) cc.Path { return cc.Path{Hops: int(flow)} }

func (s side) EndsOfFlow(flow int32) (from, to netip.Addr) {
	return addressOf(int(flow), false), addressOf(1-int(flow), false)
}

// newWorld makes a world. change may be nil.
func newWorld(change func(w *world)) *world {
	w := &world{pool: packet.NewPools(1)[0], rate: units.Gbps, delay: units.Microsecond, classes: true}
	w.pool.Render = render
	if change != nil {
		change(w)
	}
	for i := range w.interfaces {
		iface := New(Env{
			ID: packet.Endpoint(i), MAC: macOf(i), Pool: w.pool, Directory: w, Network: side{w, i},
			Engine: &w.engine, Clock: w.clock, Node: i, Name: fmt.Sprintf("h%d:eth0", i+1),
			Addresses: []netip.Addr{addressOf(i, false), addressOf(i, true)}, Routed: w.routed,
			Modelled: func(now units.Time, p *packet.Packet) {
				w.modelled = append(w.modelled, fmt.Sprintf("h%d flow %d at %v", i+1, p.Flow, now))
				w.pool.Free(p)
			},
		})
		iface.Port = port.New(&w.engine, w.pool, iface.Name, 0, iface, units.MB)
		iface.Port.SetClock(w.clock)
		w.interfaces[i] = iface
	}
	end := links.End{Engine: &w.engine, Pool: w.pool}
	for i, iface := range w.interfaces {
		iface.Port.ConnectLink(iface.Port.MakeLink(w.interfaces[1-i].Port, end, end, nil, sim.NewRand(1, iface.Name), links.Settings{Rate: w.rate, Delay: w.delay, Loss: w.loss, MTU: 1500, Up: true}))
		if w.classes {
			iface.addClasses()
		}
		if w.prepare != nil {
			w.prepare(iface)
		}
	}
	return w
}

func (i *Interface) addClasses() {
	list := []class.Class{{Name: "default", Weight: 1}, {Name: "urgent", Priority: 3}}
	c := &port.Chassis{Buffer: buffer.New(buffer.Config{Ports: []buffer.Port{{Classes: list}}}), Ports: []*port.Port{i.Port}}
	c.Map.DSCP[8] = 3
	i.SetChassis(c)
	i.Port.SetClasses(c, list, port.ClassEnv{
		Engine: i.Engine, Rand: sim.NewRand(1, "trim "+i.Name),
		Point: func(class.Class, func(units.Time)) congestion.Point { return nil },
	})
}

// render makes the bytes of a packet: for one without a frame only the Ethernet header is right.
func render(p *packet.Packet, buf []byte) []byte {
	if p.Kind == packet.NIC || p.Kind == packet.Protocol {
		clear(buf)
		p.Dst.EncodeTo(buf)
		return buf
	}
	return gso.RenderPacket(p, buf)
}

// frame returns a UDP frame with a DSCP and a payload of n bytes.
func frame(from, to int, dscp uint8, port uint16, n int) []byte {
	ip := &layers.IPv4{Version: 4, TTL: 64, TOS: dscp << 2, Protocol: layers.IPProtocolUDP, SrcIP: addressOf(from, false).AsSlice(), DstIP: addressOf(to, false).AsSlice()}
	udp := &layers.UDP{SrcPort: 4000, DstPort: layers.UDPPort(port)}
	return serialize(from, to, ip, udp, gopacket.Payload(make([]byte, n)))
}

func serialize(from, to int, ip *layers.IPv4, l4 gopacket.SerializableLayer, payload gopacket.Payload) []byte {
	ether := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4}
	macOf(from).EncodeTo(ether.SrcMAC)
	macOf(to).EncodeTo(ether.DstMAC)
	if x, ok := l4.(interface {
		SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
	}); ok {
		_ = x.SetNetworkLayerForChecksum(ip)
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ether, ip, l4, payload); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

// parsed returns a packet with a frame.
func (w *world) parsed(frame []byte) *packet.Packet {
	p := w.pool.NewFrame(len(frame))
	copy(p.Frame, frame)
	if !p.Parse() {
		panic("not a good frame")
	}
	return p
}

// inbox is the device of a host. It describes what it got.
type inbox struct {
	pool *packet.Pool
	got  []*packet.Packet
}

func (b *inbox) DeliverPacket(_ units.Time, p *packet.Packet) { b.got = append(b.got, p) }

// trainInbox is an inbox that takes trains.
type trainInbox struct {
	inbox
	trains int
}

func (b *trainInbox) DeliverTrain(now units.Time, p *packet.Packet) {
	b.trains++
	b.pool.SplitTrain(p, func(q *packet.Packet) { b.DeliverPacket(now, q) })
}

// drops returns what a port has dropped, by reason.
func drops(now units.Time, p *port.Port) map[packet.Fate]uint64 {
	found := map[packet.Fate]uint64{}
	for fate, n := range p.Counters(now).Drops {
		if n > 0 {
			found[packet.Fate(fate)] = n
		}
	}
	return found
}

// run runs the engine until nothing is left to do.
func (w *world) run() { w.engine.Run(units.Never-1, 1<<20) }

// withRate returns the settings of an interface's link with another rate.
func withRate(i *Interface, r units.Rate) links.Settings {
	s := i.Port.Link().Settings()
	s.Rate = r
	return s
}
