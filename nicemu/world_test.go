package nicemu

import (
	"net/netip"
	"runtime"
	"slices"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/dcqcn"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// world is NICs joined by a switch that takes no time: the minimal environment of a NIC. A packet
// takes its serialisation and delay.
type world struct {
	t      rapid.TB
	engine sim.Engine
	pool   *packet.Pool
	ports  []*cable
	delay  units.Time
	// touch sees every packet as it leaves; false loses it.
	touch func(from int, p *packet.Packet) bool
	// scatter, if set, returns by how much each copy of a departing packet arrives late.
	scatter func(p *packet.Packet) []units.Time
	log     []sent
}

// sent is a packet that has left.
type sent struct {
	at     units.Time
	from   int
	size   units.Bytes
	opcode uint8
	qp     uint32
	prio   uint8
	tos    uint8
}

// cable is a port: it serialises the packets that its NIC feeds.
type cable struct {
	world    *world
	index    int
	device   *Device
	rate     units.Rate
	fed      [8]bool
	paused   [8]bool
	timer    sim.Timer
	busy     bool
	inFlight []*packet.Packet
	due      []units.Time
	land     landing
}

// landing is the far end of a cable.
type landing struct {
	c     *cable
	timer sim.Timer
}

func (c *cable) AnnouncePacket(now units.Time, prio uint8, size units.Bytes) {
	c.fed[prio] = size > 0
	if !c.busy {
		c.start(now)
	}
}

func (c *cable) Fire(now units.Time) {
	c.busy = false
	c.start(now)
}

func (c *cable) start(now units.Time) {
	for prio := 7; prio >= 0; prio-- {
		if !c.fed[prio] || c.paused[prio] {
			continue
		}
		c.busy = true
		p := c.device.Next(now, uint8(prio))
		if p == nil {
			c.busy, c.fed[prio] = false, false
			continue
		}
		w := c.world
		s := sent{at: now, from: c.index, size: p.Size, prio: uint8(prio), tos: p.TOS}
		if p.RoCE != nil {
			s.opcode, s.qp = uint8(p.RoCE.BTH.Opcode), p.RoCE.BTH.DestQP
		}
		w.log = append(w.log, s)
		p.Created = now
		end := now + c.rate.TimeOf(packet.OnWire(p.Size))
		c.timer.Arm(end)
		if w.touch != nil && !w.touch(c.index, p) {
			w.pool.Free(p)
			return
		}
		if w.scatter == nil {
			c.fly(p, end+w.delay)
			return
		}
		for _, late := range w.scatter(p) {
			c.fly(w.pool.ClonePacket(p), end+w.delay+late)
		}
		w.pool.Free(p)
		return
	}
}

// fly schedules the arrival of a packet, after those that arrive at the same time.
func (c *cable) fly(p *packet.Packet, at units.Time) {
	i := len(c.due)
	for i > 0 && c.due[i-1] > at {
		i--
	}
	c.inFlight, c.due = slices.Insert(c.inFlight, i, p), slices.Insert(c.due, i, at)
	c.land.timer.Arm(c.due[0])
}

func (l *landing) Fire(now units.Time) {
	c := l.c
	p := c.inFlight[0]
	c.inFlight, c.due = c.inFlight[1:], c.due[1:]
	if len(c.due) > 0 {
		l.timer.Arm(c.due[0])
	}
	if p.Dest == packet.Flood {
		for _, other := range c.world.ports {
			if other != c {
				other.device.ReceivePacket(now, c.world.pool.ClonePacket(p))
			}
		}
		c.world.pool.Free(p)
		return
	}
	d := c.world.ports[p.Dest].device
	if p.Message != nil {
		d.ReceiveMessage(now, p)
	} else {
		d.ReceivePacket(now, p)
	}
}

// control, if set, makes the rate control of newWorld's NICs.
type option func(*Settings, *Env)

func withControl(f func(units.Rate) cc.Control) option {
	return func(s *Settings, _ *Env) { s.Control = cc.Choice{Name: "test", Settings: made(f)} }
}

// made is the settings of a rate control made by a test, which gets acknowledgements.
type made func(line units.Rate) cc.Control

func (made) Validate(units.Rate) error  { return nil }
func (made) Traits() cc.Traits          { return cc.Traits{NeedsAcks: true} }
func (m made) New(f cc.Flow) cc.Control { return m(f.Line) }

func withDCQCN(s *Settings, _ *Env) {
	c := dcqcn.Preset("connectx", 10*units.Gbps)
	s.Control = cc.Choice{Name: "dcqcn", Preset: "connectx", Settings: &c}
}

// withAckClass puts acknowledgements in the class of DSCP 26, which is 3.
func withAckClass(s *Settings, _ *Env) {
	dscp := uint8(26)
	s.AckDSCP = &dscp
}

const lineRate = 10 * units.Gbps

// newWorld makes n NICs with 10.0.0.1 and up, fd00::1 and up, at 10 Gb/s.
func newWorld(t rapid.TB, n int, options ...option) *world {
	w := &world{t: t, pool: packet.NewPools(1)[0], delay: units.Microsecond}
	// CNPs have a separate class above the others.
	var priorities [64]uint8
	priorities[48] = 6
	priorities[26] = 3
	for i := range n {
		c := &cable{world: w, index: i, rate: lineRate}
		c.timer = w.engine.NewTimer(c)
		c.land.c = c
		c.land.timer = w.engine.NewTimer(&c.land)
		s := Settings{
			MTU: qp.MTU1024, AskEvery: 64, Timeout: 12, RetryCount: 7, RNRRetry: 7, MinRNR: 12, Limits: qp.ConnectX5(),
		}
		e := Env{
			Name: "nic" + string(rune('0'+i)), MAC: wire.MAC(0x02<<40 | i), Line: lineRate, Priority: &priorities,
			Addresses: []netip.Addr{v4(i), v6(i)},
			Pool:      w.pool, Now: w.engine.Now, Port: c,
			Path: func(_, to netip.Addr) (Path, bool) {
				for k := range n {
					if to == v4(k) || to == v6(k) {
						return Path{Dest: packet.Endpoint(k), MAC: wire.MAC(0x02<<40 | k)}, true
					}
				}
				return Path{}, false
			},
		}
		for _, o := range options {
			o(&s, &e)
		}
		timer := &late{}
		e.Timer = timer
		d, err := New(s, e)
		if err != nil {
			t.Fatal(err)
		}
		timer.Timer = w.engine.NewTimer(d)
		c.device = d
		w.ports = append(w.ports, c)
	}
	return w
}

// late is a timer that is made after its object.
type late struct{ sim.Timer }

func v4(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }
func v6(i int) netip.Addr { return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)}) }

func (w *world) run(until units.Time) {
	w.engine.Run(until, 10_000_000)
	w.engine.AdvanceTo(until)
}

// host holds a program's objects on a NIC.
type host struct {
	*Device
	t   rapid.TB
	pd  *PD
	cq  *CQ
	buf []byte
	mr  *MR
}

const anyAccess = memory.LocalWrite | memory.RemoteWrite | memory.RemoteRead | memory.RemoteAtomic | memory.MWBind

func (w *world) host(i int) *host { return w.hostWith(i, 1<<16) }

// hostWith makes the objects of a program, whose buffer has some bytes.
func (w *world) hostWith(i, bytes int) *host {
	w.t.Helper()
	h := &host{Device: w.ports[i].device, t: w.t, buf: make([]byte, bytes)}
	var err error
	if h.pd, err = h.AllocPD(); err != nil {
		w.t.Fatal(err)
	}
	if h.cq, err = h.CreateCQ(1024, nil); err != nil {
		w.t.Fatal(err)
	}
	if h.mr, err = h.pd.Register(h.buf, anyAccess); err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (h *host) qp(kind qp.Type) *QP {
	h.t.Helper()
	q, err := h.pd.CreateQP(QPConfig{
		Type: kind, SendCQ: h.cq, RecvCQ: h.cq, SignalAll: true,
		Cap: qp.Cap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 64},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return q
}

// join connects two queue pairs of hosts 0 and 1, or others.
func join(t rapid.TB, a, b *QP, mtu qp.MTU, six bool) {
	t.Helper()
	at := func(q *QP) netip.Addr {
		if six {
			return q.Device().Addresses()[1]
		}
		return q.Device().Addresses()[0]
	}
	one := func(q, peer *QP) {
		t.Helper()
		j := Join{
			Local: at(q), Remote: at(peer), RemoteQPN: peer.Number(), PSN: 7, RemotePSN: 7, MTU: mtu, RdAtomic: 4,
			Access: memory.RemoteWrite | memory.RemoteRead | memory.RemoteAtomic, QKey: 0x1234,
		}
		if c, _ := q.Query(); c.Cap.MaxSendWR > 0 && q.config.Type == qp.UC {
			j.Access = memory.RemoteWrite
		}
		if err := q.Join(j); err != nil {
			t.Fatal(err)
		}
	}
	one(a, b)
	one(b, a)
}

// poll returns the completions.
func (h *host) poll() []cq.Completion {
	h.t.Helper()
	list := make([]cq.Completion, 1024)
	n, err := h.cq.Poll(list)
	if err != nil {
		h.t.Fatal(err)
	}
	return list[:n]
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// heap returns the amount of memory in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
