package switches_test

import (
	"math"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// network is a small fabric put together by hand.
type network struct {
	engine sim.Engine
	pool   packet.Pool
	hosts  []*host // by packet.Endpoint
	sent   uint64
	global bool // ports obey PAUSE

	// observes, if set, returns the congestion points of classes.
	observes func(*port.Port, class.Class) congestion.Point
}

// host is an endpoint with one port, and a list of the packets that it received.
type host struct {
	net  *network
	id   packet.Endpoint
	port *port.Port
	got  []came
	keep func(p *packet.Packet) // sees a packet before it is freed

	chassis *port.Chassis // of a host with traffic classes
}

// came is a packet that a host received.
type came struct {
	At units.Time
	ID uint64
}

func (h *host) InputPacket(now units.Time, _ *port.Port, p *packet.Packet) {
	if h.keep != nil {
		h.keep(p)
	}
	h.got = append(h.got, came{now, p.ID})
	h.net.pool.Free(p)
}

func (h *host) PeekFate(units.Time, *port.Port, *packet.Packet) packet.Fate { return packet.Fine }

const plenty = units.GB

func (n *network) host(name string) *host {
	h := &host{net: n, id: packet.Endpoint(len(n.hosts))}
	h.port = port.New(&n.engine, &n.pool, name, 0, h, plenty)
	n.hosts = append(n.hosts, h)
	return h
}

// addPort gives a switch one more port.
func (n *network) addPort(s *switches.Switch, name string, limit units.Bytes) *port.Port {
	p := port.New(&n.engine, &n.pool, name, len(s.Ports), s, limit)
	s.Ports = append(s.Ports, p)
	return p
}

// classes gives all ports of a switch these classes and a shared buffer.
func (n *network) classes(s *switches.Switch, size units.Bytes, headroom units.Bytes, list ...class.Class) *port.Chassis {
	return n.chassis(s, buffer.Config{Size: size}, headroom, list...)
}

func (n *network) chassis(s *switches.Switch, config buffer.Config, headroom units.Bytes, list ...class.Class) *port.Chassis {
	c := n.setClasses(s.Ports, config, headroom, list...)
	s.SetChassis(c)
	return c
}

// hostClasses gives a host's port these classes.
func (n *network) hostClasses(h *host, list ...class.Class) {
	h.chassis = n.setClasses([]*port.Port{h.port}, buffer.Config{}, 0, list...)
}

func (n *network) setClasses(ports []*port.Port, config buffer.Config, headroom units.Bytes, list ...class.Class) *port.Chassis {
	c := &port.Chassis{Ports: ports, Pause: config.Pause}
	for _, k := range list {
		// DSCP n is the class of priority n.
		c.Map.DSCP[k.Priority] = k.Priority
	}
	for range ports {
		p := buffer.Port{Classes: list}
		for _, k := range list {
			if k.PFC != nil {
				p.Headroom[k.Priority] = headroom
			}
		}
		if config.Pause != nil {
			p.Headroom[0] = headroom
		}
		config.Ports = append(config.Ports, p)
	}
	c.Buffer = buffer.New(config)
	n.pool.Render = gso.RenderPacket
	for i, p := range ports {
		p.SetClasses(c, list, port.ClassEnv{
			Engine: &n.engine, Rand: sim.NewRand(1, "trim "+p.Name), MAC: 0x06<<40 | wire.MAC(i), Obeys: n.obeyed(list),
			Point: func(k class.Class, _ func(units.Time)) congestion.Point {
				if n.observes != nil {
					return n.observes(p, k)
				}
				return congestion.New(k.Mark, congestion.Env{Rand: sim.NewRand(1, "mark "+p.Name+k.Name), Pool: &n.pool})
			},
		})
	}
	return c
}

// obeyed returns which pauses ports with these classes obey: those that they would send.
func (n *network) obeyed(list []class.Class) (o pfc.Obeyed) {
	o.Pause = n.global
	for _, k := range list {
		if k.PFC != nil {
			o.Classes |= 1 << k.Priority
		}
	}
	return o
}

// join connects two ports by a cable without faults.
func (n *network) join(a, b *port.Port, rate units.Rate, delay units.Time) {
	s := links.Settings{Rate: rate, Delay: delay, MTU: 9000, Up: true}
	side := links.End{Engine: &n.engine, Pool: &n.pool}
	a.ConnectLink(new(links.Link).InitLink(new(links.Flight), side, side, nil, sim.NewRand(1, a.Name), s, b))
	b.ConnectLink(new(links.Link).InitLink(new(links.Flight), side, side, nil, sim.NewRand(1, b.Name), s, a))
}

// packet returns a packet of size bytes from one endpoint to another.
func (n *network) packet(from, to packet.Endpoint, size units.Bytes) *packet.Packet {
	p := n.pool.New()
	p.ID, p.Origin, p.Dest, p.Size, p.Version, p.TOS = n.sent, from, to, size, 4, 2
	n.sent++
	return p
}

// send makes a host send a packet of a class.
func (h *host) send(p *packet.Packet, prio uint8) {
	p.TOS = prio<<2 | p.TOS&3
	if h.chassis != nil {
		p.In = buffer.Own
		h.chassis.ClassifyPacket(p)
	}
	h.port.Send(h.net.engine.Now(), p)
}

func (n *network) until(now units.Time) {
	n.engine.Run(now, math.MaxInt)
	n.engine.AdvanceTo(now)
}

func (n *network) finish() { n.engine.Run(units.Never-1, math.MaxInt) }
