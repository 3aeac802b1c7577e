package eqdsnic

import (
	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// port is the port that the host's NIC feeds: it takes the NIC's packets at the rate of the link,
// class by class, and passes them to the EQIF for RDMA.
type port struct {
	agenda.Task[end]
	service *service
	feeder  edge.Feeder
	line    units.Rate
	fed     [class.Count]units.Bytes
	last    int        // class that was served last
	busy    units.Time // until the last packet is taken
	stalled *packet.Packet
	waits   *sender // the sender without room for it
}

// NICPort implements edge.TakesNIC.
func (s *service) NICPort(f edge.Feeder) edge.Port {
	s.nic = &port{service: s, feeder: f, line: s.env.Line}
	s.agenda.EnrolTask(&s.nic.Task, s.nic)
	return s.nic
}

// AnnouncePacket implements edge.Port.
func (n *port) AnnouncePacket(now units.Time, prio uint8, size units.Bytes) {
	n.fed[prio] = size
	n.wakePort(now)
	n.service.armTimer()
}

// wakePort wakes the port when it can take a packet. It never takes one at once: Feed may be
// called in the middle of the NIC's work.
func (n *port) wakePort(now units.Time) {
	due := units.Never
	if n.stalled == nil {
		for _, size := range n.fed {
			if size > 0 {
				due = max(now, n.busy)
			}
		}
	}
	n.service.agenda.WakeAt(&n.Task, due)
}

// NextTimer implements end.
func (n *port) NextTimer() units.Time { return n.WantedTime() }

func (n *port) onTimer(s *service, now units.Time) {
	if n.busy <= now && n.stalled == nil {
		n.takeFromNIC(s, now)
	}
	n.wakePort(now)
}

// takeFromNIC takes the next packet of the NIC.
func (n *port) takeFromNIC(s *service, now units.Time) {
	for i := 1; i <= class.Count; i++ {
		prio := (n.last + i) % class.Count
		if n.fed[prio] == 0 {
			continue
		}
		p := n.feeder.Next(now, uint8(prio))
		if p == nil {
			n.fed[prio] = 0
			continue
		}
		n.last = prio
		n.busy = now + n.line.TimeOf(packet.OnWire(p.Size))
		x := s.senderOf(p)
		if x == nil {
			s.env.Pass(now, p)
		} else if !s.queuePacket(now, x, p) {
			n.stalled, n.waits = p, x
		}
		return
	}
}

// retryWaiting retries the packet that has to wait. Every change of a queue for RDMA ends with it.
func (n *port) retryWaiting(now units.Time) {
	p := n.stalled
	if p == nil {
		return
	}
	if waiting, _ := n.waits.Queue(); waiting >= n.service.RDMAPackets {
		return
	}
	n.stalled = nil
	n.service.queuePacket(now, n.waits, p)
	n.wakePort(now)
}
