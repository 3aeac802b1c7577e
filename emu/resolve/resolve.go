package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// Bounds on the size of a lab.
const (
	maxLinks     = 100_000
	maxFlows     = 100_000 // and transfers
	maxLabName   = 32      // together with a node's name, part of namespace names
	maxNodeName  = 40
	maxInterface = 15                       // IFNAMSIZ-1 (linux/if.h)
	maxTime      = 1_000_000 * units.Second // eleven days
	maxSpin      = units.Second
	maxJoin      = units.Millisecond
)

var (
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)
	wordPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// nameHint describes the names that namePattern and a length allow.
func nameHint(most int) string {
	return fmt.Sprintf("a name is at most %d letters, digits, _ . or -, and begins with a letter or digit", most)
}

// resolver makes a Plan from a file. Its fields other than the plan serve to find
// things by name and to locate them in the file.
type resolver struct {
	*yamlfile.Reader
	lab  *labfile.Lab
	plan *plan.Plan

	nodes map[string]int
	files []*labfile.Node // of each node; nil if only a generator names it

	ports      map[string]plan.End // by "node:port"
	queues     map[plan.End]labfile.Queue
	linkPlaces []any // of each link of the plan
	domain     [][]int
	reach      *plan.Reach
	routed     bool                      // whether there are routers
	gateways   map[gatewayKey]netip.Addr // the first one of each domain
	deep       []*qosFile                // of each node; nil if it has no classes

	permutations int         // so far
	queuePairs   int         // of the transfers so far, at either end
	pairsOf      map[int]int // likewise, by node

	unknownNodes map[string]*plan.NameError // nodes that do not exist
}

func resolve(r *yamlfile.Reader, lab *labfile.Lab) (*plan.Plan, error) {
	v := &resolver{
		Reader: r,
		lab:    lab,
		plan:   &plan.Plan{File: r.File()},
		nodes:  map[string]int{},
		ports:  map[string]plan.End{},
		queues: map[plan.End]labfile.Queue{},

		pairsOf: map[int]int{}, unknownNodes: map[string]*plan.NameError{},
	}
	v.header()
	v.generate()
	v.namedNodes()
	v.namedLinks()
	if err := v.Err(); err != nil {
		return nil, err
	}
	v.settings()
	v.edges() // what they prepend to packets counts against the NICs' MTU
	v.nics()
	v.classes()
	v.reroute()
	v.portSettings()
	v.portClasses()
	v.addresses()
	v.checkRoutedMarks()
	v.domain = v.plan.Domains()
	v.routes()
	v.reach = v.plan.Reach()
	v.switchRoutes()
	v.directions()
	v.bandwidthDelay()
	v.checkTelemetry()
	v.events()
	v.buffers()
	v.workload()
	v.window()
	v.series()
	if err := v.Err(); err != nil {
		return nil, err
	}
	return v.plan, nil
}

// header resolves the settings of the lab as a whole.
func (v *resolver) header() {
	p, lab := v.plan, v.lab
	if lab.Name != nil {
		p.Name = *lab.Name
		v.checkName(lab.Name, "the lab's name", p.Name, maxLabName)
	} else {
		base := filepath.Base(v.File())
		p.Name = strings.TrimSuffix(base, filepath.Ext(base))
		if !namePattern.MatchString(p.Name) || len(p.Name) > maxLabName {
			v.Fail(lab, "write name: in the file; "+nameHint(maxLabName), "the file's name %q cannot be the lab's name", base)
		}
	}
	p.Seed = 1
	set(&p.Seed, lab.Seed)
	set(&p.Duration, lab.Duration)
	if lab.Duration != nil && *lab.Duration == 0 {
		v.Fail(lab.Duration, "leave it out to run until the last flow ends", "duration must be above 0")
	}
	v.checkTime(lab.Duration, "duration", maxTime)

	p.Dilation = 1
	if d := lab.Dilation; d != nil {
		p.Dilation = int(*d)
	}
	p.Fidelity = plan.Fidelity{Strict: lab.Fidelity.Mode == labfile.Strict, Limit: units.Millisecond}
	set(&p.Fidelity.Limit, lab.Fidelity.Limit)
	set(&p.Fidelity.Share, lab.Fidelity.Share)
	if p.Fidelity.Limit == 0 {
		v.Fail(lab.Fidelity.Limit, "no packet is exactly on time; 1ms is the default", "limit must be above 0")
	}
	v.checkTime(lab.Fidelity.Limit, "limit", maxTime)
	p.Engine.Realtime = plan.Realtime(lab.Engine.Realtime)
	p.Engine.IO = plan.IO(lab.Engine.IO)
	set(&p.Engine.Spin, lab.Engine.Spin)
	v.checkTime(lab.Engine.Spin, "spin", maxSpin)
}

// set overrides *to with a setting of the file; from is nil if the file does
// not set it.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (v *resolver) checkName(place any, what, name string, most int) bool {
	ok := len(name) <= most && namePattern.MatchString(name)
	if !ok {
		v.Fail(place, nameHint(most), "%s cannot be %q", what, name)
	}
	return ok
}

// checkTime checks a time in the file, which may be nil.
func (v *resolver) checkTime(t *units.Time, what string, most units.Time) {
	if t != nil && (*t < 0 || *t > most) {
		v.Fail(t, "", "%s %v is outside 0s to %v", what, *t, most)
	}
}

// generate makes the nodes and links of the generator.
func (v *resolver) generate() {
	g := v.lab.Topology.Generate
	if g == nil {
		return
	}
	chosen := generatorOf(g)
	nodes, links := chosen.size()
	if nodes > labfile.MaxNodes || links > maxLinks {
		v.Fail(g, fmt.Sprintf("a lab has at most %d nodes and %d links", labfile.MaxNodes, maxLinks),
			"this makes %d nodes and %d links", nodes, links)
		return
	}
	chosen.build(&builder{r: v, place: g})
}

// addNode adds a node with a new name and returns its index.
func (v *resolver) addNode(name string, kind plan.Kind) int {
	i := len(v.plan.Nodes)
	v.plan.Nodes = append(v.plan.Nodes, plan.Node{Name: name, Kind: kind})
	v.nodes[name] = i
	v.files = append(v.files, nil)
	return i
}

// namedNodes adds the nodes of the file, and records the file's settings for
// generated ones.
func (v *resolver) namedNodes() {
	topology := &v.lab.Topology
	for e := range topology.Nodes {
		name, file := &topology.Nodes[e].Name, &topology.Nodes[e].Value
		i, generated := v.nodes[*name]
		switch {
		case generated:
			if made := v.plan.Nodes[i].Kind; file.Kind != nil && planKind(*file.Kind) != made {
				v.Fail(file.Kind, "choose another name, or leave kind out to add settings to it",
					"the generator makes %s as a %v", *name, made)
			}
		case file.Kind == nil:
			v.Fail(name, v.kindHint(*name), "%s lacks kind", *name)
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
		v.Fail(topology, "write nodes: or generate:", "the topology has no nodes")
	case n > labfile.MaxNodes:
		v.Fail(topology, "", "the topology has %d nodes, more than %d", n, labfile.MaxNodes)
	}
}

// kindHint returns the hint for a node without a kind, which may be a generated
// one with a misspelt name.
func (v *resolver) kindHint(name string) string {
	hint := "write kind: host, kind: switch or kind: vm"
	if v.lab.Topology.Generate != nil && !v.Full() {
		hint += "; it may be left out only for a node that the generator makes"
		if near, ok := suggest.Nearest(name, v.plan.NodeNames()); ok {
			hint += fmt.Sprintf(", such as %s", near)
		}
	}
	return hint
}

// addPort adds a port, whose name must be new to the node, and returns its
// index.
func (v *resolver) addPort(node int, name string) int {
	n := &v.plan.Nodes[node]
	port := len(n.Ports)
	n.Ports = append(n.Ports, plan.Port{Name: name, Link: -1})
	v.ports[n.Name+":"+name] = plan.End{Node: node, Port: port}
	return port
}

// namedLinks adds the links of the file.
func (v *resolver) namedLinks() {
	for i := range v.lab.Topology.Links {
		file := &v.lab.Topology.Links[i]
		if len(file.Endpoints) != 2 {
			v.Fail(&file.Endpoints, `write for example endpoints: ["h1:eth0", "s1:1"]`, "a link has 2 endpoints, not %d", len(file.Endpoints))
			continue
		}
		one, ok1 := v.newEndpoint(&file.Endpoints[0])
		two, ok2 := v.newEndpoint(&file.Endpoints[1])
		if !ok1 || !ok2 {
			continue
		}
		if one.Node == two.Node {
			v.Fail(&file.Endpoints[1], "a link joins two nodes", "both ends of the link are at %s", v.plan.Nodes[one.Node].Name)
			continue
		}
		ends := [2]plan.End{one, two}
		patches := [2]plan.LinkPatch{file.LinkPatch, file.LinkPatch}
		for j := range file.From {
			from, direction := &file.From[j].Name, &file.From[j].Value
			side := slices.Index(file.Endpoints, *from)
			if side < 0 {
				v.Fail(from, suggest.Hint(*from, "it has", file.Endpoints), "%q is not an endpoint of this link", *from)
				continue
			}
			patches[side] = direction.LinkPatch.Over(file.LinkPatch)
			v.queues[ends[side]] = direction.Queue
		}
		v.connect(ends, patches, file)
	}
	if n := len(v.plan.Links); n > maxLinks {
		v.Fail(&v.lab.Topology.Links, "", "the topology has %d links, more than %d", n, maxLinks)
	}
}

// newEndpoint adds the port that an endpoint of a link names.
func (v *resolver) newEndpoint(name *string) (plan.End, bool) {
	nodeName, portName, err := plan.SplitEndpoint(*name)
	if err != nil {
		v.Fail(name, err.Hint, "%s", err.Msg)
		return plan.End{}, false
	}
	node, ok := v.node(name, nodeName)
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
		v.Fail(name, hint, "%s already has a link", *name)
		return plan.End{}, false
	}
	if v.plan.Nodes[node].Kind == plan.Host {
		if !v.checkName(name, "an interface's name", portName, maxInterface) {
			return plan.End{}, false
		}
		if slices.Contains(reservedInterfaces, portName) {
			v.Fail(name, "write for example "+nodeName+":eth0", "the kernel reserves the name %q", portName)
			return plan.End{}, false
		}
	} else if !v.checkName(name, "a port's name", portName, maxNodeName) {
		return plan.End{}, false
	}
	return plan.End{Node: node, Port: v.addPort(node, portName)}, true
}

// node finds the node that the value at place names.
func (v *resolver) node(place any, name string) (int, bool) {
	node, ok := v.nodes[name]
	if !ok {
		v.failName(place, func() error {
			if v.unknownNodes[name] == nil {
				v.unknownNodes[name] = v.plan.NoNode(name)
			}
			return v.unknownNodes[name]
		})
	}
	return node, ok
}

// reservedInterfaces are names that a device in a namespace cannot have: the
// loopback device, and the entries of net.ipv4.conf that stand for every
// device.
var reservedInterfaces = []string{"lo", "all", "default"}

// failName reports a name that does not exist. It makes the message only if it
// will be shown, as a suggestion takes time when there are many names.
func (v *resolver) failName(place any, say func() error) {
	var bad *plan.NameError
	if !v.Full() && errors.As(say(), &bad) {
		v.Fail(place, bad.Hint, "%s", bad.Msg)
	}
}

// connect adds a link. Each patch holds the settings of the direction that
// leaves that end, without the defaults.
func (v *resolver) connect(ends [2]plan.End, patches [2]plan.LinkPatch, place any) {
	link := plan.Link{Ends: ends}
	for i, patch := range patches {
		var err error
		link.Dir[i], err = patch.Over(v.lab.Topology.Kinds.Link).Apply(plan.DefaultLink)
		if err != nil {
			v.checkPatch(err, place)
		}
		port := &v.plan.Nodes[ends[i].Node].Ports[ends[i].Port]
		port.Link, port.End = len(v.plan.Links), i
	}
	v.plan.Links = append(v.plan.Links, link)
	v.linkPlaces = append(v.linkPlaces, place)
}

// checkPatch reports an error of LinkPatch.Apply at the place of the setting.
func (v *resolver) checkPatch(err error, place any) {
	var bad *plan.SettingError
	if errors.As(err, &bad) {
		if v.Place(bad.Field) != nil {
			place = bad.Field
		}
		v.Fail(place, "", "%s", bad.Msg)
	}
}
