package hosts

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/weftlab/weft/links"
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

// world is two hosts, a link of 1 Gb/s between them, and a Directory that says where frames go. Its
// tests need no fabric.
type world struct {
	engine     sim.Engine
	pool       *packet.Pool
	interfaces [2]*Interface
	modelled   []string // packets of modelled flows that arrived, with the number of the host
	routed     bool
	clock      *nodeclock.Clock
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

// newWorld makes a world whose hosts have a class of packets with DSCP 8 beside the others, if
// classes is set. change may be nil.
func newWorld(t testing.TB, classes bool, change func(w *world)) *world {
	t.Helper()
	w := &world{pool: packet.NewPools(1)[0]}
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
		iface.Port = port.New(&w.engine, w.pool, iface.Name, 0, iface, 0)
		iface.Port.SetClock(w.clock)
		w.interfaces[i] = iface
	}
	end := links.End{Engine: &w.engine, Pool: w.pool}
	for i, iface := range w.interfaces {
		iface.Port.ConnectLink(iface.Port.MakeLink(w.interfaces[1-i].Port, end, end, nil, sim.NewRand(1, iface.Name), links.Settings{Rate: units.Gbps, Delay: units.Microsecond, MTU: 1500, Up: true}))
		if classes {
			iface.addClasses()
		}
	}
	return w
}

func (iface *Interface) addClasses() {
	list := []class.Class{{Name: "default", Weight: 1}, {Name: "urgent", Priority: 3}}
	c := &port.Chassis{Buffer: buffer.New(buffer.Config{Ports: []buffer.Port{{Classes: list}}}), Ports: []*port.Port{iface.Port}}
	c.Map.DSCP[8] = 3
	iface.SetChassis(c)
	iface.Port.SetClasses(c, list, port.ClassEnv{
		Engine: iface.Engine, Rand: sim.NewRand(1, "trim "+iface.Name),
		Point: func(class.Class, func(units.Time)) congestion.Point { return nil },
	})
}

// run runs the engine until nothing is left to do.
func (w *world) run() { w.engine.Run(units.Second, 1<<20) }
