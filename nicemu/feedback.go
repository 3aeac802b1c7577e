package nicemu

import (
	"net/netip"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// flowTo is how others name the flow of a queue pair: by where its packets go.
type flowTo struct {
	to netip.Addr
	qp uint32
}

// Hear takes a packet of the protocol whose messages the NIC's rate control hears
// (Control.Feedback), and frees it. One that was trimmed or sent back, or that is about no
// flow of the NIC, is counted and ignored.
func (d *Device) Hear(now units.Time, p *packet.Packet) {
	m, ok := p.Message.Body.(cc.Feedback)
	if !ok || p.Trimmed || p.Returned {
		d.counters.RPMessagesIgnored++
	} else {
		d.hear(now, m)
	}
	d.free(p)
	d.arm()
}

func (d *Device) hear(now units.Time, m cc.Feedback) {
	k := m.About()
	q := d.flows[flowTo{k.To, k.QP}]
	if q == nil || k.From != q.route.ends.From {
		d.counters.RPMessagesIgnored++
		return
	}
	d.counters.RPMessagesHandled++
	q.tick(now)
	q.control.Message(now, m)
	d.settle(now, q)
}
