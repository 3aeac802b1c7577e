// Package carrier carries the flows of traffic patterns between modelled hosts, and
// records their outcome. It runs under either clock. Each host has a Host, which connects
// the agents of its patterns to the carriers of their flows: RDMA, on queue pairs that
// flows use one after the other, TCP, NDP or UDP. Hosts share no mutable state: each may
// belong to another shard.
//
// An agent (package pattern) decides which flows start; a Host has the single timer of all
// that happens on it, and belongs to the engine of the host. Hosts share only a Table,
// which does not change.
//
// RDMA (NIC): a flow takes a queue pair of a pool at both ends, which is reset and
// connected again, so that its rate control starts anew, and has a UDP source port of its
// own. Numbers of queue pairs are reserved (nicemu.Device.Reserve) and made of role,
// traffic, peer and slot, so that both hosts know them without an exchange. The PSNs of a
// slot continue from flow to flow: the receiver tells late copies and retransmissions from
// the next flow by their PSN, and needs no quarantine, which would take as many queue
// pairs as flows end in the longest time of a retry. A connection on which a flow has
// failed is not used again, because nobody knows what its receiver expects. A responder of
// READs does not learn that a flow is over; there the source port tells flows apart, and a
// response is repeated from what the request says.
//
// TCP (Streams): a flow is identified by its ID, which its packets carry in addition to
// the headers. The flows of a host that may send take turns, and give the port a segment
// only while less than two full ones wait there, as Linux's small queues do. So a segment
// is made when it can leave soon, and the RTT does not include the host's own queue. A
// paused port is checked again after at most four packets' time. A host that has no state
// for the flow of a segment answers as in TIME-WAIT or LISTEN (tcp.Answer, tcp.AnswerClosed), so
// nothing is kept for a completed flow.
//
// NDP (PulledStreams): all flows to a port, of whatever traffic, share one Pulls;
// whichever carrier of the host is active sends the PULLs that are due. For completed
// flows a host keeps only their numbers (ndp.Peer), to acknowledge late packets.
package carrier

import (
	"fmt"

	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// Carrier carries flows from a host, and receives those that come to it. It belongs to the
// host's engine, and reports their outcome to the Host (Host.RecordEnd, Host.RecordOpen,
// Host.FlowCompleted and Host.FlowArrived), but only from its DoWork, which it requests with
// Host.WakeAt.
type Carrier interface {
	// Start begins a flow at now, or lets it wait for the resources that it needs. r
	// describes the flow; it is copied.
	Start(now units.Time, r *records.Record)
	// DoWork does the work pending at now. Start may be called meanwhile.
	DoWork(now units.Time)
	// UnderWay calls f with the record so far of each flow that the host has started and
	// whose end has not been reported. The record is valid only during the call. UnderWay
	// changes nothing.
	UnderWay(f func(r *records.Record))
}

// Window says when flows are created and which of them count. The zero Window has no limits.
type Window struct {
	// WarmUp and End bound the measurement window: flows that are created in it count.
	WarmUp units.Time
	// End is also when agents stop: no flow is created after it. Earlier flows run on.
	// 0 means never.
	End units.Time
}

// isOver reports whether no flow is created any more at a time.
func (w Window) isOver(now units.Time) bool { return w.End > 0 && now > w.End }

// countsFlow reports whether a flow that is created at that time counts.
func (w Window) countsFlow(created units.Time) bool { return created >= w.WarmUp && !w.isOver(created) }

// Host is one host's part in all traffic.
type Host struct {
	Node int // index of the plan's nodes

	engine   *sim.Engine
	timer    sim.Timer
	log      *records.Log
	window   Window
	parties  []*party // by traffic; nil where it takes no part
	carriers []Carrier
	wake     units.Time // when a carrier wants to work
	count    uint64     // flows that were started here
	record   records.Record
}

// party is a host's part in one traffic.
type party struct {
	agent   pattern.Agent
	carrier Carrier
	start   func(pattern.Flow)
}

// NewHost makes a host without traffic. Log is that of its shard.
func NewHost(e *sim.Engine, node int, w Window, log *records.Log) *Host {
	h := &Host{Node: node, engine: e, log: log, window: w, wake: units.Never}
	h.timer = e.NewTimer(h)
	return h
}

// AddTraffic adds a traffic to a host, with its agent and the carrier of the flows that the
// agent starts. It is called before the run. Several traffics may share a carrier.
func (h *Host) AddTraffic(traffic int, a pattern.Agent, c Carrier) {
	for len(h.parties) <= traffic {
		h.parties = append(h.parties, nil)
	}
	p := &party{agent: a, carrier: c}
	p.start = func(f pattern.Flow) { h.startFlow(traffic, p, f) }
	h.parties[traffic] = p
	known := false
	for _, k := range h.carriers {
		known = known || k == c
	}
	if !known {
		h.carriers = append(h.carriers, c)
	}
	h.armTimer()
}

// PartyOf returns the agent of a traffic at the host, and what starts a flow for it.
func (h *Host) PartyOf(traffic int) (pattern.Agent, func(pattern.Flow)) {
	p := h.parties[traffic]
	return p.agent, p.start
}

// Fire does the work that is due.
func (h *Host) Fire(now units.Time) {
	h.wake = units.Never
	for _, c := range h.carriers {
		c.DoWork(now)
	}
	for _, p := range h.parties {
		if p == nil || h.window.isOver(now) {
			continue
		}
		for p.agent.NextFlow() <= now {
			p.agent.Fire(now, p.start)
		}
	}
	h.armTimer()
}

// WakeAt requests that carriers are called at a time, or earlier.
func (h *Host) WakeAt(at units.Time) {
	if at < h.wake {
		h.wake = at
		h.armTimer()
	}
}

func (h *Host) armTimer() {
	next := h.wake
	for _, p := range h.parties {
		if p == nil {
			continue
		}
		if due := p.agent.NextFlow(); !h.window.isOver(due) {
			next = min(next, due)
		}
	}
	if next == units.Never {
		h.timer.Disarm()
	} else {
		h.timer.Arm(next)
	}
}

// ID is where a host and the count of its flows are in the ID of a flow.
const idHost = 40

// startFlow begins a flow that an agent requests.
func (h *Host) startFlow(traffic int, p *party, f pattern.Flow) {
	now := h.engine.Now()
	if h.window.isOver(now) {
		return
	}
	if f.Size < 0 || f.At > now {
		panic(fmt.Sprintf("a flow of %d bytes, created at %v, is started at %v", int64(f.Size), f.At, now))
	}
	h.count++
	h.record = records.Record{
		ID: uint64(h.Node)<<idHost | h.count, Traffic: int32(traffic), From: int32(f.From), To: int32(f.To), Tag: f.Tag, Group: f.Group,
		Size: f.Size, Created: f.At, Started: units.Never, Arrived: units.Never, Counted: h.window.countsFlow(f.At),
	}
	p.carrier.Start(now, &h.record)
}

// flowOf returns the flow of a record.
func flowOf(r *records.Record) pattern.Flow {
	return pattern.Flow{Tag: r.Tag, From: int(r.From), To: int(r.To), Size: r.Size, At: r.Created, Group: r.Group}
}

// RecordEnd records that a flow of this host has ended, and tells the agent if it is done.
// key is as for records.Log.Ended.
func (h *Host) RecordEnd(now units.Time, r *records.Record, key uint64) {
	r.End = now
	h.log.RecordEnd(r, key)
	if r.State == records.Done {
		h.FlowCompleted(now, r)
	}
}

// RecordOpen records a flow whose end the receiver reports (records.Log.Opened).
func (h *Host) RecordOpen(r *records.Record) { h.log.RecordOpen(r) }

// FlowCompleted tells the agent that a flow is complete at its sender.
func (h *Host) FlowCompleted(now units.Time, r *records.Record) {
	p := h.parties[r.Traffic]
	p.agent.OnCompletion(now, flowOf(r), p.start)
}

// FlowArrived tells the agent that all data of a flow to this host has arrived, and records it
// with a key, if that is not 0 (records.Log.Arrived).
func (h *Host) FlowArrived(now units.Time, traffic int, f pattern.Flow, key uint64) {
	if key != 0 {
		h.log.RecordArrival(key, now)
	}
	if p := h.parties[traffic]; p != nil {
		p.agent.OnArrival(now, f, p.start)
	}
}

// UnderWay calls f with the record so far of each flow that was started here and has not
// ended. No engine runs meanwhile.
func (h *Host) UnderWay(f func(r *records.Record)) {
	for _, c := range h.carriers {
		c.UnderWay(f)
	}
}
