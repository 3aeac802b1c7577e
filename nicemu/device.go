package nicemu

import (
	"fmt"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// One lane per class of the port, and one more for what a NIC sends to itself.
const (
	loopback  = 8
	laneCount = 9
)

// sleeper is a part of the NIC that is woken up.
type sleeper interface {
	// doDueWork does the work that is due, and calls Agenda.WakeAt if there will be more.
	doDueWork(now units.Time)
}

// Device is a NIC. Make it with New.
type Device struct {
	settings Settings
	env      Env
	gids     gids
	line     units.Rate
	down     bool           // the link of its port
	traits   cc.Traits      // of its rate control
	flows    map[flowTo]*QP // with rate controls that hear messages; nil until needed
	quantum  units.Bytes

	memory  *memory.Table
	nextVA  uint64
	numbers numbers
	handles handles
	groups  *qp.Groups
	inUse   [4]int // by qp.Resource
	xrcSRQs xrcSRQs
	events  asyncEvents

	lanes  [laneCount]lane
	agenda agenda.Agenda[sleeper]
	armed  units.Time // when the timer is armed for
	busy   units.Time // when the port has sent the packet it was given last
	loop   loop
	ipid   uint16

	scratch   roce.Packet      // of a frame that came in
	ack       cc.Ack           // passed to a rate control
	stack     telemetry.Stack  // of a frame that came in
	heard     *telemetry.Stack // brought by the packet being handled; nil if none
	grh       [transport.GRHLen]byte
	counters  Counters
	retired   *transport.Counters // of queue pairs that are destroyed; nil before there are any
	conns     connections
	layer     Layer // nil if none
	layerCQs  layerCQs
	lent      lent      // to the layer
	limited   int       // queue pairs that have a rate limiter
	onDestroy func(*QP) // called for destroyed queue pairs; nil while flows are not followed
}

// New makes a NIC. s.MTU and s.Limits.ActiveMTU must match the link's MTU.
func New(s Settings, e Env) (*Device, error) {
	s.Limits.ActiveMTU = s.MTU
	if err := s.Limits.Check(); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", e.Name, err)
	}
	if s.DSCP > maxDSCP {
		return nil, fmt.Errorf("NIC %s: dscp is %d: it can be 0 to %d", e.Name, s.DSCP, maxDSCP)
	}
	if s.AckDSCP != nil && *s.AckDSCP > maxDSCP {
		return nil, fmt.Errorf("NIC %s: ack-dscp is %d: it can be 0 to %d", e.Name, *s.AckDSCP, maxDSCP)
	}
	if err := s.Delays.Check(); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", e.Name, err)
	}
	if err := s.RateLimiter.Check(); err != nil {
		return nil, fmt.Errorf("NIC %s: rate-limiter: %w", e.Name, err)
	}
	if cc.TraitsOf(s.Control).NeedsDelivery {
		return nil, fmt.Errorf("NIC %s: %s needs samples of the delivery rate, which NICs do not take", e.Name, s.Control)
	}
	d := &Device{settings: s, env: e, traits: cc.TraitsOf(s.Control), line: e.Line, down: e.Down, armed: units.Never, nextVA: firstVA}
	d.gids.setTable(e.Addresses, e.LinkLocal)
	if e.Links == nil {
		d.env.Links = &outage.None
	}
	if cc.Methods.Kind(s.Control.Name).Feedback != nil {
		d.flows = map[flowTo]*QP{}
	}
	d.memory = memory.New(s.Limits.Memory())
	d.groups = qp.NewGroups(&d.settings.Limits)
	// The longest packet, so that every queue pair can send in its turn.
	d.quantum = maxHeaders + units.Bytes(s.MTU.Bytes())
	d.agenda.EnrolTask(&d.loop.Task, &d.loop)
	d.loop.device = d
	if err := d.conns.startManager(d); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", e.Name, err)
	}
	if err := d.startLayer(); err != nil {
		return nil, fmt.Errorf("NIC %s: %w", e.Name, err)
	}
	return d, nil
}

// maxHeaders is the most that a frame can have on top of its payload.
const maxHeaders = 14 + 40 + 8 + 12 + 28 + 4 + 4

// SetLine sets the rate at which the port runs from now on; 0 means no limit.
func (d *Device) SetLine(now units.Time, r units.Rate) {
	if r == d.line {
		return
	}
	d.line = r
	if r == 0 {
		return // rate controls keep the rate they know
	}
	for _, q := range d.numbers.allQPs() {
		if q.control != nil {
			q.runControlTimer(now)
			q.control.SetLineRate(now, r)
			d.rescheduleQP(now, q)
		}
	}
	d.armTimer()
}

// Fire does the work that is due. The timer calls it.
func (d *Device) Fire(now units.Time) {
	d.armed = units.Never
	for k := d.agenda.TakeDue(now); k != nil; k = d.agenda.TakeDue(now) {
		k.Owner.doDueWork(now)
	}
	d.armTimer()
}

// armTimer sets the timer. Every call from outside ends with it.
func (d *Device) armTimer() {
	next := d.agenda.Next()
	if next == d.armed {
		return
	}
	if d.armed = next; next == units.Never {
		d.env.Timer.Disarm()
	} else {
		d.env.Timer.Arm(next)
	}
}

// freePacket frees a packet.
func (d *Device) freePacket(p *packet.Packet) { d.env.Pool.Free(p) }
