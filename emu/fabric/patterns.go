package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// traffic is the state of the patterns of traffic of a fabric.
type traffic struct {
	hosts     []*carrier.Host // by rising node
	nics      []*carrier.NIC  // of hosts with flows over RDMA
	streams   []StreamHost    // hosts with flows over TCP or NDP, by traffic and then by node
	collector *records.Collector
	linkPaths map[[2]int]linkPath // between the first switches of two hosts
	paths     bool                // records include paths
}

// collectAt is how many events of flows may wait to be collected, apart from those of
// one window of time or batch of events.
const collectAt = 4096

// addTraffic sets up the agents and carriers of hosts.
func (f *Fabric) addTraffic() error {
	logs := make([]*records.Log, len(f.Shards))
	for i, s := range f.Shards {
		logs[i] = &s.flows
	}
	t := &f.traffic
	t.collector = records.NewCollector(logs, nil)
	t.collector.Finish = f.finish
	t.linkPaths = map[[2]int]linkPath{}
	if len(f.Plan.Traffic) == 0 {
		return nil
	}
	b := &trafficBuilder{Fabric: f, hosts: map[int]*carrier.Host{}, nics: map[*Station]*carrier.NIC{}, pulls: map[*Station]*carrier.Pulls{}}
	if err := b.findMembers(); err != nil {
		return err
	}
	for i := range f.Plan.Traffic {
		if err := b.add(i); err != nil {
			return fmt.Errorf("traffic %s: %w", f.Plan.Traffic[i].Name, err)
		}
	}
	return nil
}

// trafficBuilder is the working state of addTraffic.
type trafficBuilder struct {
	*Fabric
	hosts map[int]*carrier.Host       // by node
	ways  []ways                      // by traffic
	nics  map[*Station]*carrier.NIC   // of interfaces with flows over RDMA
	table *carrier.Table              // nil without RDMA
	pulls map[*Station]*carrier.Pulls // of stations with flows over NDP
}

// findMembers makes the hosts, in the order of nodes, and the carriers of those with
// flows over RDMA.
func (b *trafficBuilder) findMembers() (err error) {
	settings := map[int]carrier.RDMA{}
	var all []int
	for i, t := range b.Plan.Traffic {
		hosts := t.Pattern.Hosts()
		for _, h := range hosts {
			if h < 0 || h >= len(b.Plan.Nodes) || b.Plan.Nodes[h].Kind != plan.Host {
				return fmt.Errorf("traffic %s: node %d is not a host", t.Name, h)
			}
		}
		all = append(all, hosts...)
		if t.RDMA != nil {
			settings[i] = *t.RDMA
		}
		ways, err := b.findWays(&b.Plan.Traffic[i])
		if err != nil {
			return fmt.Errorf("traffic %s: %w", t.Name, err)
		}
		b.ways = append(b.ways, ways)
	}
	slices.Sort(all)
	for _, n := range slices.Compact(all) {
		shard := b.ShardOf(n)
		h := carrier.NewHost(b.engineOf(n), n, b.Plan.Measure.Window, &shard.flows)
		b.hosts[n] = h
		b.traffic.hosts = append(b.traffic.hosts, h)
	}
	if len(settings) == 0 {
		return nil
	}
	return b.addNICs(settings)
}

// ways are the interfaces and addresses that hosts' flows of a traffic use, by host, in the
// order of interfaces and addresses.
type ways map[int][]way

type way struct {
	station *Station
	address netip.Addr
}

// stations returns the interfaces of a host's ways.
func (w ways) stations(node int) (all []*Station) {
	for _, x := range w[node] {
		if len(all) == 0 || all[len(all)-1] != x.station {
			all = append(all, x.station)
		}
	}
	return all
}

// findWays finds the ways of a traffic's hosts. A host with one interface and one address
// needs no search.
func (b *trafficBuilder) findWays(t *plan.Traffic) (ways, error) {
	v6, found := t.IPv6(), ways{}
	several := map[int]bool{}
	for _, n := range t.Pattern.Hosts() {
		all := b.waysOf(n, v6)
		switch len(all) {
		case 0:
			return nil, fmt.Errorf("%s has no connected interface with an address of IPv%c", b.Plan.Nodes[n].Name, "46"[btoi(v6)])
		case 1:
			found[n] = all
		default:
			several[n] = true
		}
	}
	if len(several) == 0 {
		return found, nil
	}
	used := map[way]bool{}
	for from, to := range pattern.Pairs(t.Pattern) {
		if !several[from] && !several[to] {
			continue
		}
		path, err := b.pathOf(t, from, to)
		if err != nil {
			return nil, err
		}
		used[way{b.stationAt(path.From), path.Source}] = true
		used[way{b.stationAt(path.To), path.Destination}] = true
	}
	for n := range several {
		all := b.waysOf(n, v6)
		if found[n] = slices.DeleteFunc(slices.Clone(all), func(w way) bool { return !used[w] }); len(found[n]) == 0 {
			found[n] = all[:1] // it sends and gets nothing
		}
	}
	return found, nil
}

// waysOf returns the connected interfaces and addresses of a host.
func (f *Fabric) waysOf(node int, v6 bool) (all []way) {
	for i, s := range f.stations[node] {
		p := &f.Plan.Nodes[node].Ports[i]
		for _, a := range p.Addresses {
			if p.Link >= 0 && a.Addr().Is6() == v6 {
				all = append(all, way{s, a.Addr()})
			}
		}
	}
	return all
}

// pathOf returns the path of a traffic's flows between two hosts, from the one that starts
// them. With READs that is the one that gets the data.
func (f *Fabric) pathOf(t *plan.Traffic, from, to int) (plan.Path, error) {
	if t.RDMA != nil && t.RDMA.Verb == workload.Read {
		from, to = to, from
	}
	return f.topology.TryPath(plan.Pair{From: from, To: to, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: t.IPv6()})
}

// addNICs makes the carriers of hosts with flows over RDMA.
func (b *trafficBuilder) addNICs(settings map[int]carrier.RDMA) (err error) {
	used := map[*Station][2][]netip.Addr{} // by IP version
	for i := range settings {
		v6 := b.Plan.Traffic[i].IPv6()
		for _, all := range b.ways[i] {
			for _, w := range all {
				list := used[w.station]
				if !slices.Contains(list[btoi(v6)], w.address) {
					list[btoi(v6)] = append(list[btoi(v6)], w.address)
				}
				used[w.station] = list
			}
		}
	}
	var members []carrier.Member
	numbers := map[*Station][]int32{} // of members
	var stations []*Station
	for _, s := range b.Stations {
		list, ok := used[s]
		if !ok {
			continue
		}
		stations = append(stations, s)
		for v := range list {
			slices.SortFunc(list[v], func(x, y netip.Addr) int { return b.orderOf(s, x) - b.orderOf(s, y) })
		}
		for k := range max(len(list[0]), len(list[1])) {
			m := carrier.Member{Node: s.Node}
			if k < len(list[0]) {
				m.V4 = list[0][k]
			}
			if k < len(list[1]) {
				m.V6 = list[1][k]
			}
			numbers[s] = append(numbers[s], int32(len(members)))
			members = append(members, m)
		}
	}
	if b.table, err = carrier.NewTable(members, len(b.Plan.Traffic), settings); err != nil {
		return err
	}
	f := b.Fabric
	b.table.Ends = func(from, to int, v6 bool) (source, destination netip.Addr, ok bool) {
		p, err := f.topology.TryPath(plan.Pair{From: from, To: to, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: v6})
		return p.Source, p.Destination, err == nil
	}
	for _, s := range stations {
		if err := b.addCarrier(s, numbers[s]); err != nil {
			return err
		}
	}
	return nil
}

// orderOf returns the place of an address among those of a station.
func (f *Fabric) orderOf(s *Station, a netip.Addr) int {
	return slices.IndexFunc(f.Plan.Nodes[s.Node].Ports[s.Index].Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
}

// addCarrier makes the carrier of flows over RDMA through an interface, whose addresses are
// members of the table.
func (b *trafficBuilder) addCarrier(s *Station, members []int32) error {
	n, ok := s.nic.(*nic)
	if !ok {
		return fmt.Errorf("%s has no NIC: write nic: roce for %s in the lab file", b.Plan.PortName(s.Node, s.Index), b.Plan.Nodes[s.Node].Name)
	}
	if n.Line() == 0 {
		return fmt.Errorf("%s has RDMA flows over a link without a rate: give the link one", n.Name())
	}
	c, err := carrier.NewNIC(b.hosts[s.Node], b.table, n.Device, members...)
	if err != nil {
		return err
	}
	b.nics[s] = c
	b.traffic.nics = append(b.traffic.nics, c)
	return nil
}

// add makes the hosts of one traffic take part in it.
func (b *trafficBuilder) add(i int) error {
	t := &b.Plan.Traffic[i]
	if err := t.Check(); err != nil {
		return err
	}
	hosts := t.Pattern.Hosts()
	part := make(map[int]bool, len(hosts))
	for _, n := range hosts {
		part[n] = true
	}
	for _, n := range hosts {
		agent := t.Pattern.Agent(n)
		if agent == nil {
			agent = silent{}
		}
		var carriers []carrier.Carrier
		stations := b.ways[i].stations(n)
		for _, s := range stations {
			c, err := b.carrierAt(i, s, part)
			if err != nil {
				return fmt.Errorf("%s: %w", b.Plan.PortName(n, s.Index), err)
			}
			carriers = append(carriers, c)
		}
		b.hosts[n].AddTraffic(i, agent, b.joinCarriers(t, n, stations, carriers))
	}
	return nil
}

// join returns the carrier of a host's flows of a traffic, which those of its interfaces
// make up.
func (b *trafficBuilder) joinCarriers(t *plan.Traffic, node int, stations []*Station, carriers []carrier.Carrier) carrier.Carrier {
	if len(carriers) == 1 {
		return carriers[0]
	}
	f := b.Fabric
	return carrier.NewSplit(func(r *records.Record) int {
		p, err := f.pathOf(t, int(r.From), int(r.To))
		if err != nil {
			return 0
		}
		return max(slices.Index(stations, f.stationAt(p.From)), 0)
	}, carriers...)
}

// carrierAt makes the carrier of a traffic's flows through an interface.
func (b *trafficBuilder) carrierAt(i int, s *Station, part map[int]bool) (carrier.Carrier, error) {
	t, h := &b.Plan.Traffic[i], b.hosts[s.Node]
	switch {
	case t.RDMA != nil:
		return b.nics[s], nil
	case t.UDP != nil:
		return b.datagrams(i, h, s, part), nil
	case s.Port.Link().Rate() == 0:
		return nil, fmt.Errorf("%s flows over a link without a rate: give the link one", []string{"TCP", "NDP"}[btoi(t.NDP != nil)])
	}
	return b.streams(i, h, s, part)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// silent is the agent of a host that only receives.
type silent struct{}

func (silent) NextFlow() units.Time                                      { return units.Never }
func (silent) Fire(units.Time, func(pattern.Flow))                       {}
func (silent) OnArrival(units.Time, pattern.Flow, func(pattern.Flow))    {}
func (silent) OnCompletion(units.Time, pattern.Flow, func(pattern.Flow)) {}

// outlet returns the outlet through which the packets of a traffic leave a station.
func (b *trafficBuilder) outlet(s *Station, v6 bool, part map[int]bool) carrier.Outlet {
	f := b.Fabric
	return carrier.Outlet{
		Pool: s.pool, MAC: s.MAC, Line: s.Port.Link().Rate(), Send: s.OriginatePacket,
		Ends: func(peer int) (from, to netip.Addr, failure string) {
			if !part[peer] {
				return from, to, "the destination host is not part of the traffic"
			}
			p, err := f.topology.TryPath(plan.Pair{From: s.Node, To: peer, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: v6})
			if err != nil {
				return from, to, err.Error()
			}
			return p.Source, p.Destination, ""
		},
		PathTo: func(to netip.Addr) (nicemu.Path, bool) { return f.pathTo(s, to) },
	}
}

// registerReceiver registers receive for the packets of a protocol at a station, ahead of other
// traffics and the NIC. receive reports whether a packet belongs to its traffic.
func registerReceiver(s *Station, m *packet.MessageProtocol, receive func(now units.Time, p *packet.Packet) bool) {
	before := s.takers[m]
	s.SetReceiver(m, func(now units.Time, p *packet.Packet) {
		if !receive(now, p) && before != nil {
			before(now, p) // of another traffic
			return
		}
		s.pool.Free(p)
	})
}

// datagrams makes the carrier of a traffic's flows over UDP at a station.
func (b *trafficBuilder) datagrams(i int, h *carrier.Host, s *Station, part map[int]bool) carrier.Carrier {
	c := *b.Plan.Traffic[i].UDP
	d := carrier.NewDatagrams(h, i, c, b.outlet(s, c.IPv6, part))
	registerReceiver(s, carrier.DatagramProtocol(), d.ReceivePacket)
	return d
}

// streams makes the carrier of a traffic's flows over TCP or NDP at a station.
func (b *trafficBuilder) streams(i int, h *carrier.Host, s *Station, part map[int]bool) (carrier.Carrier, error) {
	t := &b.Plan.Traffic[i]
	kind := []string{"tcp ", "ndp "}[btoi(t.NDP != nil)]
	out := carrier.StreamOutlet{
		Outlet: b.outlet(s, t.IPv6(), part),
		Rate:   func() units.Rate { return s.Port.Link().Rate() },
		Queued: func(now units.Time) units.Bytes {
			_, bytes := s.Port.QueueLength(now) // an edge service keeps flows apart
			return bytes
		},
		Waiting: func(now units.Time, dscp uint8) int {
			prio := uint8(0)
			if s.chassis != nil {
				prio = s.chassis.Map.DSCP[dscp]
			}
			return s.Port.WaitingPackets(now, prio)
		},
		Trip:    s.tripTo,
		Offload: b.Plan.Nodes[s.Node].Offload == plan.OffloadOn,
		Rand:    sim.NewRand(b.Plan.Seed, kind+t.Name+" "+b.Plan.PortName(s.Node, s.Index)),
	}
	if t.NDP != nil {
		pulls := b.pulls[s]
		if pulls == nil {
			pulls = carrier.NewPulls(t.NDP, out.Rate)
			b.pulls[s] = pulls
		}
		d := carrier.NewPulledStreams(h, i, *t.NDP, out, pulls)
		b.traffic.streams = append(b.traffic.streams, StreamHost{StreamCarrier: d, Station: s, Traffic: t, index: i})
		registerReceiver(s, carrier.NDPProtocol(), d.ReceivePacket)
		return d, pulls.CheckShared(t.NDP)
	}
	d := carrier.NewStreams(h, i, *t.TCP, out)
	b.traffic.streams = append(b.traffic.streams, StreamHost{StreamCarrier: d, Station: s, Traffic: t, index: i})
	registerReceiver(s, carrier.SegmentProtocol(), d.ReceivePacket)
	if m := cc.Methods.Kind(t.TCP.Control.Name).Feedback; m != nil {
		registerReceiver(s, m, d.ReceiveMessage)
	}
	return d, nil
}

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
	f.collect(before)
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

// collect passes on the records of flows that ended before a time.
func (f *Fabric) collect(before units.Time) { f.traffic.collector.CollectBefore(before) }

func (f *Fabric) flowError() error {
	if err := f.traffic.collector.Err(); err != nil {
		return fmt.Errorf("records of flows: %w", err)
	}
	return nil
}

// finish fills in what a fabric knows about a flow: its ideal time and, if requested,
// its path.
func (f *Fabric) finish(r *records.Record) {
	t := &f.Plan.Traffic[r.Traffic]
	p, err := f.pathOf(t, int(r.From), int(r.To))
	if err != nil {
		return
	}
	source, destination := p.Source, p.Destination
	from, to := f.stationAt(p.From), f.stationAt(p.To)
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

// cachedPath is pathBetween, computed once for all hosts of two switches.
func (f *Fabric) cachedPath(from, to *Station) linkPath {
	a, b := f.switchOf(from), f.switchOf(to)
	if a < 0 || b < 0 {
		return f.pathBetween(from, to)
	}
	w, known := f.traffic.linkPaths[[2]int{a, b}]
	if !known {
		w = f.pathBetween(from, to)
		f.traffic.linkPaths[[2]int{a, b}] = w
	}
	if w == nil {
		return nil
	}
	x, y := &f.Plan.Nodes[from.Node].Ports[from.Index], &f.Plan.Nodes[to.Node].Ports[to.Index]
	out, in := f.Plan.Links[x.Link].Dir[x.End], f.Plan.Links[y.Link].Dir[1-y.End]
	if !out.Up || !in.Up {
		return nil
	}
	w[0], w[len(w)-1] = hop{out.Rate, out.Delay}, hop{in.Rate, in.Delay}
	return w
}

// switchOf returns the switch that a station is connected to; -1 if there is none.
func (f *Fabric) switchOf(s *Station) int {
	p := &f.Plan.Nodes[s.Node].Ports[s.Index]
	if far := f.Plan.Links[p.Link].Ends[1-p.End]; f.Switches[far.Node] != nil {
		return far.Node
	}
	return -1
}

// idealFlow returns the time that a flow takes alone on its path.
func (f *Fabric) idealFlow(t *plan.Traffic, w linkPath, from *Station, size units.Bytes) units.Time {
	if c := t.RDMA; c != nil {
		mtu := c.MTU
		if mtu == 0 {
			mtu = f.Device(from.Node, from.Index).Settings().MTU
		}
		return idealOn(w, &workload.Transfer{Verb: c.Verb, Service: roce.RC, MTU: units.Bytes(mtu.Bytes()), IPv6: c.IPv6}, size)
	}
	if t.TCP != nil {
		return idealStream(w, t.TCP, size)
	}
	if t.NDP != nil {
		return idealPulled(w, t.NDP, size)
	}
	c := t.UDP
	header := units.Bytes(wire.EthernetHeader + wire.IPv4Header + wire.UDPHeader)
	if c.IPv6 {
		header += wire.IPv6Header - wire.IPv4Header
	}
	// The last packet holds the rest, and may be short: if it waits behind the one
	// before, that one sets the pace.
	packets := max(1, (size+c.Size-1)/c.Size)
	full, last := packet.OnWire(header+c.Size), packet.OnWire(header+size-(packets-1)*c.Size)
	rate := c.Rate
	if rate == 0 {
		rate = w[0].rate
	}
	if packets == 1 {
		return w.carries(last, 0)
	}
	return max(w.carries(full, (packets-2)*full+last), rate.TimeOf((packets-1)*full)+w.carries(last, 0))
}

// idealStream returns the time that a flow over TCP takes alone on its path: the
// handshake, its packets as fast as the slowest link carries them, and the
// acknowledgement of the last.
func idealStream(w linkPath, c *carrier.TCP, size units.Bytes) units.Time {
	head := wire.EthernetHeader + c.MTU - c.FullPayload()
	syn := packet.OnWire(head + 8) // its options are longer than those of data
	full := max(1, (size+c.FullPayload()-1)/c.FullPayload())
	first, last := packet.OnWire(head+min(size, c.FullPayload())), units.Bytes(0)
	if full > 1 {
		last = (full-2)*packet.OnWire(head+c.FullPayload()) + packet.OnWire(head+size-(full-1)*c.FullPayload())
	}
	return 2*w.carries(syn, 0) + w.carries(first, last) + w.carries(packet.OnWire(head), 0)
}

// idealPulled returns the time that a flow over NDP takes alone on its path: its packets as
// fast as the slowest link carries them, and the acknowledgement of the last.
func idealPulled(w linkPath, c *carrier.NDP, size units.Bytes) units.Time {
	head := wire.EthernetHeader + c.HeadersLen()
	packets := max(1, (size+c.FullPayload()-1)/c.FullPayload())
	first, rest := packet.OnWire(head+min(size, c.FullPayload())), units.Bytes(0)
	if packets > 1 {
		rest = (packets-2)*packet.OnWire(head+c.FullPayload()) + packet.OnWire(head+size-(packets-1)*c.FullPayload())
	}
	return w.carries(first, rest) + w.carries(packet.OnWire(head), 0)
}

// flowPath returns the ports through which a flow's packets leave, at the host and at
// switches; "several" from where a switch may choose another for each packet. It is empty
// if the path is not known: without a source port, or where tables change with the state
// of links.
func (f *Fabric) flowPath(r *records.Record, t *plan.Traffic, from *Station, a, b netip.Addr) string {
	if r.SrcPort == 0 || f.rerouting != nil {
		return ""
	}
	v6 := t.IPv6()
	path, ok := f.pathTo(from, b)
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
