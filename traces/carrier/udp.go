package carrier

import (
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/pattern"
	"github.com/weftlab/weft/traces/records"
)

// UDP is how a traffic's flows go by UDP: each as datagrams at a rate. Nothing is
// acknowledged, and what is lost is not sent again: a flow that has lost a packet is
// never complete, and unfinished when the run ends. A flow is over when all of it has
// arrived; its sender's agent is told that it is complete when the last datagram was
// given to the port.
type UDP struct {
	Rate units.Rate  // of a flow, on the wire; 0 is that of the host's link when the run begins
	Size units.Bytes // of the payload of a datagram, 1 byte or more; the last of a flow is what is left
	DSCP uint8       // 0 to 63
	ECT  bool        // packets carry ECT(0)
	IPv6 bool        // over IPv6, otherwise IPv4
}

// Check says what is wrong with settings.
func (c *UDP) Check() error {
	switch {
	case c.Rate < 0:
		return fmt.Errorf("rate is %v: it can be 0, for the link's rate, or more", c.Rate)
	case c.Size < 1 || c.Size > 65507:
		return fmt.Errorf("size is %d: a datagram has a payload of 1 to 65507 bytes, and it has to fit the MTU of the links", int64(c.Size))
	case c.DSCP > 63:
		return fmt.Errorf("dscp is %d: it can be 0 to 63", c.DSCP)
	}
	return nil
}

// Outlet is how packets leave a host.
type Outlet struct {
	Pool      *packet.Pool
	MAC       wire.MAC
	Line      units.Rate                              // of the link; 0 is without limit
	AddressOf func(node int) (netip.Addr, bool)       // of a host; false if it takes no part
	PathTo    func(to netip.Addr) (nicemu.Path, bool) // false if nobody has the address
	Send      func(now units.Time, p *packet.Packet)
}

// Datagrams carries the flows of one traffic by UDP, from and to one host.
type Datagrams struct {
	host    *Host
	traffic int
	config  UDP
	out     Outlet

	agenda  agenda.Agenda[*stream]
	refused []*stream
	free    *stream
	numbers map[int32]uint32 // flows so far, by receiver
	coming  map[uint64]*incoming
	known   map[int]*numbers // by sender
	arrived []arrived        // and not told yet
}

// stream is a flow that is being sent.
type stream struct {
	agenda.Task[*stream]
	records.Record
	next   *stream
	path   nicemu.Path
	to     netip.Addr
	number uint32
	seq    uint32
	sent   units.Bytes // on the wire
}

// incoming is a flow that is coming.
type incoming struct {
	left  uint32 // datagrams
	next  uint32 // all before it have come
	ahead map[uint32]bool
}

// arrived is a flow that has come whole.
type arrived struct {
	pattern.Flow
	id uint64
}

// numbers tells of which flows of a sender a datagram has come. One that begins to come
// behind more than 256 later ones is taken for one that came before.
type numbers struct {
	next uint32 // one beyond the highest
	bits [256 / 64]uint64
}

// begins notes a datagram of a flow; false if one came before.
func (n *numbers) begins(k uint32) bool {
	const size = uint32(len(n.bits) * 64)
	if int32(k-n.next) >= 0 {
		if k-n.next >= size {
			n.bits, n.next = [len(n.bits)]uint64{}, k
		}
		for ; n.next != k+1; n.next++ {
			n.bits[n.next%size/64] &^= 1 << (n.next % 64)
		}
	} else if n.next-k > size {
		return false
	}
	word, bit := &n.bits[k%size/64], uint64(1)<<(k%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// NewDatagrams makes what carries a host's flows of a traffic by UDP. Packets of its
// Protocol that come to the host are for Receive.
func NewDatagrams(h *Host, traffic int, c UDP, o Outlet) *Datagrams {
	if c.Rate == 0 {
		c.Rate = o.Line
	}
	return &Datagrams{host: h, traffic: traffic, config: c, out: o, numbers: map[int32]uint32{}, coming: map[uint64]*incoming{}, known: map[int]*numbers{}}
}

// Protocol is the protocol of the packets of flows by UDP.
func Protocol() *packet.MessageProtocol { return datagrams }

// Start implements Carrier.
func (d *Datagrams) Start(now units.Time, r *records.Record) {
	s := d.free
	if s == nil {
		s = new(stream)
		d.agenda.Enrol(&s.Task, s)
	} else {
		d.free = s.next
	}
	s.Record, s.next, s.seq, s.sent = *r, nil, 0, 0
	s.Started = now
	known, reachable := false, false
	if s.to, known = d.out.AddressOf(int(r.To)); known {
		s.path, reachable = d.out.PathTo(s.to)
	}
	switch {
	case int(r.From) != d.host.Node:
		s.Failure = "started by the wrong host: UDP flows start at the host that has the data"
	case !known:
		s.Failure = "the destination host is not part of the traffic"
	case !reachable:
		s.Failure = "no host has the address " + s.to.String()
	default:
		s.number = d.numbers[r.To]
		d.numbers[r.To]++
		s.SrcPort = portOf(uint16(mix(s.ID) & maxLabel))
		d.host.Opened(&s.Record)
		d.agenda.At(&s.Task, now)
		d.host.Wake(now)
		return
	}
	s.State = records.Failed
	d.refused = append(d.refused, s)
	d.host.Wake(now)
}

// Work implements Carrier: it sends what is due, and tells of what has come.
func (d *Datagrams) Work(now units.Time) {
	for len(d.refused) > 0 {
		s := d.refused[0]
		d.refused = d.refused[1:]
		d.host.Ended(now, &s.Record, 0)
		d.put(s)
	}
	for k := d.agenda.Due(now); k != nil; k = d.agenda.Due(now) {
		d.send(now, k.Owner)
	}
	for i := 0; i < len(d.arrived); i++ {
		a := d.arrived[i]
		d.host.Arrived(now, d.traffic, a.Flow, a.id)
	}
	d.arrived = d.arrived[:0]
	d.host.Wake(d.agenda.Next())
}

// send sends the next datagram of a flow.
func (d *Datagrams) send(now units.Time, s *stream) {
	c := &d.config
	p := d.out.Pool.NewMessage(datagrams)
	b := p.Message.Body.(*datagram)
	*b = datagram{
		id: s.ID, number: s.number, seq: s.seq, tag: s.Tag, size: uint64(s.Size), length: uint32(payloadOf(s.Size, c.Size, s.seq)),
		traffic: d.traffic, from: d.host.Node,
	}
	p.Message.From, _ = d.out.AddressOf(d.host.Node)
	p.Message.To, p.SrcPort = s.to, s.SrcPort
	p.Seal()
	p.TOS = c.DSCP << 2
	if c.ECT {
		p.TOS |= wire.ECT0
	}
	p.IPID = uint16(s.seq)
	if p.Version == 6 {
		p.Label = max(uint32(p.Hash)&wire.MaxFlowLabel, 1) // as Linux does it (RFC 6437 §3)
	}
	p.Dest, p.To, p.Src, p.Dst = s.path.Dest, s.path.To, d.out.MAC, s.path.MAC
	s.sent += packet.OnWire(p.Size)
	s.seq++
	d.out.Send(now, p)
	if s.seq < countOf(s.Size, c.Size) {
		d.agenda.At(&s.Task, s.Started+c.Rate.TimeOf(s.sent))
		return
	}
	d.host.Completed(now, &s.Record)
	d.put(s)
}

func (d *Datagrams) put(s *stream) { s.next, d.free = d.free, s }

// Receive takes a packet of Protocol that has come to the host, and tells whether it is
// of the traffic. The packet stays the caller's. One that was trimmed or sent back is
// lost.
func (d *Datagrams) Receive(now units.Time, p *packet.Packet) bool {
	b := p.Message.Body.(*datagram)
	switch {
	case b.traffic != d.traffic:
		return false
	case p.Trimmed || p.Returned:
		return true
	}
	f := d.coming[b.id]
	if f == nil {
		known := d.known[b.from]
		if known == nil {
			known = &numbers{}
			d.known[b.from] = known
		}
		if !known.begins(b.number) {
			return true
		}
		f = &incoming{left: countOf(units.Bytes(b.size), d.config.Size)}
		if f.left > 1 {
			d.coming[b.id] = f
		}
	}
	if f.take(b.seq); f.left > 0 {
		return true
	}
	delete(d.coming, b.id)
	d.arrived = append(d.arrived, arrived{pattern.Flow{Tag: b.tag, From: b.from, To: d.host.Node, Size: units.Bytes(b.size)}, b.id})
	d.host.Wake(now)
	return true
}

// take counts a datagram, the first time that it comes.
func (f *incoming) take(seq uint32) {
	switch {
	case seq < f.next || f.ahead[seq]:
		return
	case seq > f.next:
		if f.ahead == nil {
			f.ahead = map[uint32]bool{}
		}
		f.ahead[seq] = true
	default:
		for f.next++; f.ahead[f.next]; f.next++ {
			delete(f.ahead, f.next)
		}
	}
	f.left--
}

// UnderWay implements Carrier. Of flows that began, the receivers tell when they are over:
// who collects the records has them.
func (d *Datagrams) UnderWay(f func(*records.Record)) {
	for _, s := range d.refused {
		f(&s.Record)
	}
}
