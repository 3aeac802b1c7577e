package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// transfer is a modelled transfer and its poster.
type transfer struct {
	*workload.TransferRecord
	poster *workload.Poster
}

// addTransfers sets up the modelled transfers between the NICs of their hosts.
func (f *Fabric) addTransfers() error {
	for i := range f.Plan.Transfers {
		if err := f.addTransfer(f.Plan.Transfers[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fabric) addTransfer(t workload.Transfer) error {
	path := f.topology.Path(plan.Pair{From: t.From, To: t.To, FromPort: t.FromPort.Port(), ToPort: t.ToPort.Port(), IPv6: t.IPv6})
	from, to := f.interfaceAt(path.From), f.interfaceAt(path.To)
	ideal := f.idealTime(&t, from, to)
	if ideal != nil && t.Count == 0 && t.Every == 0 && ideal(t.Size) == 0 {
		return fmt.Errorf("transfer %s: its messages would take no time, so that one instant would never end: give the link of %s a rate, or the transfer a count or every", t.Name, f.Plan.Nodes[t.From].Name)
	}
	r := workload.NewTransferRecord(t, f.Plan.Nodes[t.From].Name, f.Plan.Nodes[t.To].Name, ideal)
	r.WatchOutages(&f.Shards[0].links) // all shards know the same
	p, err := workload.NewPoster(t, f.side(from, path.Source), f.side(to, path.Destination), r)
	if err != nil {
		return err
	}
	f.transfers = append(f.transfers, transfer{r, p})
	return nil
}

func (f *Fabric) side(iface *hosts.Interface, a netip.Addr) workload.End {
	return workload.End{Engine: f.engineOf(iface.Node), Device: f.Device(iface.Node, iface.Index), Address: a}
}

// flowAddresses returns the addresses of a modelled flow.
func (f *Fabric) flowAddresses(flow int32) (from, to netip.Addr) {
	ends := &f.flowEnds[flow]
	return ends[0].address, ends[1].address
}

// idealTime returns the function from a message's size to the time that it takes
// alone on its path. With RC every node stores a packet before it sends it on, the
// slowest link sets the pace, and an acknowledgement or the response of a READ comes
// back. With UC and UD a message is complete when it has left the sender.
// It returns nil if there is no path.
func (f *Fabric) idealTime(t *workload.Transfer, from, to *hosts.Interface) workload.IdealTime {
	path := f.pathBetween(from, to)
	if path == nil {
		return nil
	}
	return func(size units.Bytes) units.Time { return idealOn(path, t, size) }
}

// idealOn returns the time that a message with a transfer's settings takes alone on a path.
func idealOn(p linkPath, t *workload.Transfer, size units.Bytes) units.Time {
	header := units.Bytes(wire.EthernetHeader + wire.IPv4Header + wire.UDPHeader)
	if t.IPv6 {
		header += wire.IPv6Header - wire.IPv4Header
	}
	frame := func(op roce.Opcode, payload units.Bytes) units.Bytes {
		return packet.OnWire(header + units.Bytes(t.Service.WithOperation(op).PacketLen(int(payload))))
	}
	// All packets but the first have the headers of a middle one.
	first, rest := frame(roce.WriteOnly, min(size, t.MTU)), units.Bytes(0)
	if t.Verb == workload.Send {
		first = frame(roce.SendOnly, min(size, t.MTU))
	}
	left := max(size-t.MTU, 0)
	if n := left / t.MTU; n > 0 {
		rest += n * frame(roce.SendMiddle, t.MTU)
	}
	if n := left % t.MTU; n > 0 {
		rest += frame(roce.SendMiddle, n)
	}
	if t.Service != roce.RC {
		return p[0].rate.TimeOf(first + rest)
	}
	return p.carries(first, rest) + p.carries(frame(roce.Ack, 0), 0)
}

// linkPath is the links of a path, in order.
type linkPath []hop

type hop struct {
	rate  units.Rate
	delay units.Time
}

// carries returns the time from the departure of the first bit of a packet to the
// arrival of the last bit of rest, which follows it.
func (p linkPath) carries(first, rest units.Bytes) (t units.Time) {
	var slowest units.Time
	for _, h := range p {
		t += h.delay + h.rate.TimeOf(first)
		slowest = max(slowest, h.rate.TimeOf(rest))
	}
	return t + slowest
}

// slowest returns the rate of the slowest link; 0 if none has a rate.
func (p linkPath) slowest() (slowest units.Rate) {
	for _, h := range p {
		if h.rate > 0 && (slowest == 0 || h.rate < slowest) {
			slowest = h.rate
		}
	}
	return slowest
}

// search is the working memory of pathBetween. It is kept for the next call: a lab
// with a transfer of each of a thousand hosts would leave 30 MB of garbage.
type search struct {
	steps []step // by node
	queue []int
}

// step is how a search reached a node.
type step struct {
	link, dir int32
	before    int32 // node
	seen      bool
}

// searches holds the unused ones; workers find paths during the run.
var searches = sync.Pool{New: func() any { return new(search) }}

// pathBetween returns a shortest path between two interfaces over links that are up
// at the start; nil if there is none.
func (f *Fabric) pathBetween(from, to *hosts.Interface) linkPath {
	s := searches.Get().(*search)
	defer searches.Put(s)
	steps := slices.Grow(s.steps[:0], len(f.Plan.Nodes))[:len(f.Plan.Nodes)]
	clear(steps)
	steps[from.Node].seen = true
	queue := append(s.queue[:0], from.Node)
	next := 0
	for next < len(queue) && queue[next] != to.Node {
		n := queue[next]
		next++
		for p := range f.Plan.Nodes[n].Ports {
			port := &f.Plan.Nodes[n].Ports[p]
			if port.Link < 0 || n == from.Node && p != from.Index || !f.Plan.Links[port.Link].Dir[port.End].Up {
				continue
			}
			far := f.Plan.Links[port.Link].Ends[1-port.End]
			isEnd := far.Node == to.Node && far.Port == to.Index
			if steps[far.Node].seen || f.Switches[far.Node] == nil && !isEnd {
				continue
			}
			steps[far.Node] = step{int32(port.Link), int32(port.End), int32(n), true}
			queue = append(queue, far.Node)
		}
	}
	s.steps, s.queue = steps, queue
	if next == len(queue) {
		return nil
	}
	var w linkPath
	for n := to.Node; n != from.Node; n = int(steps[n].before) {
		l := f.Plan.Links[steps[n].link].Dir[steps[n].dir]
		w = append(w, hop{l.Rate, l.Delay})
	}
	slices.Reverse(w)
	return w
}

// Transfers returns the records of all modelled transfers so far. No shard runs
// meanwhile.
func (f *Fabric) Transfers() []workload.TransferResult {
	out := make([]workload.TransferResult, len(f.transfers))
	now := f.Now()
	for i, t := range f.transfers {
		t.poster.CopyCounters()
		out[i] = t.Result(now)
	}
	return out
}

// Posters returns what posts the messages of the modelled transfers, in the order of the plan.
func (f *Fabric) Posters() []*workload.Poster {
	all := make([]*workload.Poster, len(f.transfers))
	for i, t := range f.transfers {
		all[i] = t.poster
	}
	return all
}

// Outages returns the times during which flows and transfers stood still because links
// were down. No shard may run meanwhile.
func (f *Fabric) Outages() (all []workload.Outage) {
	for _, r := range f.Records {
		all = append(all, r.Outages()...)
	}
	for _, t := range f.transfers {
		t.poster.CopyCounters()
		all = append(all, t.Outages()...)
	}
	return all
}
