package fabric

import (
	"fmt"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// addEdge adds the edge service of a host's interface, if it has one.
func (f *Fabric) addEdge(s *hosts.Station) {
	node := &f.Plan.Nodes[s.Node]
	if node.Edge.Settings == nil || s.Port.Link() == nil {
		return
	}
	var limit [class.Count]units.Bytes
	for _, c := range node.Ports[s.Index].Classes {
		limit[c.Priority] = c.Limit
	}
	s.AddEdge(node.Edge, limit, sim.NewRand(f.Plan.Seed, "edge "+s.Name))
}

// EdgeOf returns the edge service of the first interface of a host that has one, for
// programs that know the service: see its package. Use it from code that the host's engine
// runs, or while that engine does not run.
func (f *Fabric) EdgeOf(host string) (edge.Service, error) {
	s, err := f.firstEdge(host)
	if err != nil {
		return nil, err
	}
	return s.EdgeService(), nil
}

func (f *Fabric) firstEdge(host string) (*hosts.Station, error) {
	n, ok := f.Plan.Node(host)
	if !ok || f.Plan.Nodes[n].Kind != plan.Host {
		return nil, fmt.Errorf("there is no host %s", host)
	}
	for _, s := range f.stations[n] {
		if s.HasEdge() {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s has no edge service: write for example edge: eqds for it in the lab file", host)
}

// GoEdge starts a program on a host, as Go does for programs that use its NIC: a process of
// the engine that runs the host, with the edge service that EdgeOf returns.
func (f *Fabric) GoEdge(host string, program func(p *sim.Process, s edge.Service)) (*sim.Process, error) {
	s, err := f.firstEdge(host)
	if err != nil {
		return nil, err
	}
	return s.Engine.Go(host, func(p *sim.Process) { program(p, s.EdgeService()) }), nil
}
