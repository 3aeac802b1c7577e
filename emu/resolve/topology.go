package resolve

import (
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/suggest"
)

// Bounds on the size of a lab.
const (
	maxLinks     = 100_000
	maxInterface = 15 // IFNAMSIZ-1 (linux/if.h)
)

// topology resolves which nodes and links there are.
type topology struct {
	*base
	file   *labfile.Topology
	queues map[plan.End]labfile.Queue // queues of ports that are set with a link's direction
}

// reservedInterfaces are names that a device in a namespace cannot have: the
// loopback device, and the entries of net.ipv4.conf that stand for every
// device.
var reservedInterfaces = []string{"lo", "all", "default"}

// generateNodes makes the nodes and links of the generator.
func (v *topology) generateNodes() {
	g := v.file.Generate
	if g == nil {
		return
	}
	chosen := generatorOf(g)
	nodes, links := chosen.countParts()
	if nodes > labfile.MaxNodes || links > maxLinks {
		v.ReportFault(g, fmt.Sprintf("a lab has at most %d nodes and %d links", labfile.MaxNodes, maxLinks),
			"this makes %d nodes and %d links", nodes, links)
		return
	}
	chosen.buildTopology(&builder{t: v, place: g})
}

// addNode adds a node with a new name and returns its index.
func (v *topology) addNode(name string, kind plan.Kind) int {
	i := len(v.plan.Nodes)
	v.plan.Nodes = append(v.plan.Nodes, plan.Node{Name: name, Kind: kind})
	v.nodes[name] = i
	v.files = append(v.files, nil)
	return i
}

// namedNodes adds the nodes of the file, and records the file's settings for
// generated ones.
func (v *topology) namedNodes() {
	topology := v.file
	for e := range topology.Nodes {
		name, file := &topology.Nodes[e].Name, &topology.Nodes[e].Value
		i, generated := v.nodes[*name]
		switch {
		case generated:
			if made := v.plan.Nodes[i].Kind; file.Kind != nil && planKind(*file.Kind) != made {
				v.ReportFault(file.Kind, "choose another name, or leave kind out to add settings to it",
					"the generator makes %s as a %v", *name, made)
			}
		case file.Kind == nil:
			v.ReportFault(name, v.kindHint(*name), "%s lacks kind", *name)
			i = v.addNode(*name, plan.Host)
		default:
			v.checkName(name, "a node's name", *name, maxNodeName)
			i = v.addNode(*name, planKind(*file.Kind))
		}
		v.files[i] = file
		if file.Kind != nil && *file.Kind == labfile.VMNode {
			v.plan.Nodes[i].VM, v.plan.Nodes[i].Attach = &plan.VM{}, plan.Guest
		}
	}
	switch n := len(v.plan.Nodes); {
	case n == 0 && v.Faults() == 0:
		v.ReportFault(topology, "write nodes: or generate:", "the topology has no nodes")
	case n > labfile.MaxNodes:
		v.ReportFault(topology, "", "the topology has %d nodes, more than %d", n, labfile.MaxNodes)
	}
}

// kindHint returns the hint for a node without a kind, which may be a generated
// one with a misspelt name.
func (v *topology) kindHint(name string) string {
	hint := "write kind: host, kind: switch or kind: vm"
	if v.file.Generate != nil && !v.HasEnoughFaults() {
		hint += "; it may be left out only for a node that the generator makes"
		if near, ok := suggest.Nearest(name, v.plan.NodeNames()); ok {
			hint += fmt.Sprintf(", such as %s", near)
		}
	}
	return hint
}

// namedLinks adds the links of the file.
func (v *topology) namedLinks() {
	for i := range v.file.Links {
		file := &v.file.Links[i]
		if len(file.Endpoints) != 2 {
			v.ReportFault(&file.Endpoints, `write for example endpoints: ["h1:eth0", "s1:1"]`, "a link has 2 endpoints, not %d", len(file.Endpoints))
			continue
		}
		one, ok1 := v.newEndpoint(&file.Endpoints[0])
		two, ok2 := v.newEndpoint(&file.Endpoints[1])
		if !ok1 || !ok2 {
			continue
		}
		if one.Node == two.Node {
			v.ReportFault(&file.Endpoints[1], "a link joins two nodes", "both ends of the link are at %s", v.plan.Nodes[one.Node].Name)
			continue
		}
		ends := [2]plan.End{one, two}
		patches := [2]change.LinkPatch{file.LinkPatch, file.LinkPatch}
		for j := range file.From {
			from, direction := &file.From[j].Name, &file.From[j].Value
			side := slices.Index(file.Endpoints, *from)
			if side < 0 {
				v.ReportFault(from, suggest.Hint(*from, "it has", file.Endpoints), "%q is not an endpoint of this link", *from)
				continue
			}
			patches[side] = direction.LinkPatch.Over(file.LinkPatch)
			v.queues[ends[side]] = direction.Queue
		}
		v.connectEnds(ends, patches, file)
	}
	if n := len(v.plan.Links); n > maxLinks {
		v.ReportFault(&v.file.Links, "", "the topology has %d links, more than %d", n, maxLinks)
	}
}

// newEndpoint adds the port that an endpoint of a link names.
func (v *topology) newEndpoint(name *string) (plan.End, bool) {
	nodeName, portName, err := plan.SplitEndpoint(*name)
	if err != nil {
		v.ReportFault(name, err.Hint, "%s", err.Msg)
		return plan.End{}, false
	}
	node, ok := v.findNode(name, nodeName)
	if !ok {
		return plan.End{}, false
	}
	if used, ok := v.ports[*name]; ok {
		hint := "each port has one link"
		if link := v.plan.Nodes[used.Node].Ports[used.Port].Link; link >= 0 {
			ends := v.plan.Links[link].Ends
			hint = fmt.Sprintf("it joins %s and %s (line %d)", v.plan.PortName(ends[0].Node, ends[0].Port),
				v.plan.PortName(ends[1].Node, ends[1].Port), v.Line(v.linkPlaces[link]))
		}
		v.ReportFault(name, hint, "%s already has a link", *name)
		return plan.End{}, false
	}
	if v.plan.Nodes[node].Kind == plan.Host {
		if !v.checkName(name, "an interface's name", portName, maxInterface) {
			return plan.End{}, false
		}
		if slices.Contains(reservedInterfaces, portName) {
			v.ReportFault(name, "write for example "+nodeName+":eth0", "the kernel reserves the name %q", portName)
			return plan.End{}, false
		}
	} else if !v.checkName(name, "a port's name", portName, maxNodeName) {
		return plan.End{}, false
	}
	return plan.End{Node: node, Port: v.addPort(node, portName)}, true
}

// connectEnds adds a link. Each patch holds the settings of the direction that
// leaves that end, without the defaults.
func (v *topology) connectEnds(ends [2]plan.End, patches [2]change.LinkPatch, place any) {
	link := plan.Link{Ends: ends}
	for i, patch := range patches {
		var err error
		link.Dir[i], err = patch.Over(v.file.Kinds.Link).Apply(change.DefaultLink)
		if err != nil {
			v.checkPatch(err, place)
		}
		port := &v.plan.Nodes[ends[i].Node].Ports[ends[i].Port]
		port.Link, port.End = len(v.plan.Links), i
	}
	v.plan.Links = append(v.plan.Links, link)
	v.linkPlaces = append(v.linkPlaces, place)
}
