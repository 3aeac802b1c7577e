package recording

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// FlowSeries says which flows are sampled, and how often: queue pairs, flows that edge
// services tell apart, and modelled flows over TCP and NDP.
type FlowSeries struct {
	// Flows are patterns as in lab files. A pattern that matches a host ("h1"), its NIC
	// ("h1:eth0") or a queue pair ("h1:eth0#17") selects queue pairs that send or receive. One
	// that matches a modelled transfer ("h1-h2") selects the sending queue pairs of the
	// transfer. Without patterns all sending queue pairs are selected. A queue pair has rows
	// from when it first sends (requests or READ responses), or receives, until it is
	// destroyed.
	//
	// For flows of edge services, a pattern matches the host, the interface, or the name of a
	// modelled flow. They have rows from their first packet until they are forgotten, at most
	// maxPassing of an interface at a time.
	//
	// For flows over TCP and NDP, a pattern matches the sending host, its interface or the
	// traffic. They have rows while their connection exists, at most maxPassing of an interface
	// and a traffic at a time.
	Flows  []string
	Every  units.Time
	Length units.Time // of the run; 0 if not known
	Wall   bool       // under the wall clock
}

// maxFlowPatterns bounds the patterns that each new queue pair is compared with.
const maxFlowPatterns = 100

// Check validates a series of flows of a plan before the run. The error names what
// to change.
func (s FlowSeries) Check(p *plan.Plan) error {
	if len(s.Flows) > maxFlowPatterns {
		return fmt.Errorf("%d patterns, more than %d: * stands for many flows, as in 'h*:eth0'", len(s.Flows), maxFlowPatterns)
	}
	if !slices.ContainsFunc(p.Nodes, hasFlows) && !slices.ContainsFunc(p.Traffic, goesByTCP) {
		return fmt.Errorf("no host has a NIC or an edge service, and no traffic uses TCP or NDP: write nic: roce, or edge: {limit: {rate: 100Mbps}}, for hosts in the lab file, or by: tcp, or by: ndp, for traffic")
	}
	for _, pattern := range s.Flows {
		if err := checkFlowPattern(p, pattern); err != nil {
			return err
		}
	}
	length := s.Length
	if length == 0 && !s.Wall {
		length = lengthOf(p)
	}
	flows := 0
	for i := range p.Transfers {
		t := &p.Transfers[i]
		if s.wants(p, t.From, "", t.Name) != notTaken {
			flows += t.QPs
		}
	}
	for i := range p.Flows {
		f := &p.Flows[i]
		if p.Nodes[f.From].Edge.Settings != nil && s.wantsEdge(p, f.From, "", f.Name) {
			flows++
		}
	}
	return series.CheckFlows(flows, s.Every, length, s.Wall)
}

// goesByTCP reports whether a traffic has flows over TCP or NDP.
func goesByTCP(t plan.Traffic) bool { return t.TCP != nil || t.NDP != nil }

// hasFlows reports whether a node may have queue pairs or flows of an edge service.
func hasFlows(n plan.Node) bool { return n.NIC != nil || n.Edge.Settings != nil }

// checkFlowPattern rejects a pattern that cannot match anything.
func checkFlowPattern(p *plan.Plan, pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is not a pattern: a [ needs its ]", pattern)
	}
	end, _, _ := strings.Cut(pattern, "#")
	var names []string
	for n := range p.Nodes {
		node := &p.Nodes[n]
		if !hasFlows(*node) && !slices.ContainsFunc(p.Traffic, func(t plan.Traffic) bool { return goesByTCP(t) && slices.Contains(t.Pattern.Hosts(), n) }) {
			continue
		}
		if matchesName(pattern, node.Name) {
			return nil
		}
		for i := range node.Ports {
			name := p.PortName(n, i)
			if matchesName(end, name) {
				return nil
			}
			names = append(names, name)
		}
	}
	for i := range p.Transfers {
		name := p.Transfers[i].Name
		if matchesName(pattern, name) {
			return nil
		}
		names = append(names, name)
	}
	for i := range p.Flows {
		if f := &p.Flows[i]; p.Nodes[f.From].Edge.Settings != nil {
			if matchesName(pattern, f.Name) {
				return nil
			}
			names = append(names, f.Name)
		}
	}
	for _, t := range p.Traffic {
		if goesByTCP(t) {
			if matchesName(pattern, t.Name) {
				return nil
			}
			names = append(names, t.Name)
		}
	}
	return fmt.Errorf("no flow can match %q: %s", pattern, suggest.Hint(pattern, "the interfaces, transfers, flows and TCP and NDP patterns are", names))
}

func matchesName(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// taken says when a queue pair has rows.
type taken uint8

const (
	notTaken taken = iota
	ifSends
	ifUsed // sends or receives
)

// wants returns when a queue pair of a node has rows, by its names: number is
// "h1:eth0#17", or "" if it is not known yet.
func (s *FlowSeries) wants(p *plan.Plan, node int, number, transfer string) taken {
	if len(s.Flows) == 0 {
		return ifSends
	}
	all := notTaken
	for _, pattern := range s.Flows {
		nic, _, _ := strings.Cut(number, "#")
		switch {
		case matchesName(pattern, p.Nodes[node].Name), number != "" && (matchesName(pattern, nic) || matchesName(pattern, number)):
			return ifUsed
		case transfer != "" && matchesName(pattern, transfer):
			all = ifSends
		}
	}
	return all
}

// RecordFlows starts a series of flows at time zero, as RecordQueues does for queues; s has
// been checked.
func RecordFlows(f *fabric.Fabric, s FlowSeries, w io.Writer) *Recording {
	all := sourcesOfFlows(f)
	gauges, columns := all.gaugeColumns()
	ring := 1 << 12
	if s.Wall {
		// Room for one instant of that many flows, or for a busy disk.
		ring = min(max(1<<16, 2*maxPassing*(len(all.edges)+len(all.streams))), 1<<18)
	}
	recorder := series.NewFlows(series.FlowOptions{Gauges: gauges, Wait: !s.Wall, Ring: ring})
	r := &Recording{recorder: recorder}
	transfers := map[*nicemu.QP]string{}
	for _, t := range f.Posters() {
		for _, q := range t.QPs() {
			transfers[q] = t.Name()
		}
	}
	return r.begin(f, s.Every, s.Wall, func(part fabric.Part) fabric.Sampler {
		p := &flows{fabric: f, series: &s, transfers: transfers, gauges: len(gauges)}
		p.follow(&all, &part, columns)
		if len(p.nics)+len(p.edges)+len(p.tcp) == 0 {
			return nil
		}
		p.FlowTap = recorder.NewTap()
		return p
	}, w)
}

// flowSources are what may have flows: NICs and edge services in the order of the plan, and
// hosts of flows over TCP or NDP.
type flowSources struct {
	nics    []nicSource
	edges   []*hosts.Interface
	streams []fabric.StreamHost
}

// nicSource is a NIC and its node.
type nicSource struct {
	device *nicemu.Device
	node   int
}

func sourcesOfFlows(f *fabric.Fabric) (all flowSources) {
	for _, iface := range f.Interfaces {
		if d := f.Device(iface.Node, iface.Index); d != nil {
			all.nics = append(all.nics, nicSource{d, iface.Node})
		}
		if iface.EdgeService() != nil {
			all.edges = append(all.edges, iface)
		}
	}
	all.streams = f.StreamHosts()
	return all
}

// gaugeColumns returns the gauges of the rate controls of all NICs, then edge services, then
// hosts with flows over TCP or NDP, each name and unit once. For each of these, in order,
// columns says which gauges it has.
func (a *flowSources) gaugeColumns() (all []series.Gauge, columns [][]int) {
	var lists [][]gauge.Gauge
	for _, n := range a.nics {
		settings := n.device.Settings()
		lists = append(lists, settings.FlowGauges())
	}
	for _, iface := range a.edges {
		lists = append(lists, iface.EdgeService().FlowGauges())
	}
	for _, h := range a.streams {
		var own []gauge.Gauge // NDP has none
		if h.Traffic.TCP != nil {
			own = cc.Methods.Kind(h.Traffic.TCP.Control.Name).Gauges
		}
		lists = append(lists, own)
	}
	return series.GaugeColumns(series.OfControl, lists)
}

// flows are the flows that one goroutine samples.
type flows struct {
	*series.FlowTap
	fabric    *fabric.Fabric
	series    *FlowSeries
	transfers map[*nicemu.QP]string // read-only
	nics      []*flowsOf
	edges     []*edgeFlows
	tcp       []*tcpFlows
	gauges    int // columns
	begun     int // how many queue pairs have had rows

	rows   []series.FlowSample // of one instant
	of     []*flow             // the flow of each row
	values []float64           // of gauges, of all rows
	own    []float64           // of one flow
	last   units.Time          // sample, with or without rows
}

// follow starts to follow the flows of a part. columns has the gauge columns of all sources,
// in order.
func (p *flows) follow(all *flowSources, part *fabric.Part, columns [][]int) {
	order := 0
	for _, n := range all.nics {
		if part.Has(n.node) {
			e := &flowsOf{flows: p, nic: n, order: int32(order), columns: columns[order], known: map[*nicemu.QP]*flow{}}
			n.device.MeasureRTT(e.keepLastRow)
			p.nics = append(p.nics, e)
		}
		order++
	}
	for _, iface := range all.edges {
		if part.Has(iface.Node) {
			p.edges = append(p.edges, followEdge(p, iface, int32(order), columns[order]))
		}
		order++
	}
	for i := range all.streams {
		h := &all.streams[i]
		if part.Has(h.Interface.Node) {
			if e := followTCP(p, h, int32(order), columns[order]); e != nil {
				p.tcp = append(p.tcp, e)
			}
		}
		order++
	}
}

// flowsOf are the flows of a NIC.
type flowsOf struct {
	*flows
	nic     nicSource
	order   int32
	columns []int // of the gauges of its rate control
	known   map[*nicemu.QP]*flow
	ended   []*flow // since the last sample, with their last rows
}

// count returns how many flows have had rows, and how many were left out.
func (p *flows) count() (n, leftOut int) {
	n = p.begun
	for _, e := range p.edges {
		n, leftOut = n+e.begun, leftOut+e.leftOut
	}
	for _, e := range p.tcp {
		n, leftOut = n+e.begun, leftOut+e.leftOut
	}
	return n, leftOut
}

// flow is the state of a queue pair, or of a flow of an edge service or over TCP or NDP.
type flow struct {
	series.Flow
	taken           taken
	begun           bool
	acked, received uint64     // at its last row
	resent          uint64     // likewise
	sent, dropped   uint64     // likewise, of a flow of an edge service
	at              units.Time // of its last row, or of the sample before its first
	row             series.FlowSample
}

// Sample implements fabric.Sampler.
func (p *flows) Sample(now units.Time, _ bool) {
	if now <= p.last {
		return
	}
	p.rows, p.of, p.values = p.rows[:0], p.of[:0], p.values[:0]
	for _, n := range p.nics {
		for _, x := range n.ended {
			x.row.At, x.row.Interval = now, now-x.at
			p.rows, p.of = append(p.rows, x.row), append(p.of, x)
		}
		n.nic.device.EachQP(func(q *nicemu.QP) {
			x := n.look(q)
			if row, ok := n.read(now, q, x); ok {
				p.rows, p.of = append(p.rows, row), append(p.of, x)
			}
		})
	}
	for _, e := range p.edges {
		e.sample(now)
	}
	for _, e := range p.tcp {
		e.sample(now)
	}
	if !p.PutSamples(now, p.rows) {
		return // the next rows cover this interval as well
	}
	for i := range p.rows {
		x, row := p.of[i], &p.rows[i]
		x.acked, x.received, x.at = x.acked+row.Acked, x.received+row.Received, now
		x.sent, x.dropped, x.resent = x.sent+row.Sent, x.dropped+row.Dropped, x.resent+row.Resent
	}
	for _, n := range p.nics {
		clear(n.ended)
		n.ended = n.ended[:0]
	}
	for _, e := range p.edges {
		e.release()
	}
	for _, e := range p.tcp {
		e.release()
	}
	p.last = now
}

// look returns the state of a queue pair, and creates it for a new one.
func (n *flowsOf) look(q *nicemu.QP) *flow {
	x := n.known[q]
	if x == nil {
		name := n.nic.device.Name()
		x = &flow{Flow: series.Flow{NIC: name, QPN: q.Number(), Transfer: n.transfers[q]}, at: n.last}
		x.taken = n.series.wants(n.fabric.Plan, n.nic.node, fmt.Sprintf("%s#%d", name, x.QPN), x.Transfer)
		n.known[q] = x
	}
	return x
}

// read returns a queue pair's row, if it has one.
func (n *flowsOf) read(now units.Time, q *nicemu.QP, x *flow) (series.FlowSample, bool) {
	if x.taken == notTaken {
		return series.FlowSample{}, false
	}
	var s nicemu.FlowStatus
	s, n.own = q.Flow(now, n.own[:0])
	if !x.begun {
		if !s.HasSent && (x.taken == ifSends || !s.HasHeard) {
			x.at = now
			return series.FlowSample{}, false
		}
		x.begun = true
		n.begun++
	}
	first := len(n.values)
	for range n.gauges {
		n.values = append(n.values, gauge.None)
	}
	gauges := n.values[first:]
	for i, v := range n.own {
		gauges[n.columns[i]] = v
	}
	return series.FlowSample{
		At: now, Interval: now - x.at, Order: n.order, Flow: x.Flow,
		FlowReading: series.FlowReading{
			Rate: cmp.Or(s.Rate, n.nic.device.Line()), Window: s.Window, InFlight: s.InFlight, RTT: s.RTT,
			Acked: s.Acked - x.acked, Received: s.Received - x.received, Resent: s.Resent - x.resent, Gauges: gauges,
		},
	}, true
}

// keepLastRow keeps the last row of a destroyed queue pair for the next sample.
func (n *flowsOf) keepLastRow(q *nicemu.QP) {
	x := n.look(q)
	delete(n.known, q)
	if n.IsClosed() {
		return
	}
	if row, ok := n.read(n.nic.device.Now(), q, x); ok {
		row.Gauges = slices.Clone(row.Gauges)
		x.row = row
		n.ended = append(n.ended, x)
	}
}
