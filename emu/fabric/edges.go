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
func (f *Fabric) addEdge(iface *hosts.Interface) {
	node := &f.Plan.Nodes[iface.Node]
	if node.Edge.Settings == nil || iface.Port.Link() == nil {
		return
	}
	var limit [class.Count]units.Bytes
	for _, c := range node.Ports[iface.Index].Classes {
		limit[c.Priority] = c.Limit
	}
	iface.AddEdge(node.Edge, limit, sim.NewRand(f.Plan.Seed, "edge "+iface.Name))
}

// EdgeOf returns the edge service of the first interface of a host that has one, for
// programs that know the service: see its package. Use it from code that the host's engine
// runs, or while that engine does not run.
func (f *Fabric) EdgeOf(host string) (edge.Service, error) {
	iface, err := f.firstEdge(host)
	if err != nil {
		return nil, err
	}
	return iface.EdgeService(), nil
}

func (f *Fabric) firstEdge(host string) (*hosts.Interface, error) {
	n, ok := f.Plan.Node(host)
	if !ok || f.Plan.Nodes[n].Kind != plan.Host {
		return nil, fmt.Errorf("there is no host %s", host)
	}
	for _, iface := range f.interfaces[n] {
		if iface.HasEdge() {
			return iface, nil
		}
	}
	return nil, fmt.Errorf("%s has no edge service: write for example edge: eqds for it in the lab file", host)
}

// GoEdge starts a program on a host, as Go does for programs that use its NIC: a process of
// the engine that runs the host, with the edge service that EdgeOf returns.
func (f *Fabric) GoEdge(host string, program func(p *sim.Process, s edge.Service)) (*sim.Process, error) {
	iface, err := f.firstEdge(host)
	if err != nil {
		return nil, err
	}
	return iface.Engine.Go(host, func(p *sim.Process) { program(p, iface.EdgeService()) }), nil
}
