package resolve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/switches/class"
)

// qos resolves queues, traffic classes and the buffers of switches.
type qos struct {
	*base
	kinds    *labfile.Kinds
	queues   map[plan.End]labfile.Queue // what the file says about the queue of each port
	qosFiles []*qosFile                 // of each node; nil if it has no classes
}

// defaultClass is the class of packets that match no other class. Every node
// with classes has it.
const defaultClass = "default"

// qosFile is what the file says about a node with classes, merged with the
// settings of the node's kind.
type qosFile struct {
	labfile.Switch
	classes []*namedClass // by rising priority
}

// namedClass is what the file says about one class.
type namedClass struct {
	labfile.Class
	name     string
	at       any // the name in the file, or nil
	priority uint8
}

// commonPart returns the class without the settings that only a switch or a port has.
func (c *namedClass) commonPart() class.Class {
	bare := class.Class{Name: c.name, Priority: c.priority}
	if c.Weight != nil {
		bare.Weight = int(*c.Weight)
	}
	bare.Fair = c.Order != nil && *c.Order == labfile.Fair
	return bare
}

// isLossless reports whether packets of a class are never dropped for lack of
// room.
func (d *qosFile) isLossless(c *namedClass) bool {
	return c.PFC.Settings() != nil || c.Credits.Settings() != nil || d.Pause.Settings() != nil
}

// resolveClasses resolves which nodes have classes, and which packets belong to each
// class.
func (v *qos) resolveClasses() {
	v.qosFiles = make([]*qosFile, len(v.plan.Nodes))
	kinds := v.kinds
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		if n.Kind == plan.Host {
			kind := kinds.Host.Classes
			if n.VM != nil {
				kind = kinds.VM.Classes
			}
			v.checkHostClasses(kind)
			v.checkHostClasses(file.Classes)
			if len(kind)+len(file.Classes) > 0 {
				v.setClasses(i, &qosFile{classes: v.joinClasses(file.Classes, kind)})
			}
			continue
		}
		d := &qosFile{
			Switch:  file.JoinBase(v.Reader, kinds.Switch.Switch),
			classes: v.joinClasses(file.Classes, kinds.Switch.Classes),
		}
		cutThrough := d.CutThrough != nil && *d.CutThrough
		if len(d.classes) > 0 || d.Buffer.Settings() != nil || d.Pause.Settings() != nil || cutThrough {
			v.setClasses(i, d)
			n.QoS.CutThrough = cutThrough
		}
	}
	for i := range v.plan.Nodes {
		if v.plan.Nodes[i].Kind == plan.Host && v.qosFiles[i] == nil {
			v.takeOver(i)
		}
		if n := &v.plan.Nodes[i]; v.qosFiles[i] == nil && (n.NIC != nil || n.Edge.Settings != nil) {
			v.setClasses(i, &qosFile{}) // these send by class
		}
	}
}

// joinClasses returns the classes of a node: those of the kind, overridden by
// the node's settings, then those that only the node has.
func (v *qos) joinClasses(node, kind yamlfile.Dict[labfile.Class]) []*namedClass {
	var joined []*namedClass
	for _, d := range []yamlfile.Dict[labfile.Class]{kind, node} {
		for j := range d {
			name, file := &d[j].Name, d[j].Value
			i := slices.IndexFunc(joined, func(c *namedClass) bool { return c.name == *name })
			if i < 0 {
				joined = append(joined, &namedClass{name: *name, at: name, Class: file})
				continue
			}
			joined[i].at = name
			joined[i].Class = file.JoinBase(v.Reader, joined[i].Class)
		}
	}
	return joined
}

// checkHostClasses reports settings that classes of a host do not have.
func (v *qos) checkHostClasses(classes yamlfile.Dict[labfile.Class]) {
	for i := range classes {
		c := &classes[i].Value
		for _, key := range []struct {
			name string
			set  bool
			at   any
		}{
			{"reserve", c.Reserve != nil, c.Reserve}, {"alpha", c.Alpha != nil, c.Alpha},
			{"ingress", c.Ingress != nil, c.Ingress}, {"credits", c.Credits != nil, c.Credits}, {"trim", c.Trim != nil, c.Trim},
		} {
			if key.set {
				v.ReportFault(key.at, "a class of a host has dscp, pcp, priority, weight, order, limit, mark, pfc", "%s is a setting of a switch's class", key.name)
			}
		}
		if f := c.PFC.Settings(); f != nil && *f != (labfile.PFC{}) {
			v.ReportFault(c.PFC, "write pfc: {} for a class that PFC frames pause, or pfc: none for one that ignores them", "hosts do not pause their switch: a class of a host has no thresholds")
		}
	}
}

// setClasses sets the classes of a node, with the priority of each, and maps
// packets to them.
func (v *qos) setClasses(node int, d *qosFile) {
	if !slices.ContainsFunc(d.classes, func(c *namedClass) bool { return c.name == defaultClass }) {
		d.classes = append(d.classes, &namedClass{name: defaultClass})
	}
	v.qosFiles[node] = d
	v.plan.Nodes[node].QoS = &plan.QoS{}
	var holder [class.Count]*namedClass
	for _, c := range d.classes {
		if c.at != nil {
			v.checkName(c.at, "a class's name", c.name, maxNodeName)
		}
		switch {
		case c.Priority != nil:
			c.priority = uint8(*c.Priority)
		case c.name != defaultClass:
			v.ReportFault(c.at, d.priorityHint(c), "the class %s lacks priority", c.name)
			continue
		}
		if other := holder[c.priority]; other != nil {
			v.ReportFault(v.FirstSet(c.Priority, other.Priority, c.at, other.at), "every class needs its own priority, 0 to 7; the class default has 0 unless it sets another",
				"the classes %s and %s both have priority %d", other.name, c.name, c.priority)
			continue
		}
		holder[c.priority] = c
	}
	slices.SortStableFunc(d.classes, func(a, b *namedClass) int { return cmp.Compare(a.priority, b.priority) })
	v.plan.Nodes[node].QoS.Map = v.classMap(d)
}

// priorityHint returns the hint for a class without a priority, which may be a
// misspelt class of the kind.
func (d *qosFile) priorityHint(c *namedClass) string {
	hint := "write for example priority: 3; it is the class's queue, 0 to 7, and the class that PFC pauses"
	var others []string
	for _, o := range d.classes {
		if o != c {
			others = append(others, o.name)
		}
	}
	if near, ok := suggest.Nearest(c.name, others); ok {
		hint = fmt.Sprintf("did you mean %q? Otherwise %s", near, hint)
	}
	return hint
}

// classMap maps each code point to the priority of its class, and code points
// without a class to the default class.
func (v *qos) classMap(d *qosFile) (m class.Map) {
	for _, c := range d.classes {
		if c.name != defaultClass {
			continue
		}
		m.Untagged = c.priority
		for i := range m.DSCP {
			m.DSCP[i] = c.priority
		}
		for i := range m.PCP {
			m.PCP[i] = c.priority
		}
	}
	var dscps [64]*namedClass
	var pcps [8]*namedClass
	for _, c := range d.classes {
		for i := range c.DSCP {
			v.assignCodePoints(&c.DSCP[i], "dscp", c.DSCP[i].Range, c, dscps[:], m.DSCP[:])
		}
		for i := range c.PCP {
			v.assignCodePoints(&c.PCP[i], "pcp", c.PCP[i].Range, c, pcps[:], m.PCP[:])
		}
		if c.name != defaultClass && len(c.DSCP)+len(c.PCP) == 0 {
			v.ReportFault(c.at, "write for example dscp: 26", "no packet belongs to the class %s: it has neither dscp nor pcp", c.name)
		}
	}
	return m
}

// assignCodePoints assigns the code points of a span to a class.
func (v *qos) assignCodePoints(place any, what string, s labfile.Range, c *namedClass, holders []*namedClass, m []uint8) {
	for p := s.Low; p <= s.High; p++ {
		if other := holders[p]; other != nil {
			v.ReportFault(place, "a packet belongs to one class", "%s %d belongs to two classes, %s and %s", what, p, other.name, c.name)
			return
		}
		holders[p], m[p] = c, c.priority
	}
}

// takeOver gives a host the classes of the switches it is connected to.
func (v *qos) takeOver(host int) {
	n := &v.plan.Nodes[host]
	first := -1
	for _, p := range n.Ports {
		if p.Link < 0 {
			continue
		}
		at := v.plan.Links[p.Link].Ends[1-p.End].Node
		theirs := v.qosFiles[at]
		switch {
		case theirs == nil || v.plan.Nodes[at].Kind == plan.Host:
		case first < 0:
			first = at
			mine := &qosFile{}
			for _, c := range theirs.classes {
				file := labfile.Class{Weight: c.Weight, Order: c.Order}
				if atHosts(c.Mark) {
					file.Mark = c.Mark
				}
				mine.classes = append(mine.classes, &namedClass{name: c.name, priority: c.priority, Class: file})
			}
			v.qosFiles[host] = mine
			n.QoS = &plan.QoS{Map: v.plan.Nodes[at].QoS.Map}
		case n.QoS.Map != v.plan.Nodes[at].QoS.Map || !slices.EqualFunc(v.qosFiles[first].classes, theirs.classes, sameOnHosts):
			v.ReportFault(v.FirstSet(v.files[host], v.linkPlaces[p.Link]), "write classes: in the host",
				"%s is connected to %s and %s, whose classes differ", n.Name, v.plan.Nodes[first].Name, v.plan.Nodes[at].Name)
			return
		}
	}
}

func sameOnHosts(a, b *namedClass) bool { return a.commonPart() == b.commonPart() }
