package limit

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// flowOf returns the flow of a packet, a new one if need be.
func (l *limiter) flowOf(now units.Time, p *packet.Packet) *flow {
	key := p.FlowKey(roce.Port)
	if f := l.flows[key]; f != nil && !l.isOld(now, f) {
		return f
	}
	l.removeOldFlows(now)
	// While packets wait in the shared queue, some of them may belong to this flow.
	if len(l.flows) < l.Config.Flows && (l.shared == nil || l.shared.count == 0) {
		f := l.newFlow(key)
		l.flows[key] = f
		l.idle.Push(&f.inIdle, f)
		f.since = now
		return f
	}
	if l.shared == nil {
		l.shared = l.newFlow(packet.FlowKey{Flow: -1})
	}
	l.tableFull++
	return l.shared
}

// isOld reports whether a flow has had no packet for so long that it can be removed.
func (l *limiter) isOld(now units.Time, f *flow) bool {
	return f.count == 0 && f != l.shared && now-f.since >= l.Age
}

// removeOldFlows removes old flows, and the oldest without packets if there is no room for another. It runs
// when a new flow comes, so that idle flows need no timer.
func (l *limiter) removeOldFlows(now units.Time) {
	for f := l.idle.First(); f != nil && (l.isOld(now, f) || len(l.flows) >= l.Config.Flows); f = l.idle.First() {
		if l.onFlowEnd != nil {
			l.onFlowEnd(now, l.flowState(now, f))
		}
		l.idle.Remove(&f.inIdle)
		l.order.Remove(&f.inOrder)
		l.agenda.Remove(&f.Task)
		delete(l.flows, f.key)
		l.forgotten++
	}
}

// newFlow makes a flow, with a new rate control.
func (l *limiter) newFlow(key packet.FlowKey) *flow {
	l.made++
	f := &flow{key: key, number: l.made, control: l.newControl(key)}
	l.agenda.EnrolTask(&f.Task, f)
	l.order.Push(&f.inOrder, f)
	return f
}

func (l *limiter) newControl(key packet.FlowKey) cc.Control {
	if l.Control.Settings == nil {
		return &fixed{rate: l.Rate}
	}
	header := units.Bytes(wire.IPv4Header)
	if key.From.Is6() {
		header = wire.IPv6Header
	}
	full := packet.OnWire(wire.EthernetHeader + l.env.MTU)
	flow := cc.Flow{Line: l.line, MTU: l.env.MTU - header, Packet: full, Rand: l.env.Rand}
	if l.traits.NeedsPath {
		flow.Path = l.env.Trip(key, full, packet.OnWire(0))
	}
	return l.Control.Settings.New(flow)
}
