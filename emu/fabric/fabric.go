package fabric

import (
	"fmt"
	"net/netip"
	"runtime"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/parallel"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/routing"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/mactable"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire"
)

// Fabric is a running network. Each node belongs to one logical process, and each process to
// one shard. Except where noted, the state that a method touches belongs to the goroutines that
// run the shards' engines: call it from them, or while none of them runs.
type Fabric struct {
	Plan   *plan.Plan
	Shards []*Shard

	Interfaces []*hosts.Interface // by packet.Endpoint
	Switches   []*switches.Switch // by node; nil for hosts
	Links      [][2]*links.Link   // by link and direction, as in the plan
	Records    []*workload.Record // by flow

	processOf  []*parallel.Process // by node
	clocks     []*nodeclock.Clock  // by node; nil for an exact one
	workers    *parallel.Workers
	ports      [][]*port.Port       // by node and port
	interfaces [][]*hosts.Interface // by node and port; nil for switches
	lookahead  units.Time           // between shards
	topology   *routing.Topology
	flowEnds   [][2]flowEnd
	nics       []attachedNIC // in the order of nodes and ports
	added      addressBook
	transfers  []transfer // by transfer of the plan
	watches    map[*port.Port]*watch
	deadlocks  []status.Deadlock
	guard      guard
	rerouting  []*rerouting // by shard; nil when tables do not change
	samplings  []*Sampling  // of a run in virtual time
	traffic    traffic      // of patterns

	// LinkChanged is called when the settings of a link's direction have
	// changed, so that a real host's shaper can follow. May be nil. The shard
	// that the direction leaves from calls it.
	LinkChanged func(link, direction int)
	// Failed is called for an event that could not be carried out. May be nil.
	Failed func(error)
}

// New builds the fabric of a plan at time zero with one engine. It panics if
// NewParallel would fail.
func New(p *plan.Plan) *Fabric {
	f, err := NewSharded(p, 1)
	if err != nil {
		panic(err)
	}
	return f
}

// NewParallel builds the fabric of a plan for virtual time, run by at most workers threads;
// 0 means as many as suit the lab and the cores that the process may use. Each node is a
// logical process, except in a small lab, which has one engine. Results depend on neither.
// It fails if a NIC has no room for its transfers of the plan.
func NewParallel(p *plan.Plan, workers int) (*Fabric, error) {
	if workers < 0 || workers > MaxWorkers {
		return nil, fmt.Errorf("%d workers: must be 1 to %d", workers, MaxWorkers)
	}
	ports := portsOf(p)
	if ports < fewPorts {
		return NewSharded(p, 1)
	}
	if workers == 0 {
		workers = min(runtime.GOMAXPROCS(0), ports/fewPorts, MaxWorkers)
	}
	return NewWithWorkers(p, workers)
}

// NewWithWorkers is NewParallel for exactly that many workers, at least one, and without its
// exception for small labs, for which it is slower. Tests run small labs with it.
func NewWithWorkers(p *plan.Plan, workers int) (*Fabric, error) {
	number, shardOf, n := parallel.Processes(p, workers)
	if len(shardOf) == 1 {
		return NewSharded(p, 1)
	}
	made, processes := parallel.NewProcesses(n, shardOf, parallel.Colours(p, number))
	shards := make([]*Shard, n)
	for i, s := range made {
		shards[i] = newShard(s)
	}
	processOf := make([]*parallel.Process, len(p.Nodes))
	for node, i := range number {
		processOf[node] = processes[i]
	}
	return build(p, shards, processOf)
}

// NewSharded builds the fabric of a plan in n shards, each with one engine. Several
// shards are for the wall clock. It fails if the plan cannot be cut into that many
// parts, and in the cases in which NewParallel fails.
func NewSharded(p *plan.Plan, n int) (*Fabric, error) {
	shardOf, err := parallel.Partition(p, n)
	if err != nil {
		return nil, err
	}
	shards := newShards(n)
	processOf := make([]*parallel.Process, len(p.Nodes))
	for node, s := range shardOf {
		processOf[node] = shards[s].Processes[0]
	}
	return build(p, shards, processOf)
}

func build(p *plan.Plan, shards []*Shard, processOf []*parallel.Process) (*Fabric, error) {
	f := &Fabric{
		Plan: p, Shards: shards, processOf: processOf, lookahead: units.Never,
		Switches: make([]*switches.Switch, len(p.Nodes)), ports: make([][]*port.Port, len(p.Nodes)),
		interfaces: make([][]*hosts.Interface, len(p.Nodes)), topology: routing.NewTopology(p), watches: map[*port.Port]*watch{},
	}
	for _, s := range shards {
		s.Pool.Render = (&renderer{flows: &encoder{fabric: f}}).render
		s.modelled = func(now units.Time, p *packet.Packet) {
			f.Records[p.Flow].ReceivePacket(now, p)
			s.Pool.Free(p)
		}
	}
	f.workers = f.newWorkers()
	for n := range p.Nodes {
		f.addNode(n)
	}
	for l := range p.Links {
		f.addLink(l)
	}
	f.addPrefetching()
	for _, s := range f.Shards {
		s.down = make([]uint8, len(p.Links))
		for l := range p.Links {
			for d, settings := range p.Links[l].Dir {
				if !settings.Up {
					s.down[l] |= 1 << d
				}
			}
		}
	}
	for n := range p.Nodes {
		f.addClasses(n)
	}
	if p.Telemetry() {
		f.addStamps()
	}
	for _, iface := range f.Interfaces {
		f.addEdge(iface)
		if err := f.addNIC(iface); err != nil {
			return nil, err
		}
	}
	f.guard.pauses = f.findPauses()
	f.addRerouting()
	if f.rerouting == nil {
		f.setTables(nil, nil)
	} else {
		f.setTables(nil, f.rerouting[0].links.Usable)
	}
	f.addEvents()
	f.addQueueEvents()
	for i := range p.Flows {
		f.addFlow(i)
	}
	if err := f.addTransfers(); err != nil {
		return nil, err
	}
	return f, f.addTraffic()
}

func (f *Fabric) addNode(n int) {
	node, engine, pool := &f.Plan.Nodes[n], f.engineOf(n), f.ShardOf(n).Pool
	f.ports[n] = make([]*port.Port, len(node.Ports))
	f.clocks = append(f.clocks, f.clockOf(n, node.Name))
	f.interfaces[n] = make([]*hosts.Interface, len(node.Ports))
	var sw *switches.Switch
	if node.Kind == plan.Switch {
		sw = switches.New(node.Name, node.ECMPSeed, pool)
		sw.SetForwarding(node.Forwarding.Settings, sim.NewRand(f.Plan.Seed, "forwarding "+node.Name))
		l := switches.Learning{Stations: f.topology.Stations(n)}
		if node.Learning != nil {
			l.Table = mactable.New(*node.Learning)
		}
		sw.SetLearning(l)
		f.Switches[n] = sw
	}
	for i := range node.Ports {
		var owner port.Owner = sw
		if sw == nil {
			owner = f.addInterface(n, i)
		}
		name := f.Plan.PortName(n, i)
		q := node.Ports[i].Queue
		p := port.New(engine, pool, name, i, owner, q.Limit)
		p.SetClock(f.clockOf(n, name))
		if sw != nil {
			sw.Ports = append(sw.Ports, p)
		}
		if node.QoS == nil {
			p.SetPoint(engine, func(wake func(units.Time)) congestion.Point { return newPoint(q.Mark, f.pointEnv(n, i, "", wake)) })
		}
		f.ports[n][i] = p
		if iface, ok := owner.(*hosts.Interface); ok {
			iface.Port = p
		}
	}
}

// clockOf returns the clock of a node, with the jitter of one of its ports; nil if it is exact.
func (f *Fabric) clockOf(node int, port string) *nodeclock.Clock {
	return nodeclock.New(f.Plan.Nodes[node].Clock, f.Plan.Seed, port)
}

// addStamps makes the ports of switches write in-band telemetry.
func (f *Fabric) addStamps() {
	for n := range f.Plan.Nodes {
		if f.Switches[n] == nil {
			continue
		}
		for _, p := range f.ports[n] {
			p.EnableTelemetry(uint16(sim.HashName(p.Name)))
		}
	}
}

func (f *Fabric) addInterface(n, i int) *hosts.Interface {
	p := &f.Plan.Nodes[n].Ports[i]
	addresses := make([]netip.Addr, len(p.Addresses))
	for k, a := range p.Addresses {
		addresses[k] = a.Addr()
	}
	shard := f.ShardOf(n)
	iface := hosts.New(hosts.Env{
		ID: packet.Endpoint(len(f.Interfaces)), MAC: wire.ReadMAC(p.MAC[:]), Pool: shard.Pool,
		Modelled:  shard.modelled,
		Directory: f.topology.Directory, Network: &hostNetwork{fabric: f, end: plan.End{Node: n, Port: i}},
		Engine: f.engineOf(n), Clock: f.clocks[n],
		Node: n, Index: i, Name: f.Plan.PortName(n, i), Addresses: addresses, Routed: f.topology.Routed(),
	})
	f.Interfaces = append(f.Interfaces, iface)
	f.interfaces[n][i] = iface
	return iface
}

// cutThroughHead is what a cut-through switch waits for before it sends a
// packet on: preamble and start delimiter, and the 64 bytes that contain the
// headers it needs.
const cutThroughHead = 8 + 64

func (f *Fabric) addLink(l int) {
	link := &f.Plan.Links[l]
	var dir [2]*links.Link
	for d, end := range link.Ends {
		far := link.Ends[1-d]
		from := f.ports[end.Node][end.Port]
		near, away := f.processOf[end.Node], f.processOf[far.Node]
		arrivals := away.End()
		arrivals.Salt = sim.NewSalt(f.Plan.Seed, "arrivals "+from.Name)
		switch delay := f.Plan.ShortestDelay(l, d); {
		case near.Shard != away.Shard:
			f.lookahead = min(f.lookahead, delay)
		case near != away:
			near.Shard.Lookahead = min(near.Shard.Lookahead, delay)
		}
		dir[d] = from.MakeLink(f.ports[far.Node][far.Port], near.End(), arrivals, f.ShardOf(end.Node).mailbox(f.ShardOf(far.Node)), sim.NewRand(f.Plan.Seed, "link "+from.Name), link.Dir[d])
		if qos := f.Plan.Nodes[far.Node].QoS; qos != nil && qos.CutThrough {
			dir[d].CutThrough(cutThroughHead)
		}
		switch node := &f.Plan.Nodes[far.Node]; {
		case node.NIC != nil:
			dir[d].SetReadPart(packet.Received)
		case node.Kind != plan.Switch:
			dir[d].SetReadPart(packet.Delivered)
		}
		near.Join(dir[d], away)
		from.ConnectLink(dir[d])
	}
	f.Links = append(f.Links, dir)
}

// cached is how many ports fit a core's second-level cache, of 1 or 2 MB, beside the packets
// that pass them.
const cached = 1024

// addPrefetching makes processes prefetch their ports, if there are too many of them to stay
// in the cache.
func (f *Fabric) addPrefetching() {
	if !f.Shards[0].IsParallel() || portsOf(f.Plan) <= cached {
		return
	}
	for p, ports := range f.portsByProcess() {
		p.Parts, p.Prefetch = len(ports), func() {
			for _, port := range ports {
				port.PrefetchAll()
			}
		}
	}
}

// portsByProcess returns the ports of the nodes of each process.
func (f *Fabric) portsByProcess() map[*parallel.Process][]*port.Port {
	of := map[*parallel.Process][]*port.Port{}
	for n, ports := range f.ports {
		of[f.processOf[n]] = append(of[f.processOf[n]], ports...)
	}
	return of
}

// Port returns the port of a node, by their indices in the plan.
func (f *Fabric) Port(node, index int) *port.Port { return f.ports[node][index] }

// Interface returns the interface of a host's port; nil for a switch's.
func (f *Fabric) Interface(node, index int) *hosts.Interface { return f.interfaces[node][index] }

// Endpoints returns the port of each packet.Endpoint: the ports of hosts, then
// the ports of routers.
func (f *Fabric) Endpoints() []plan.End { return f.topology.Endpoints }

// Neighbours returns the next hops of an interface's packets on its link.
func (f *Fabric) Neighbours(iface *hosts.Interface) routing.Neighbours {
	return f.topology.Neighbours(endOf(iface))
}

// Routes returns the routes of a router to all subnets and all its static
// routes, ordered by address.
func (f *Fabric) Routes(node int) []routing.Route {
	sw := f.Switches[node]
	return f.topology.Routes(node, routing.Table{Node: node, Forwarding: sw.Table(), Routing: sw.Routing()})
}

// Now returns the emulated time that the fabric has reached.
func (f *Fabric) Now() (now units.Time) {
	for _, s := range f.Shards {
		now = max(now, s.Now())
	}
	return now
}

// nowAt returns the emulated time that a node has reached.
func (f *Fabric) nowAt(node int) units.Time { return f.engineOf(node).Now() }

// engineOf returns the engine of a node.
func (f *Fabric) engineOf(node int) *sim.Engine { return f.processOf[node].Engine }

// ShardOf returns the shard that a node belongs to.
func (f *Fabric) ShardOf(node int) *Shard { return f.Shards[f.processOf[node].Shard.Number] }

// Exchange hands over everything between processes and shards. None of them may
// run meanwhile.
func (f *Fabric) Exchange() {
	for _, s := range f.Shards {
		s.Post(func(int, units.Time) {})
	}
	for _, s := range f.Shards {
		s.Collect()
		s.Rest()
	}
}

// Events counts the events that the engines have handled. Unlike results, the
// count depends on the number of workers and on who is watching.
func (f *Fabric) Events() (n uint64) {
	for _, s := range f.Shards {
		n += s.Fired()
	}
	return n
}

// Lookahead returns the least time that a packet takes from one shard to
// another; units.Never if none can.
func (f *Fabric) Lookahead() units.Time { return f.lookahead }

// Set changes one or both directions of a link.
func (f *Fabric) Set(link int, dir [2]bool, patch change.LinkPatch) error {
	var next [2]links.Settings
	for d := range 2 {
		if !dir[d] {
			continue
		}
		s, err := patch.Apply(f.Links[link][d].Settings())
		if err != nil {
			return err
		}
		if f.Links[link][d].CrossesEngines() && s.Delay < f.lookaheadOf(link) {
			return fmt.Errorf("delay %v: this link joins two workers, which needs a delay of at least %v (start the lab with --workers 1)", s.Delay, f.lookaheadOf(link))
		}
		if (s.Reorder > 0 || s.JitterReorder) && f.hasCredits(link) {
			return fmt.Errorf("reorder and jitter-reorder: classes of this link have credits, which need packets in order")
		}
		if s.MTU != f.Links[link][d].Settings().MTU {
			for _, end := range f.Plan.Links[link].Ends {
				if n := &f.Plan.Nodes[end.Node]; n.Encapsulates() {
					return fmt.Errorf("mtu %d: "+plan.FixedMTU, s.MTU, n.Edge.Name, f.Plan.PortName(end.Node, end.Port))
				}
			}
		}
		next[d] = s
	}
	now := f.Now()
	for d := range 2 {
		if dir[d] {
			f.logChange(f.ShardOf(f.Plan.Links[link].Ends[d].Node), now, status.BySet, link, d, f.Links[link][d].Settings().Up, &patch)
			f.set(link, d, next[d])
			f.Exchange() // what the sender has taken back is not lost
			f.Links[link][d].SetFarHalf(next[d].Up)
			if patch.State != nil {
				for _, s := range f.Shards {
					s.recordLinkChange(now, link, d, next[d].Up)
					f.flushMACs(s, link, next[d].Up)
					f.tellNICs(s, link)
				}
				for _, r := range f.rerouting {
					r.recordLinkState(now, link, d, next[d].Up)
				}
			}
		}
	}
	f.Exchange()
	return nil
}

// flushMACs makes the switches of a shard forget the addresses behind a link of which a
// direction goes down.
func (f *Fabric) flushMACs(shard *Shard, link int, up bool) {
	if up {
		return
	}
	for _, end := range f.Plan.Links[link].Ends {
		if sw := f.Switches[end.Node]; sw != nil && f.ShardOf(end.Node) == shard {
			sw.FlushMACs(f.ports[end.Node][end.Port])
		}
	}
}

// hasCredits reports whether a class of a link has credits, in either direction.
func (f *Fabric) hasCredits(link int) bool {
	for _, end := range f.Plan.Links[link].Ends {
		for _, c := range f.Plan.Nodes[end.Node].Ports[end.Port].Classes {
			if c.Credits != nil {
				return true
			}
		}
	}
	return false
}

// lookaheadOf returns the least delay of a link that joins two processes.
func (f *Fabric) lookaheadOf(link int) units.Time {
	ends := f.Plan.Links[link].Ends
	if s := f.ShardOf(ends[0].Node); s == f.ShardOf(ends[1].Node) {
		return s.Lookahead
	}
	return f.lookahead
}

// set changes the near half of a link's direction.
func (f *Fabric) set(link, d int, s links.Settings) {
	end := f.Plan.Links[link].Ends[d]
	now := f.nowAt(end.Node)
	f.ports[end.Node][end.Port].SetLink(now, s)
	if iface := f.interfaceAt(end); iface != nil {
		iface.SetLineRate(now, s.Rate)
	}
	if f.LinkChanged != nil {
		f.LinkChanged(link, d)
	}
}

// Trace returns a hash of everything that every port did, and when: two runs
// with the same trace were the same run.
func (f *Fabric) Trace() uint64 {
	var h uint64
	for n, node := range f.ports {
		for _, p := range node {
			h = sim.MixBits(h ^ p.Trace(f.nowAt(n)))
		}
	}
	return h
}
