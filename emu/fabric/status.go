package fabric

import (
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/switches/port"
)

// PortStatus is the state of one port at one moment, with its counts since the start.
type PortStatus struct {
	Name string `json:"name"` // "s1:3"
	Peer string `json:"peer,omitempty"`
	Node string `json:"node"`
	Kind string `json:"kind"` // of the node: host or switch

	Link *LinkStatus `json:"link,omitempty"` // leaving the port

	QueuePackets int         `json:"queue_packets"`
	QueueBytes   units.Bytes `json:"queue"`
	QueueLimit   units.Bytes `json:"queue_limit"` // with classes that of the shared buffer; 0 without a limit
	QueueMax     units.Bytes `json:"queue_max"`
	QueueMean    float64     `json:"queue_mean_bytes"` // time average since the start

	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"` // frames without FCS
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	Marked    uint64 `json:"marked"`
	Dropped   uint64 `json:"dropped"`

	Drops map[string]uint64 `json:"drops,omitempty"` // by reason

	Gauges  []gauge.Value `json:"gauges,omitempty"` // of the congestion point of a port with one queue
	Trimmed uint64        `json:"trimmed,omitempty"`
	Classes []ClassStatus `json:"classes,omitempty"` // of a port with several queues, by rising priority
	Edge    *EdgeStatus   `json:"edge,omitempty"`    // the edge service in front of a host's port
}

// ClassStatus is the state of one class of a port: first its egress queue, then
// pauses by the peer, then the ingress of the port.
type ClassStatus struct {
	Name     string `json:"name"`
	Priority uint8  `json:"priority"`

	QueuePackets int         `json:"queue_packets"`
	QueueBytes   units.Bytes `json:"queue"`
	QueueLimit   units.Bytes `json:"queue_limit"` // static limit or threshold at this moment, 0 without one
	QueueMax     units.Bytes `json:"queue_max"`
	QueueMean    float64     `json:"queue_mean_bytes"`
	TxPackets    uint64      `json:"tx_packets"`
	TxBytes      uint64      `json:"tx_bytes"`
	RxPackets    uint64      `json:"rx_packets"` // switches only
	Marked       uint64      `json:"marked"`
	Trimmed      uint64      `json:"trimmed"`
	Dropped      uint64      `json:"dropped"`

	Gauges []gauge.Value `json:"gauges,omitempty"` // of the congestion point

	Paused     bool       `json:"paused"`      // by the peer now, or waiting for its credit
	PausedTime units.Time `json:"paused_time"` // in total
	PauseRx    uint64     `json:"pause_rx"`    // frames that asked for a pause of this class
	ResumeRx   uint64     `json:"resume_rx"`   // frames that ended one
	Stormed    uint64     `json:"stormed"`     // times that the watchdog stepped in

	CreditSpent *CreditSpent `json:"credit_spent,omitempty"` // of the peer; nil if the class needs none
	CreditGiven *CreditGiven `json:"credit_given,omitempty"` // to the peer; nil if the class gives none

	Lossless     bool         `json:"lossless"`
	Pausing      bool         `json:"pausing"`      // the peer, now
	PausingTime  units.Time   `json:"pausing_time"` // in total
	PauseTx      uint64       `json:"pause_tx"`
	ResumeTx     uint64       `json:"resume_tx"`
	PauseCauses  []PauseCause `json:"pause_causes,omitempty"`
	IngressBytes units.Bytes  `json:"ingress"`
	IngressMax   units.Bytes  `json:"ingress_max"`
	Xoff         units.Bytes  `json:"xoff,omitempty"` // threshold at this moment
	Headroom     units.Bytes  `json:"headroom,omitempty"`
	HeadroomMax  units.Bytes  `json:"headroom_max,omitempty"` // largest use
}

// PauseCause is a port whose queue filled up and so caused a pause.
type PauseCause struct {
	Port string     `json:"port"` // "s1:3"
	Time units.Time `json:"time"` // of the pauses that it caused
}

// CreditSpent is the state of one class of a port that sends only what its peer gives credit
// for. ClassStatus.PausedTime includes the time that packets waited for credit.
type CreditSpent struct {
	Buffer    units.Bytes `json:"buffer"`    // the peer's, in whole blocks
	Available units.Bytes `json:"available"` // now; negative if the peer has taken some back
	Waits     uint64      `json:"waits"`     // times that a packet had to wait for it
	Updates   uint64      `json:"updates"`   // frames from the peer
}

// CreditGiven is the state of one class of a port that gives its peer credit.
type CreditGiven struct {
	Buffer  units.Bytes `json:"buffer"` // in whole blocks
	Held    units.Bytes `json:"held"`   // arrived and waiting now, in whole blocks
	HeldMax units.Bytes `json:"held_max"`
	Updates uint64      `json:"updates"` // frames to the peer
	Lost    units.Bytes `json:"lost"`    // sent by the peer but not received
	Surplus units.Bytes `json:"surplus"` // received but not sent: copies that the link made
}

// LinkStatus is the state of one direction of a link.
type LinkStatus struct {
	Rate      units.Rate `json:"rate"`
	Delay     units.Time `json:"delay"`
	MTU       int        `json:"mtu"`   // largest layer-3 packet in bytes
	State     string     `json:"state"` // up or down
	InFlight  int        `json:"in_flight"`
	Delivered uint64     `json:"delivered"`

	Loss               units.Fraction     `json:"loss,omitempty"`
	Corrupt            units.Fraction     `json:"corrupt,omitempty"`
	Duplicate          units.Fraction     `json:"duplicate,omitempty"`
	Reorder            units.Fraction     `json:"reorder,omitempty"`
	ReorderBy          units.Time         `json:"reorder_by,omitempty"`
	Jitter             units.Time         `json:"jitter,omitempty"`
	JitterDistribution links.Distribution `json:"jitter_distribution,omitempty"`
	JitterReorder      bool               `json:"jitter_reorder,omitempty"`
	DropMatch          string             `json:"drop_match,omitempty"`

	Corrupted  uint64 `json:"corrupted,omitempty"`
	Duplicated uint64 `json:"duplicated,omitempty"`
	Reordered  uint64 `json:"reordered,omitempty"`
	Cut        uint64 `json:"cut,omitempty"`
}

// Accounts say where every packet went:
//
//	Entered + Originated + Replicated + Duplicated = Delivered + Consumed + Dropped + Held
type Accounts struct {
	Entered    uint64 `json:"entered"`    // from hosts, real and modelled
	Originated uint64 `json:"originated"` // by switches, ports and edge services; unwrapped from tunnels
	Replicated uint64 `json:"replicated"` // copies of what goes to several ports
	Duplicated uint64 `json:"duplicated"` // copies made by links on purpose

	Delivered uint64 `json:"delivered"` // to hosts
	Consumed  uint64 `json:"consumed"`  // by ports (PFC and PAUSE frames), routers (addressed to them), edge services
	Dropped   uint64 `json:"dropped"`   // in queues, on links, at receivers
	Held      uint64 `json:"held"`      // in queues, on links and in edge services now

	Marked   uint64            `json:"marked"`
	Trimmed  uint64            `json:"trimmed"`
	Returned uint64            `json:"returned"`        // of these, sent back to senders
	Drops    map[string]uint64 `json:"drops,omitempty"` // Dropped by reason
}

// Balanced reports whether no packet is missing.
func (a Accounts) Balanced() bool {
	return a.Entered+a.Originated+a.Replicated+a.Duplicated == a.Delivered+a.Consumed+a.Dropped+a.Held
}

// Status returns the state of every port, in the order of the plan.
func (f *Fabric) Status() []PortStatus {
	ports := 0
	for _, node := range f.ports {
		ports += len(node)
	}
	out := make([]PortStatus, 0, ports)
	for n, node := range f.ports {
		for i := range node {
			out = append(out, f.PortStatus(n, i))
		}
	}
	return out
}

// PortStatus returns the state of one port.
func (f *Fabric) PortStatus(node, index int) PortStatus {
	p := f.ports[node][index]
	now := f.nowAt(node)
	c := p.Counters(now)
	plan := &f.Plan.Nodes[node].Ports[index]
	s := PortStatus{
		Name: p.Name, Node: f.Plan.Nodes[node].Name, Kind: f.Plan.Nodes[node].Kind.String(),
		QueueLimit: p.Limit(), QueueMax: c.MaxQueue, QueueMean: c.MeanQueue(port.Counters{}),
		RxPackets: c.RxPackets, RxBytes: c.RxBytes, TxPackets: c.TxPackets, TxBytes: c.TxBytes,
		Marked: c.Marked, Dropped: c.Dropped(), Drops: byReason(c.Drops),
	}
	s.QueuePackets, s.QueueBytes = p.Queued(now)
	s.Gauges = pointGauges(plan.Queue.Mark, p.Gauges(now, nil))
	s.Trimmed = c.Trimmed
	if deep := f.Plan.Nodes[node].QoS; deep != nil {
		s.QueueLimit = deep.Buffer
		s.Classes = make([]ClassStatus, len(plan.Classes))
	}
	for i := range s.Classes {
		k := p.Class(now, i)
		s.Classes[i] = f.classStatus(node, &k)
		s.Classes[i].Gauges = pointGauges(plan.Classes[i].Mark, k.Gauges)
	}
	if station := f.stations[node][index]; station != nil && station.edge != nil {
		s.Edge = station.edge.status(now)
	}
	if plan.Link >= 0 {
		far := f.Plan.Links[plan.Link].Ends[1-plan.End]
		s.Peer = f.ports[far.Node][far.Port].Name
		s.Link = linkStatus(p.Link(), p.InFlight(now))
		if cut := p.Link().Counters().Cut; cut > 0 {
			s.Dropped += cut
			s.Drops = byReasonPlus(s.Drops, packet.LinkDown, cut)
		}
	}
	return s
}

func (f *Fabric) classStatus(node int, c *port.ClassCounters) ClassStatus {
	s := ClassStatus{
		Name: c.Name, Priority: c.Priority,
		QueuePackets: c.QueuePackets, QueueBytes: c.QueueBytes, QueueLimit: c.Limit, QueueMax: c.MaxQueue, QueueMean: c.MeanQueue,
		TxPackets: c.TxPackets, TxBytes: c.TxBytes, RxPackets: c.RxPackets, Marked: c.Marked, Trimmed: c.Trimmed, Dropped: c.Dropped,
		Paused: c.Got.Paused, PausedTime: c.Got.Time, PauseRx: c.Got.Pauses, ResumeRx: c.Got.Resumes, Stormed: c.Got.Storms,
		Lossless: c.Ingress.Lossless, Pausing: c.Sent.Asking, PausingTime: c.Sent.Time, PauseTx: c.Sent.Pauses, ResumeTx: c.Sent.Resumes,
		IngressBytes: c.Ingress.Reserve + c.Ingress.Shared + c.Ingress.Headroom, IngressMax: c.Ingress.Peak,
	}
	if s.Lossless {
		s.Xoff, s.Headroom, s.HeadroomMax = c.Ingress.Threshold, c.Ingress.HeadroomSize, c.Ingress.HeadroomPeak
	}
	if x := c.Spent; x != nil {
		s.Paused = s.Paused || x.Waiting
		s.PausedTime += x.Time
		s.CreditSpent = &CreditSpent{Buffer: x.Buffer, Available: x.Available, Waits: x.Waits, Updates: x.Updates}
	}
	if x := c.Given; x != nil {
		s.CreditGiven = &CreditGiven{
			Buffer: x.Buffer, Held: x.Held, HeldMax: x.Peak, Updates: x.Updates,
			Lost: units.Bytes(x.Lost) * credit.Block, Surplus: units.Bytes(x.Surplus) * credit.Block,
		}
	}
	for i, t := range c.Sent.Causes {
		if t > 0 {
			s.PauseCauses = append(s.PauseCauses, PauseCause{Port: f.Plan.PortName(node, i), Time: t})
		}
	}
	return s
}

func linkStatus(l *links.Link, inFlight int) *LinkStatus {
	s, c := l.Settings(), l.Counters()
	state := "down"
	if s.Up {
		state = "up"
	}
	match := ""
	if !s.DropMatch.Empty() {
		match = s.DropMatch.String()
	}
	return &LinkStatus{
		Rate: s.Rate, Delay: s.Delay, MTU: int(s.MTU), State: state, InFlight: inFlight, Delivered: c.Delivered,
		Loss: s.Loss, Corrupt: s.Corrupt, Duplicate: s.Duplicate, Reorder: s.Reorder, ReorderBy: s.ReorderBy,
		Jitter: s.Jitter, JitterDistribution: s.JitterDistribution, JitterReorder: s.JitterReorder, DropMatch: match,
		Corrupted: c.Corrupted, Duplicated: c.Duplicated, Reordered: c.Reordered, Cut: c.Cut,
	}
}

func byReason(drops [packet.FateCount]uint64) (m map[string]uint64) {
	for fate, n := range drops {
		if n > 0 {
			m = byReasonPlus(m, packet.Fate(fate), n)
		}
	}
	return m
}

func byReasonPlus(m map[string]uint64, fate packet.Fate, n uint64) map[string]uint64 {
	if m == nil {
		m = map[string]uint64{}
	}
	m[fate.String()] += n
	return m
}

// Accounts sums up the whole fabric. Held is counted where packets are held,
// not computed from the rest.
func (f *Fabric) Accounts() Accounts {
	var a Accounts
	for _, s := range f.Stations {
		a.Entered += s.Entered
		a.Delivered += s.Delivered
		if s.edge != nil {
			held, _ := s.edge.service.Held()
			a.Held += uint64(held)
			a.Originated += s.edge.unwrapped
			a.Consumed += s.edge.finished
		}
	}
	for _, sw := range f.Switches {
		if sw != nil {
			a.Replicated += sw.Replicated()
			a.Originated += sw.Originated()
			a.Consumed += sw.Consumed()
			if unsent := sw.Unsent(); unsent > 0 {
				a.Dropped += unsent
				a.Drops = byReasonPlus(a.Drops, packet.NoRoute, unsent)
			}
		}
	}
	for n, node := range f.ports {
		now := f.nowAt(n)
		for _, p := range node {
			c := p.Counters(now)
			a.Marked += c.Marked
			a.Trimmed += c.Trimmed
			a.Returned += c.Returned
			a.Originated += c.Originated
			a.Consumed += c.Consumed
			a.Dropped += c.Dropped()
			for fate, n := range c.Drops {
				if n > 0 {
					a.Drops = byReasonPlus(a.Drops, packet.Fate(fate), n)
				}
			}
			queued, _ := p.Queued(now)
			a.Held += uint64(queued)
			if p.Link() != nil {
				a.Held += uint64(p.InFlight(now))
			}
		}
	}
	for _, dir := range f.Links {
		for _, l := range dir {
			c := l.Counters()
			a.Duplicated += c.Duplicated
			if cut := c.Cut; cut > 0 {
				a.Dropped += cut
				a.Drops = byReasonPlus(a.Drops, packet.LinkDown, cut)
			}
		}
	}
	return a
}
