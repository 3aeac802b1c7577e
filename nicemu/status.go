package nicemu

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu/cmnic"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// InUse counts the objects of a NIC.
type InUse struct {
	QueuePairs, CompletionQueues, SharedReceiveQueues, AddressHandles int
	ProtectionDomains, MemoryRegions, MemoryWindows                   int
}

// InUse counts the existing objects. Queue pair 1 is not among them.
func (d *Device) InUse() InUse {
	u := InUse{
		QueuePairs: d.inUse[qp.QueuePairs], CompletionQueues: d.inUse[qp.CompletionQueues],
		SharedReceiveQueues: d.inUse[qp.SharedReceiveQueues], AddressHandles: d.inUse[qp.AddressHandles],
	}
	u.ProtectionDomains, u.MemoryRegions, u.MemoryWindows = d.memory.InUse()
	return u
}

// MAC returns the address of the port.
func (d *Device) MAC() wire.MAC { return d.env.MAC }

// Line returns the rate of the port; 0 means no limit.
func (d *Device) Line() units.Rate { return d.line }

// QPs returns the queue pairs by rising number.
func (d *Device) QPs() []*QP { return d.numbers.allQPs() }

// QP finds a queue pair by its number, as in completions; nil if there is none.
func (d *Device) QP(number uint32) *QP { return d.numbers.findQP(number) }

// Listeners returns what the connection manager listens for, in the order in which that began.
func (d *Device) Listeners() []cmnic.Listen { return d.conns.cm.Listeners() }

// QPStatus is the state of a queue pair, apart from its attributes and counters.
type QPStatus struct {
	transport.Status

	// Destination of packets, for RC and UC from RTR on. Otherwise Remote is the zero Addr, and the
	// others mean nothing.
	Local, Remote netip.Addr
	TOS           uint8  // DSCP and ECN
	SourcePort    uint16 // UDP
	Priority      uint8  // class of the port's queues
	Loopback      bool   // to the NIC itself

	Rate        units.Rate    // of rate control, rate limit and static rate, on the wire; 0: no limit
	MaxInFlight units.Bytes   // window of rate control; 0 if unlimited
	Gauges      []gauge.Value // of the layer above it or its rate control; nil without both
	CNPDue      bool          // a CNP to the peer waits to be sent
}

// Status returns the current status. The call changes no results.
func (q *QP) Status() QPStatus {
	s := QPStatus{Status: q.engine.Status(), CNPDue: q.notified}
	if q.config.Type != qp.UD && q.State() >= qp.RTR {
		r := &q.route
		s.Local, s.Remote, s.TOS, s.SourcePort, s.Priority, s.Loopback = r.ends.From, r.ends.To, r.tos, r.port, r.prio, r.loop
	}
	s.Rate, s.MaxInFlight = q.Rate()
	switch d := q.device; {
	case q.layered != nil && !q.isTwin():
		s.Gauges = gauge.Read(d.settings.FlowGauges(), q.layered.Gauges(d.Now(), nil))
	case d.layer == nil && q.control != nil:
		s.Gauges = gauge.Read(d.settings.FlowGauges(), q.control.AppendGauges(d.Now(), nil))
	}
	return s
}

// IsLimited reports whether rate control, a rate limit or a static rate holds the queue pair below
// the line rate now.
func (q *QP) IsLimited() bool {
	rate, _ := q.Rate()
	return rate > 0 && rate < q.device.line
}
