package carrier

import (
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/wire"
)

// UDP says how UDP carries a traffic's flows: each as datagrams at a rate. Nothing is
// acknowledged, and lost packets are not retransmitted: a flow that has lost a packet
// never completes, and is unfinished when the run ends. A flow is over when all of it
// has arrived; its sender's agent is told that it is complete when the last datagram
// has been passed to the port.
type UDP struct {
	Rate units.Rate  // of a flow, on the wire; 0 means the rate of the host's link when the run begins
	Size units.Bytes // of the payload of a datagram, 1 byte or more; a flow's last datagram has the rest
	DSCP uint8       // 0 to 63
	ECT  bool        // packets carry ECT(0)
	IPv6 bool        // over IPv6, otherwise IPv4
}

// Check returns what is wrong with the settings.
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

// Outlet says how packets leave a host.
type Outlet struct {
	Pool   *packet.Pool
	MAC    wire.MAC
	Line   units.Rate                                           // of the link; 0 means no limit
	Ends   func(peer int) (from, to netip.Addr, failure string) // addresses of this host and of another, or why no flow goes there
	PathTo func(to netip.Addr) (nicemu.Path, bool)              // false if no host has the address
	Send   func(now units.Time, p *packet.Packet)
}

// Datagrams carries the flows of one traffic over UDP, from and to one host.
type Datagrams struct {
	endpoint
	config UDP

	agenda  agenda.Agenda[*stream]
	refused []*stream
	free    *stream
	numbers map[int32]uint32 // flows so far, by receiver
	coming  map[uint64]*incoming
	known   map[int]*numbers // by sender
}

// stream is a flow being sent.
type stream struct {
	agenda.Task[*stream]
	records.Record
	route
	next   *stream
	number uint32
	seq    uint32
	sent   units.Bytes // on the wire
}

// incoming is a flow being received.
type incoming struct {
	left  uint32 // datagrams
	next  uint32 // all before it have arrived
	ahead map[uint32]bool
}

// numbers records for which flows of a sender a datagram has arrived. A flow that
// is 256 or more behind the highest is treated as seen before.
type numbers struct {
	next uint32 // one above the highest
	bits [256 / 64]uint64
}

// recordDatagram records a datagram of a flow; it returns false if one arrived before.
func (n *numbers) recordDatagram(k uint32) bool {
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

// NewDatagrams makes the carrier of a host's flows of a traffic over UDP. Packets of
// Protocol that arrive at the host must be passed to ReceivePacket.
func NewDatagrams(h *Host, traffic int, c UDP, o Outlet) *Datagrams {
	if c.Rate == 0 {
		c.Rate = o.Line
	}
	return &Datagrams{endpoint: endpoint{host: h, traffic: traffic, outlet: &o}, config: c, numbers: map[int32]uint32{}, coming: map[uint64]*incoming{}, known: map[int]*numbers{}}
}

// DatagramProtocol returns the protocol of the packets of UDP flows.
func DatagramProtocol() *packet.MessageProtocol { return datagrams }

// Start implements Carrier.
func (d *Datagrams) Start(now units.Time, r *records.Record) {
	s := d.free
	if s == nil {
		s = new(stream)
		d.agenda.EnrolTask(&s.Task, s)
	} else {
		d.free = s.next
	}
	s.Record, s.next, s.seq, s.sent = *r, nil, 0, 0
	s.Started = now
	if s.route, s.Failure = d.resolveDestination(r, "UDP"); s.Failure == "" {
		s.number = d.numbers[r.To]
		d.numbers[r.To]++
		s.SrcPort = portOf(uint16(mixBits(s.ID) & maxLabel))
		d.host.RecordOpen(&s.Record)
		d.agenda.WakeAt(&s.Task, now)
		d.host.WakeAt(now)
		return
	}
	s.State = records.Failed
	d.refused = append(d.refused, s)
	d.host.WakeAt(now)
}

// DoWork implements Carrier: it sends datagrams that are due, and reports flows that have
// arrived.
func (d *Datagrams) DoWork(now units.Time) {
	for len(d.refused) > 0 {
		s := d.refused[0]
		d.refused = d.refused[1:]
		d.host.RecordEnd(now, &s.Record, 0)
		d.recycleStream(s)
	}
	for k := d.agenda.TakeDue(now); k != nil; k = d.agenda.TakeDue(now) {
		d.sendDatagram(now, k.Owner)
	}
	d.reportArrived(now)
	d.host.WakeAt(d.agenda.Next())
}

// sendDatagram sends the next datagram of a flow.
func (d *Datagrams) sendDatagram(now units.Time, s *stream) {
	c := &d.config
	p := d.outlet.Pool.NewMessage(datagrams)
	b := p.Message.Body.(*datagram)
	*b = datagram{
		id: s.ID, number: s.number, seq: s.seq, tag: s.Tag, size: uint64(s.Size), length: uint32(payloadOf(s.Size, c.Size, s.seq)),
		traffic: d.traffic, from: d.host.Node,
	}
	p.Message.From, p.Message.To, p.SrcPort = s.from, s.to, s.SrcPort
	p.SetFields()
	p.TOS = c.DSCP << 2
	if c.ECT {
		p.TOS |= wire.ECT0
	}
	id := uint16(s.seq)
	s.sent += packet.OnWire(p.Size)
	s.seq++
	d.transmitPacket(now, p, s.path, id)
	if s.seq < countOf(s.Size, c.Size) {
		d.agenda.WakeAt(&s.Task, s.Started+c.Rate.TimeOf(s.sent))
		return
	}
	d.host.FlowCompleted(now, &s.Record)
	d.recycleStream(s)
}

func (d *Datagrams) recycleStream(s *stream) { s.next, d.free = d.free, s }

// ReceivePacket takes a packet of Protocol that has arrived at the host, and reports whether
// it belongs to the traffic. The packet stays the caller's. One that was trimmed or
// sent back is lost.
func (d *Datagrams) ReceivePacket(now units.Time, p *packet.Packet) bool {
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
		if !known.recordDatagram(b.number) {
			return true
		}
		f = &incoming{left: countOf(units.Bytes(b.size), d.config.Size)}
		if f.left > 1 {
			d.coming[b.id] = f
		}
	}
	if f.countDatagram(b.seq); f.left > 0 {
		return true
	}
	delete(d.coming, b.id)
	d.arrived = append(d.arrived, arrived{pattern.Flow{Tag: b.tag, From: b.from, To: d.host.Node, Size: units.Bytes(b.size)}, b.id})
	d.host.WakeAt(now)
	return true
}

// countDatagram counts a datagram when it first arrives.
func (f *incoming) countDatagram(seq uint32) {
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

// UnderWay implements Carrier. Receivers report when flows that began are over: whoever
// collects the records has those.
func (d *Datagrams) UnderWay(f func(*records.Record)) {
	for _, s := range d.refused {
		f(&s.Record)
	}
}
