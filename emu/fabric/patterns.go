package fabric

import (
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
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
	t.collector.Finish = f.finishRecord
	t.linkPaths = map[[2]int]linkPath{}
	if len(f.Plan.Traffic) == 0 {
		return nil
	}
	b := &trafficBuilder{Fabric: f, hosts: map[int]*carrier.Host{}, nics: map[*hosts.Interface]*carrier.NIC{}, pulls: map[*hosts.Interface]*carrier.Pulls{}}
	if err := b.findMembers(); err != nil {
		return err
	}
	for i := range f.Plan.Traffic {
		if err := b.addPattern(i); err != nil {
			return fmt.Errorf("traffic %s: %w", f.Plan.Traffic[i].Name, err)
		}
	}
	return nil
}

// trafficBuilder is the working state of addTraffic.
type trafficBuilder struct {
	*Fabric
	hosts    map[int]*carrier.Host               // by node
	egresses []egresses                          // by traffic
	nics     map[*hosts.Interface]*carrier.NIC   // of interfaces with flows over RDMA
	table    *carrier.Table                      // nil without RDMA
	pulls    map[*hosts.Interface]*carrier.Pulls // of interfaces with flows over NDP
}

// findMembers makes the hosts, in the order of nodes, and the carriers of those with
// flows over RDMA.
func (b *trafficBuilder) findMembers() (err error) {
	settings := map[int]carrier.RDMA{}
	var all []int
	for i, t := range b.Plan.Traffic {
		members := t.Pattern.Hosts()
		for _, h := range members {
			if h < 0 || h >= len(b.Plan.Nodes) || b.Plan.Nodes[h].Kind != plan.Host {
				return fmt.Errorf("traffic %s: node %d is not a host", t.Name, h)
			}
		}
		all = append(all, members...)
		if t.RDMA != nil {
			settings[i] = *t.RDMA
		}
		found, err := b.findEgresses(&b.Plan.Traffic[i])
		if err != nil {
			return fmt.Errorf("traffic %s: %w", t.Name, err)
		}
		b.egresses = append(b.egresses, found)
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

// addPattern makes the hosts of one traffic take part in it.
func (b *trafficBuilder) addPattern(i int) error {
	t := &b.Plan.Traffic[i]
	if err := t.Check(); err != nil {
		return err
	}
	members := t.Pattern.Hosts()
	part := make(map[int]bool, len(members))
	for _, n := range members {
		part[n] = true
	}
	for _, n := range members {
		agent := t.Pattern.Agent(n)
		if agent == nil {
			agent = silent{}
		}
		var carriers []carrier.Carrier
		interfaces := b.egresses[i].interfaces(n)
		for _, iface := range interfaces {
			c, err := b.carrierAt(i, iface, part)
			if err != nil {
				return fmt.Errorf("%s: %w", b.Plan.PortName(n, iface.Index), err)
			}
			carriers = append(carriers, c)
		}
		b.hosts[n].AddTraffic(i, agent, b.joinCarriers(t, n, interfaces, carriers))
		if linked, ok := agent.(pattern.Linked); ok {
			linked.LinkAgents(func(host int) (pattern.Agent, func(pattern.Flow)) { return b.hosts[host].PartyOf(i) })
		}
	}
	return nil
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
