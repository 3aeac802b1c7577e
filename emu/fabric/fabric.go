// Package fabric builds what a plan describes: switches, links and the ports
// of hosts, with their forwarding tables, timed events and modelled traffic.
// It runs under either clock; real devices are attached from outside.
package fabric

import (
	"context"
	"fmt"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/spec"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/traces/workload"
)

// Fabric is a running network. Except where noted, everything in it belongs
// to the goroutine that runs the engine.
type Fabric struct {
	Plan   *spec.Plan
	Engine sim.Engine
	Pool   packet.Pool

	Stations []*Station         // by packet.Endpoint
	Switches []*switches.Switch // by node; nil for hosts
	Links    [][2]*links.Link   // by link and direction, as in the plan
	Records  []*workload.Record // by flow

	ports     [][]*port.Port // by node and port
	directory Directory
	watches   map[*port.Port]*watch

	// LinkChanged is told when the settings of a link's direction have
	// changed, so that a real host's shaper can follow. May be nil.
	LinkChanged func(link, direction int)
	// Failed is told of an event that could not be carried out. May be nil.
	Failed func(error)
}

// New builds the fabric of a plan at time zero.
func New(p *spec.Plan) *Fabric {
	f := &Fabric{
		Plan: p, Switches: make([]*switches.Switch, len(p.Nodes)), ports: make([][]*port.Port, len(p.Nodes)),
		directory: newDirectory(), watches: map[*port.Port]*watch{},
	}
	for n := range p.Nodes {
		f.addNode(n)
	}
	for l := range p.Links {
		f.addLink(l)
	}
	f.route()
	f.addEvents()
	for i := range p.Flows {
		f.addFlow(i)
	}
	return f
}

func (f *Fabric) addNode(n int) {
	node := &f.Plan.Nodes[n]
	f.ports[n] = make([]*port.Port, len(node.Ports))
	var sw *switches.Switch
	if node.Kind == spec.Switch {
		sw = switches.New(node.Name, node.ECMPSeed, &f.Pool)
		f.Switches[n] = sw
	}
	for i := range node.Ports {
		var owner port.Owner = sw
		if sw == nil {
			owner = f.addStation(n, i)
		}
		name := f.Plan.PortName(n, i)
		q := node.Ports[i].Queue
		p := port.New(&f.Engine, &f.Pool, name, i, owner, q.Limit)
		env := congestion.Env{Rand: sim.NewRand(f.Plan.Seed, "mark "+name), Pool: &f.Pool}
		if sw != nil {
			env.Send = func(p *packet.Packet) { sw.Originate(f.Engine.Now(), p) }
			sw.Ports = append(sw.Ports, p)
		}
		p.SetPoint(&f.Engine, congestion.New(q.Mark, env))
		f.ports[n][i] = p
		if s, ok := owner.(*Station); ok {
			s.Port = p
		}
	}
}

func (f *Fabric) addStation(n, i int) *Station {
	node := &f.Plan.Nodes[n]
	s := newStation(f, packet.Endpoint(len(f.Stations)), n, i)
	f.Stations = append(f.Stations, s)
	f.directory.add(s.ID, s.MAC, node.Ports[i].Addresses)
	return s
}

func (f *Fabric) addLink(l int) {
	plan := &f.Plan.Links[l]
	var dir [2]*links.Link
	for d, end := range plan.Ends {
		far := plan.Ends[1-d]
		from := f.ports[end.Node][end.Port]
		dir[d] = links.New(&f.Engine, &f.Pool, sim.NewRand(f.Plan.Seed, "link "+from.Name), plan.Dir[d], f.ports[far.Node][far.Port])
		from.Connect(dir[d])
	}
	f.Links = append(f.Links, dir)
}

// Port gives the port of a node, as in the plan.
func (f *Fabric) Port(node, index int) *port.Port { return f.ports[node][index] }

// Station gives the station of a host's port, nil for a switch's.
func (f *Fabric) Station(node, index int) *Station {
	for _, s := range f.Stations {
		if s.Node == node && s.Index == index {
			return s
		}
	}
	return nil
}

// Directory knows where every address is.
func (f *Fabric) Directory() *Directory { return &f.directory }

// Set changes one or both directions of a link.
func (f *Fabric) Set(link int, dir [2]bool, patch spec.LinkPatch) error {
	var next [2]links.Settings
	for d := range 2 {
		if !dir[d] {
			continue
		}
		s, err := patch.Apply(f.Links[link][d].Settings())
		if err != nil {
			return err
		}
		next[d] = s
	}
	for d := range 2 {
		if !dir[d] {
			continue
		}
		f.Links[link][d].Set(next[d])
		if f.LinkChanged != nil {
			f.LinkChanged(link, d)
		}
	}
	return nil
}

// Run drives the fabric in virtual time up to and including until, or until
// nothing is left to happen. It stops early when ctx ends, with its error.
func (f *Fabric) Run(ctx context.Context, until units.Time) error {
	// Looking at ctx every so often costs nothing measurable.
	const batch = 1 << 14
	for f.Engine.Run(until, batch) == batch {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped at %v of emulated time: %w", f.Engine.Now(), err)
		}
	}
	if until != units.Never {
		f.Engine.Advance(until)
	}
	return nil
}

// Trace is a hash of everything that every port did, and when: two runs with
// the same trace were the same run.
func (f *Fabric) Trace() uint64 {
	var h uint64
	for _, node := range f.ports {
		for _, p := range node {
			h = packet.Mix(h ^ p.Trace())
		}
	}
	return h
}
