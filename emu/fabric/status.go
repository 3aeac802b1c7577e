package fabric

import (
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/switches/port"
)

// Status returns the state of every port, in the order of the plan.
func (f *Fabric) Status() []status.Port {
	ports := 0
	for _, node := range f.ports {
		ports += len(node)
	}
	out := make([]status.Port, 0, ports)
	for n, node := range f.ports {
		for i := range node {
			out = append(out, f.PortStatus(n, i))
		}
	}
	return out
}

// PortStatus returns the state of one port.
func (f *Fabric) PortStatus(node, index int) status.Port {
	p := f.ports[node][index]
	now := f.nowAt(node)
	c := p.Counters(now)
	plan := &f.Plan.Nodes[node].Ports[index]
	s := status.Port{
		Name: p.Name, Node: f.Plan.Nodes[node].Name, Kind: f.Plan.Nodes[node].Kind.String(),
		QueueLimit: p.Limit(), QueueMax: c.MaxQueue, QueueMean: c.MeanQueue(port.Counters{}),
		RxPackets: c.RxPackets, RxBytes: c.RxBytes, TxPackets: c.TxPackets, TxBytes: c.TxBytes,
		Marked: c.Marked, Dropped: c.DroppedPackets(), Drops: byReason(c.Drops),
	}
	s.QueuePackets, s.QueueBytes = p.QueueLength(now)
	s.Gauges = pointGauges(plan.Queue.Mark, p.AppendGauges(now, nil))
	s.Trimmed, s.PauseIgnored = c.Trimmed, c.PausesIgnored
	if qos := f.Plan.Nodes[node].QoS; qos != nil {
		s.QueueLimit = qos.Buffer
		s.Classes = make([]status.Class, len(plan.Classes))
	}
	for i := range s.Classes {
		k := p.Class(now, i)
		s.Classes[i] = f.classStatus(node, &k)
		s.Classes[i].Gauges = pointGauges(plan.Classes[i].Mark, k.Gauges)
	}
	if iface := f.interfaces[node][index]; iface != nil {
		s.Edge = f.edgeStatus(now, iface)
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

func (f *Fabric) classStatus(node int, c *port.ClassCounters) status.Class {
	s := status.Class{
		Name: c.Name, Priority: c.Priority,
		QueuePackets: c.QueuePackets, QueueBytes: c.QueueBytes, QueueLimit: c.Limit, QueueMax: c.MaxQueue, QueueMean: c.MeanQueue,
		TxPackets: c.TxPackets, TxBytes: c.TxBytes, RxPackets: c.RxPackets, Marked: c.Marked, Trimmed: c.Trimmed, Dropped: c.Dropped,
		Paused: c.Got.Paused, PausedTime: c.Got.Time, PausedCount: c.Got.Pauses,
		PauseFramesRx: c.Got.PauseFrames, ResumeFramesRx: c.Got.ResumeFrames, PauseIgnored: c.Got.Ignored, Stormed: c.Got.Storms,
		Lossless: c.Ingress.Lossless, Pausing: c.Sent.Asking, PausingTime: c.Sent.Time, PausingCount: c.Sent.Pauses,
		PauseFramesTx: c.Sent.PauseFrames, ResumeFramesTx: c.Sent.ResumeFrames,
		IngressBytes: c.Ingress.Reserve + c.Ingress.Shared + c.Ingress.Headroom, IngressMax: c.Ingress.Peak,
	}
	if s.Lossless {
		s.Xoff, s.Headroom, s.HeadroomMax = c.Ingress.Threshold, c.Ingress.HeadroomSize, c.Ingress.HeadroomPeak
		s.NoHeadroom = c.Ingress.Refused
	}
	s.FormerPauses = status.FormerPauses{PauseRx: s.PauseFramesRx, ResumeRx: s.ResumeFramesRx, PauseTx: s.PauseFramesTx, ResumeTx: s.ResumeFramesTx}
	if x := c.Spent; x != nil {
		s.Paused = s.Paused || x.Waiting
		s.PausedTime += x.Time
		s.CreditSpent = &status.CreditSpent{Buffer: x.Buffer, Available: x.Available, Waits: x.Waits, Updates: x.Updates}
	}
	if x := c.Given; x != nil {
		s.CreditGiven = &status.CreditGiven{
			Buffer: x.Buffer, Held: x.Held, HeldMax: x.Peak, Updates: x.Updates,
			Lost: units.Bytes(x.Lost) * credit.Block, Surplus: units.Bytes(x.Surplus) * credit.Block,
		}
	}
	for i, t := range c.Sent.Causes {
		if t > 0 {
			s.PauseCauses = append(s.PauseCauses, status.PauseCause{Port: f.Plan.PortName(node, i), Time: t})
		}
	}
	return s
}

func linkStatus(l *links.Link, inFlight int) *status.Link {
	s, c := l.Settings(), l.Counters()
	match := ""
	if !s.DropMatch.IsEmpty() {
		match = s.DropMatch.String()
	}
	return &status.Link{
		Rate: s.Rate, Delay: s.Delay, MTU: int(s.MTU), State: links.State(s.Up), InFlight: inFlight, Delivered: c.Delivered,
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
func (f *Fabric) Accounts() status.Accounts {
	var a status.Accounts
	for _, iface := range f.Interfaces {
		a.Entered += iface.Entered
		a.Delivered += iface.Delivered
		if iface.HasEdge() {
			held, _ := iface.EdgeService().HeldPackets()
			a.Held += uint64(held)
			unwrapped, finished := iface.TunnelledPackets()
			a.Originated += unwrapped
			a.Consumed += finished
		}
	}
	for _, sw := range f.Switches {
		if sw != nil {
			a.Replicated += sw.ReplicatedPackets()
			a.Originated += sw.OriginatedPackets()
			a.Consumed += sw.ConsumedPackets()
			if unsent := sw.UnsentPackets(); unsent > 0 {
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
			a.Dropped += c.DroppedPackets()
			for fate, n := range c.Drops {
				if n > 0 {
					a.Drops = byReasonPlus(a.Drops, packet.Fate(fate), n)
				}
			}
			queued, _ := p.QueueLength(now)
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
