package fabric

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire"
)

// modelledPort is the UDP destination port of modelled flows; source ports
// count up from firstModelledPort, the beginning of the dynamic range
// (RFC 6335 §6).
const (
	modelledPort      = 5001
	firstModelledPort = 49152
	modelledTTL       = 64
)

// flowEnd is one end of a modelled flow.
type flowEnd struct {
	iface   *hosts.Interface
	address netip.Addr
}

// addFlow makes the source and the record of one modelled flow.
func (f *Fabric) addFlow(i int) {
	flow := f.Plan.Flows[i]
	path := f.topology.Path(plan.Pair{From: flow.From, To: flow.To, FromPort: flow.FromPort.Port(), ToPort: flow.ToPort.Port(), IPv6: flow.IPv6})
	from, to, src, dst := f.interfaceAt(path.From), f.interfaceAt(path.To), path.Source, path.Destination
	header := units.Bytes(wire.EthernetHeader + wire.IPv4Header + wire.UDPHeader)
	version, ether := uint8(4), uint16(wire.EtherTypeIPv4)
	if flow.IPv6 {
		header += wire.IPv6Header - wire.IPv4Header
		version, ether = 6, wire.EtherTypeIPv6
	}
	t := packet.Packet{
		Size: header + flow.Size, Dest: f.topology.Endpoint(path.First), To: f.topology.Number(dst), Flow: int32(i), Src: from.MAC, Dst: f.topology.MAC(path.First),
		SrcPort: firstModelledPort + uint16(i%(1<<16-firstModelledPort)), DstPort: modelledPort,
		L3: wire.EthernetHeader, Ether: ether, Version: version, Proto: wire.ProtoUDP, TOS: flow.DSCP << 2, TTL: modelledTTL,
	}
	if flow.ECT {
		t.TOS |= wire.ECT0
	}
	t.Hash = packet.FlowHash(hashWord(src), hashWord(dst), t.Proto, t.SrcPort, t.DstPort)
	if flow.IPv6 {
		// As in Linux (net.ipv6.auto_flowlabels; RFC 6437 §3).
		t.Label = max(uint32(t.Hash)&wire.MaxFlowLabel, 1)
	}
	nodes := f.Plan.Nodes
	r := workload.NewRecord(flow, nodes[flow.From].Name, nodes[flow.To].Name)
	r.WatchOutages(&f.ShardOf(to.Node).links)
	f.Records = append(f.Records, r)
	f.flowEnds = append(f.flowEnds, [2]flowEnd{{from, src}, {to, dst}})
	stream := "flow " + flow.Name
	workload.NewSource(f.engineOf(flow.From), f.ShardOf(flow.From).Pool, sim.NewRand(f.Plan.Seed, stream), sim.NewSalt(f.Plan.Seed, stream), f.clocks[flow.From], flow, t, r, from)
}

// interfaceOf returns the interface of an endpoint; nil for other endpoints.
func (f *Fabric) interfaceOf(e packet.Endpoint) *hosts.Interface {
	if e < 0 || int(e) >= len(f.Interfaces) {
		return nil
	}
	return f.Interfaces[e]
}

// interfaceAt returns the interface of a host's port; nil for a switch's.
func (f *Fabric) interfaceAt(e plan.End) *hosts.Interface { return f.interfaces[e.Node][e.Port] }

// hashWord folds an address as Parse does for real packets, so that a modelled
// flow takes the same path as a real one with the same numbers.
func hashWord(a netip.Addr) uint64 {
	b := a.As16()
	if a.Is4() {
		return uint64(binary.BigEndian.Uint32(b[12:]))
	}
	return packet.FoldIPv6(b[:])
}

// Results returns the records of all modelled flows so far.
func (f *Fabric) Results() []workload.Result {
	out := make([]workload.Result, len(f.Records))
	now := f.Now()
	for i, r := range f.Records {
		out[i] = r.Result(now)
	}
	return out
}
