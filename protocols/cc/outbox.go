package cc

import "github.com/weftlab/weft/packet"

// Outbox holds the probes that wait to leave a host in one class, in order: for each flow at
// most one that goes out and one that comes back. A newer probe replaces one that has not left,
// so nothing piles up while the class is paused. The zero Outbox is empty.
type Outbox struct {
	list    packet.List
	waiting map[probeOf]*packet.Packet
}

// probeOf is the flow and the direction of a probe.
type probeOf struct {
	flow    packet.FlowKey
	outward bool
}

// PutProbe adds a packet whose body is a Probe, or makes it replace one that waits. Packets that are
// no longer needed go to the pool.
func (o *Outbox) PutProbe(l *packet.Pool, p *packet.Packet) {
	probe := p.Message.Body.(Probe)
	k := probeOf{probe.FlowKey(), probe.IsOutward()}
	old := o.waiting[k]
	if old == nil {
		if o.waiting == nil {
			o.waiting = map[probeOf]*packet.Packet{}
		}
		o.waiting[k] = p
		o.list.Push(p)
		return
	}
	if probe.ReplacesOlder(old.Message.Body.(Probe)) {
		old.Message.Body.Set(probe)
	} else {
		delete(o.waiting, k)
		o.removeProbe(old)
		l.Free(old)
	}
	l.Free(p)
}

// removeProbe removes a packet from the list.
func (o *Outbox) removeProbe(p *packet.Packet) {
	var rest packet.List
	for k := o.list.Pop(); k != nil; k = o.list.Pop() {
		if k != p {
			rest.Push(k)
		}
	}
	o.list = rest
}

// FirstProbe returns the packet that leaves next without removing it, or nil if there is none.
func (o *Outbox) FirstProbe() *packet.Packet { return o.list.First() }

// Pop removes and returns the packet that leaves next, or nil if there is none.
func (o *Outbox) Pop() *packet.Packet {
	p := o.list.Pop()
	if p != nil {
		probe := p.Message.Body.(Probe)
		delete(o.waiting, probeOf{probe.FlowKey(), probe.IsOutward()})
	}
	return p
}

// Len returns the number of packets that wait.
func (o *Outbox) Len() int { return len(o.waiting) }
