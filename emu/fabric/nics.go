package fabric

import (
	"fmt"

	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
)

// attachedNIC is an emulated NIC and where it is.
type attachedNIC struct {
	*nicemu.Device
	iface *hosts.Interface
}

// addNIC adds the NIC of a host's interface, if it has one.
func (f *Fabric) addNIC(iface *hosts.Interface) error {
	node := &f.Plan.Nodes[iface.Node]
	if node.NIC == nil || iface.Port.Link() == nil {
		return nil
	}
	shard := f.ShardOf(iface.Node)
	d, err := iface.AddNIC(*node.NIC, nicemu.Env{
		Down: shard.down[node.Ports[iface.Index].Link] != 0, Links: &shard.links, Rand: sim.NewRand(f.Plan.Seed, "cc "+iface.Name),
	})
	if err != nil {
		return fmt.Errorf("host %s: %w", node.Name, err)
	}
	f.nics = append(f.nics, attachedNIC{d, iface})
	return nil
}

// Device returns the NIC of a host's interface, nil if it has none. Use it from
// code that the host's engine runs, or while that engine does not run.
func (f *Fabric) Device(node, index int) *nicemu.Device {
	if iface := f.interfaces[node][index]; iface != nil {
		return iface.EmulatedNIC()
	}
	return nil
}

// DeviceOf returns the first NIC of a host. The rules of Device apply.
func (f *Fabric) DeviceOf(host string) (*nicemu.Device, error) {
	iface, err := f.firstNIC(host)
	if err != nil {
		return nil, err
	}
	return iface.EmulatedNIC(), nil
}

func (f *Fabric) firstNIC(host string) (*hosts.Interface, error) {
	for n := range f.Plan.Nodes {
		if f.Plan.Nodes[n].Name != host {
			continue
		}
		for _, iface := range f.interfaces[n] {
			if iface != nil && iface.EmulatedNIC() != nil {
				return iface, nil
			}
		}
		return nil, fmt.Errorf("%s has no NIC: write nic: roce for it in the lab file", host)
	}
	return nil, fmt.Errorf("there is no host %s", host)
}

// EngineOf returns the engine that runs a NIC, for timers and processes that use it.
func (f *Fabric) EngineOf(d *nicemu.Device) *sim.Engine {
	for _, n := range f.nics {
		if n.Device == d {
			return n.iface.Engine
		}
	}
	return nil
}

// Go starts a program on a host: a process of the engine that runs the host, with its
// first NIC. In messages the process has the host's name. Until it ends, the state of
// the host's NICs belongs to it: with several shards, programs on other hosts may run
// at the same time. Like Device, call Go from code that the host's engine runs, or
// while that engine does not run.
func (f *Fabric) Go(host string, program func(p *sim.Process, d *nicemu.Device)) (*sim.Process, error) {
	iface, err := f.firstNIC(host)
	if err != nil {
		return nil, err
	}
	return iface.Engine.Go(host, func(p *sim.Process) { program(p, iface.EmulatedNIC()) }), nil
}

// StopProcesses stops all processes that have not ended. Call it before dropping a fabric that
// has run in virtual time with waiting processes: their goroutines would stay for ever. The
// driver of the wall clock calls it itself.
func (f *Fabric) StopProcesses() {
	for _, s := range f.Shards {
		for _, p := range s.Processes {
			p.Engine.StopProcesses()
		}
	}
}

// tellNICs tells a shard's NICs at the ends of a link whether it is up: it is not if one of its
// directions is down, since Ethernet reports a fault to the other end.
func (f *Fabric) tellNICs(s *Shard, link int) {
	for _, end := range f.Plan.Links[link].Ends {
		if f.ShardOf(end.Node) != s {
			continue
		}
		if d := f.Device(end.Node, end.Port); d != nil {
			d.SetLink(s.down[link] == 0)
		}
	}
}
