package fabric

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// SetFlowSink sets where the records of pattern flows go. They come in the order in
// which flows end, which is the same for any number of shards. paths asks for the path
// of each flow, which costs time. Call SetFlowSink before the run. Whoever made the sink
// closes it, after EndFlows.
func (f *Fabric) SetFlowSink(s records.Sink, paths bool) {
	f.traffic.collector.SetSink(s)
	f.traffic.paths = paths
}

// FlowNames returns the names behind the numbers in records of flows.
func (f *Fabric) FlowNames() (n records.Names) {
	for i := range f.Plan.Traffic {
		n.Traffic = append(n.Traffic, f.Plan.Traffic[i].Name)
	}
	for i := range f.Plan.Nodes {
		n.Hosts = append(n.Hosts, f.Plan.Nodes[i].Name)
	}
	return n
}

// CollectFlows passes records of flows on to their sink. No shard may run meanwhile.
// Run does so itself; in the wall clock it must be called every now and then, since
// records wait in memory.
func (f *Fabric) CollectFlows() error {
	before := units.Never
	for _, s := range f.Shards {
		before = min(before, s.Engine.Now())
	}
	f.collectBefore(before)
	return f.flowError()
}

// EndFlows passes on the remaining records at the end of a run, including those of
// unfinished flows, as unfinished. No shard may run any more.
func (f *Fabric) EndFlows() error {
	var open []records.Record
	for _, h := range f.traffic.hosts {
		h.UnderWay(func(r *records.Record) { open = append(open, *r) })
	}
	f.traffic.collector.PutRemaining(f.Now(), open)
	return f.flowError()
}

// FlowCount returns the number of pattern flows that have ended and been collected.
func (f *Fabric) FlowCount() uint64 { return f.traffic.collector.Count() }

// Carriers returns the sum of the NICs' counters for pattern flows.
func (f *Fabric) Carriers() (sum carrier.NICCounters) {
	for _, n := range f.traffic.nics {
		c := n.Counters()
		sum.QueuePairs += c.QueuePairs
		sum.Connections += c.Connections
		sum.WaitedQP += c.WaitedQP
		sum.WaitedSlot += c.WaitedSlot
		sum.Dropped += c.Dropped
		sum.Retired += c.Retired
		sum.Returned += c.Returned
	}
	return sum
}

// collectBefore passes on the records of flows that ended before a time.
func (f *Fabric) collectBefore(before units.Time) { f.traffic.collector.CollectBefore(before) }

func (f *Fabric) flowError() error {
	if err := f.traffic.collector.Err(); err != nil {
		return fmt.Errorf("records of flows: %w", err)
	}
	return nil
}

// finishRecord fills in what a fabric knows about a flow: its ideal time and, if requested,
// its path.
func (f *Fabric) finishRecord(r *records.Record) {
	t := &f.Plan.Traffic[r.Traffic]
	p, err := f.pathOf(t, int(r.From), int(r.To))
	if err != nil {
		return
	}
	source, destination := p.Source, p.Destination
	from, to := f.interfaceAt(p.From), f.interfaceAt(p.To)
	if from.Node != int(r.From) { // READs: the data comes from the other end
		from, to, source, destination = to, from, destination, source
	}
	if w := f.cachedPath(from, to); w != nil {
		r.Ideal = f.idealFlow(t, w, from, r.Size)
	}
	if f.traffic.paths {
		r.Path = f.flowPath(r, t, from, source, destination)
	}
}

// flowPath returns the ports through which a flow's packets leave, at the host and at
// switches; "several" from where a switch may choose another for each packet. It is empty
// if the path is not known: without a source port, or where tables change with the state
// of links.
func (f *Fabric) flowPath(r *records.Record, t *plan.Traffic, from *hosts.Interface, a, b netip.Addr) string {
	if r.SrcPort == 0 || f.rerouting != nil {
		return ""
	}
	v6 := t.IPv6()
	path, ok := from.Network.PathTo(b)
	if !ok {
		return ""
	}
	p := packet.Packet{
		Dest: path.Dest, To: path.To, Proto: wire.ProtoUDP, SrcPort: r.SrcPort, DstPort: roce.Port, Version: 4, L3: wire.EthernetHeader,
	}
	if v6 {
		p.Version = 6
	}
	switch {
	case t.UDP != nil:
		p.DstPort = carrier.DatagramPort
	case t.NDP != nil:
		p.DstPort = ndp.Port
	case t.TCP != nil:
		p.Proto, p.DstPort = wire.ProtoTCP, uint16(carrier.SegmentPort+int(r.Traffic))
	default:
		p.DstPort = f.Device(from.Node, from.Index).HashPort()
	}
	p.Hash = packet.FlowHash(packet.FoldAddress(a), packet.FoldAddress(b), p.Proto, p.SrcPort, p.DstPort)
	if v6 && t.RDMA == nil {
		p.Label = max(uint32(p.Hash)&wire.MaxFlowLabel, 1)
	}
	var names []string
	node, out := from.Node, from.Index
	for range len(f.Plan.Nodes) {
		names = append(names, f.Plan.PortName(node, out))
		x := &f.Plan.Nodes[node].Ports[out]
		far := f.Plan.Links[x.Link].Ends[1-x.End]
		sw := f.Switches[far.Node]
		if sw == nil {
			break
		}
		next, fixed := sw.PathOf(f.ports[far.Node][far.Port], &p)
		if !fixed {
			names = append(names, "several")
			break
		}
		if next == nil {
			break
		}
		node, out = far.Node, next.Index
	}
	return strings.Join(names, " ")
}
