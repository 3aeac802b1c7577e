package resolve

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
)

// linter warns of what a file may say and its author probably does not want: settings that
// have no effect together, or whose effect is loss where none is expected. It runs on a plan
// without faults.
type linter struct {
	*base
	qos *qos
	lab *labfile.Lab
}

func (v *linter) warnOfMistakes() {
	v.warnOfLateStarts()
	v.checkFlowControl()
	v.warnOfLossyNICs()
	v.warnOfMissingMarks()
	v.warnOfShortMTUs()
	for _, w := range v.Warnings() {
		v.plan.Warnings = append(v.plan.Warnings, w.Error())
	}
}

// warnOfLateStarts warns of events and traffic that begin when the run has ended.
func (v *linter) warnOfLateStarts() {
	d := v.lab.Duration
	if d == nil {
		return
	}
	late := func(at *units.Time, what string) {
		if *at >= *d {
			v.Warn(at, "lengthen duration, or let it begin earlier", "the "+what+" at %v has no effect: the run ends at %v", *at, *d)
		}
	}
	for i := range v.lab.Events {
		late(&v.lab.Events[i].At, "event")
	}
	for i := range v.lab.Workload {
		entry := reflect.ValueOf(&v.lab.Workload[i]).Elem()
		for j := range entry.NumField() {
			if f := entry.Field(j); f.Kind() == reflect.Pointer && !f.IsNil() && f.Elem().Kind() == reflect.Struct {
				if at := f.Elem().FieldByName("At"); at.IsValid() && at.Type() == reflect.TypeFor[units.Time]() {
					late(at.Addr().Interface().(*units.Time), "traffic")
				}
			}
		}
	}
}

// checkFlowControl warns of pauses that come too late, never, or to a peer that ignores them.
func (v *linter) checkFlowControl() {
	reach := v.plan.Extremes()
	for i, d := range v.qos.qosFiles {
		if d == nil || v.plan.Nodes[i].Kind != plan.Switch {
			continue
		}
		n := &v.plan.Nodes[i]
		for p := range n.Ports {
			port, at := &n.Ports[p], plan.End{Node: i, Port: p}
			if port.Link < 0 {
				continue
			}
			in, out := reach[port.Link][1-port.End], reach[port.Link][port.End]
			peer := v.plan.Links[port.Link].Ends[1-port.End]
			if f := d.Pause.Settings(); f != nil {
				v.warnOfShortHeadroom(at, f, "PAUSE", port.Headroom[0], in, out)
				if !v.plan.Nodes[peer.Node].Ports[peer.Port].Obeys.Pause {
					v.Warn(v.FirstSet(d.Pause, f), "give it pause: too",
						"%s asks %s for pauses of the whole port, which has no pause and ignores them: packets will be dropped", v.plan.PortName(i, p), v.plan.PortName(peer.Node, peer.Port))
				}
			}
			for j := range port.Classes {
				c, file := &port.Classes[j], d.classes[j]
				f := file.PFC.Settings()
				if c.PFC == nil || f == nil {
					continue
				}
				v.warnOfShortHeadroom(at, f, "class "+c.Name, port.Headroom[c.Priority], in, out)
				v.warnOfIgnoringPeer(at, peer, c, file)
				v.warnOfUnreachableXoff(n, c, file)
			}
		}
	}
}

// warnOfShortHeadroom warns of a headroom in the file that is less than the link needs.
func (v *linter) warnOfShortHeadroom(at plan.End, f *labfile.PFC, what string, has units.Bytes, in, out plan.Extreme) {
	if f.Headroom == nil {
		return
	}
	if need := plan.HeadroomFor(in, out); has < need.Bytes() {
		v.Warn(f.Headroom, "leave headroom out for what each link needs, or write more; weft headroom FILE shows how it follows",
			"a headroom of %v is too small for %s at %s: %v can come in after a pause has begun, and what finds no room is dropped", has, what, v.plan.PortName(at.Node, at.Port), need.Bytes())
	}
}

// warnOfIgnoringPeer warns of a peer that ignores the pauses of a class.
func (v *linter) warnOfIgnoringPeer(at, peer plan.End, c *class.Class, file *namedClass) {
	n := &v.plan.Nodes[peer.Node]
	if n.Ports[peer.Port].Obeys.Classes>>c.Priority&1 != 0 {
		return
	}
	name := ""
	if theirs := n.Ports[peer.Port].Class(c.Priority); theirs != nil {
		name = "its class " + theirs.Name + " has no pfc"
	}
	if n.QoS != nil && n.QoS.Pause != nil {
		name = "it has pause"
	}
	v.Warn(v.FirstSet(file.PFC, file.at), "PFC works where both ends of a link have it: give the class pfc there too",
		"%s asks %s for pauses of class %s (priority %d), which ignores them, as %s: packets will be dropped",
		v.plan.PortName(at.Node, at.Port), v.plan.PortName(peer.Node, peer.Port), c.Name, c.Priority, name)
}

// warnOfUnreachableXoff warns of thresholds that a queue does not let a class reach, and of marks that
// begin after pauses.
func (v *linter) warnOfUnreachableXoff(n *plan.Node, c *class.Class, file *namedClass) {
	place := v.FirstSet(file.Alpha, file.Limit, file.PFC.Settings().Xoff, file.PFC.Settings().Alpha, file.PFC, file.at)
	switch {
	case c.PFC.Xoff > 0 && c.Limit > 0 && c.Limit*units.Bytes(len(n.Ports)-1) < c.PFC.Xoff+c.Ingress.Reserve:
		v.Warn(place, "lower xoff or raise limit", "class %s of %s never pauses: its queues hold %v each and drop what is beyond, and xoff is %v of one ingress port", c.Name, n.Name, c.Limit, c.PFC.Xoff)
	case c.PFC.Xoff > 0 && c.Limit > 0 && c.Limit < c.PFC.Xoff+c.Ingress.Reserve:
		v.Warn(place, "lower xoff or raise limit", "a queue of class %s of %s drops what is beyond %v, before a pause begins: xoff is %v", c.Name, n.Name, c.Limit, c.PFC.Xoff)
	case c.PFC.Alpha > 0 && c.Alpha > 0 && c.Alpha <= c.PFC.Alpha:
		v.Warn(place, "leave out the alpha of the class's queue (none is the default of a lossless class), or pause at a lower alpha",
			"a queue of class %s of %s drops at alpha %g of the free buffer, before a pause begins: that is at alpha %g", c.Name, n.Name, c.Alpha, c.PFC.Alpha)
	case c.PFC.Alpha > 0 && c.Limit > 0 && n.QoS.Buffer > 0 && c.Limit < v.dynamicBalance(n, c.PFC.Alpha):
		v.Warn(place, "lower alpha of pfc or raise limit", "a queue of class %s of %s drops what is beyond %v, before a pause begins: with alpha %g one port alone is paused at %v",
			c.Name, n.Name, c.Limit, c.PFC.Alpha, v.dynamicBalance(n, c.PFC.Alpha))
	}
	if m, ok := c.Mark.Settings.(congestion.MarksFrom); ok && c.PFC.Xoff > 0 && m.MarksFrom() > c.PFC.Xoff {
		v.Warn(v.FirstSet(file.Mark, file.PFC, file.at), "mark well below xoff, so that senders slow down before they are paused",
			"class %s of %s marks from %v on, and a single sender is paused at %v: it never gets a mark", c.Name, n.Name, m.MarksFrom(), c.PFC.Xoff)
	}
}

// dynamicBalance returns where a dynamic threshold and the bytes of a single port meet.
func (v *linter) dynamicBalance(n *plan.Node, alpha float64) units.Bytes {
	return units.Bytes(float64(n.SharedBuffer()) * alpha / (1 + alpha))
}

// rdmaDSCPs returns the DSCPs of the modelled RDMA traffic.
func (v *linter) rdmaDSCPs() (all []uint8) {
	for i := range v.plan.Transfers {
		all = append(all, v.plan.Transfers[i].DSCP)
	}
	for i := range v.plan.Traffic {
		if r := v.plan.Traffic[i].RDMA; r != nil {
			all = append(all, r.DSCP)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nicPlace returns where the file has a setting of a host's NIC, or the NIC.
func (v *linter) nicPlace(node int, setting func(*labfile.NIC) any) any {
	own, kind := v.nodeFileOf(node).NIC, v.lab.Topology.Kinds.Host.NIC
	f := own.MergeOver(v.Reader, kind)
	return v.FirstSet(setting(f), f, own, kind, v.files[node])
}

// warnOfLossyNICs warns of NICs whose packets are in a lossy class of a switch that has a lossless
// one for other DSCPs.
func (v *linter) warnOfLossyNICs() {
	dscps := v.rdmaDSCPs()
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if n.NIC == nil || n.NIC.Recovery.Name != transport.DefaultRecovery { // other recoveries are for lossy networks
			continue
		}
		used := dscps
		if len(used) == 0 {
			used = []uint8{n.NIC.DSCP} // of programs
		}
		for _, p := range n.Ports {
			if p.Link < 0 {
				continue
			}
			end := v.plan.Links[p.Link].Ends[1-p.End]
			d := v.qos.qosFiles[end.Node]
			if d == nil || v.plan.Nodes[end.Node].Kind != plan.Switch {
				continue
			}
			for _, dscp := range used {
				v.warnOfLossyDSCP(i, end.Node, d, dscp)
			}
		}
	}
}

// warnOfLossyDSCP warns if RDMA packets with a DSCP are in a lossy class of a switch that has a
// lossless one.
func (v *linter) warnOfLossyDSCP(host, sw int, d *qosFile, dscp uint8) {
	var lossless, lossy *namedClass
	priority := v.plan.Nodes[sw].QoS.Map.DSCP[dscp]
	for _, c := range d.classes {
		switch {
		case d.isLossless(c) && c.priority == priority:
			return
		case d.isLossless(c) && len(c.DSCP) > 0:
			lossless = cmp.Or(lossless, c)
		case c.priority == priority:
			lossy = c
		}
	}
	if lossless == nil || lossy == nil {
		return
	}
	want := lossless.DSCP[0].Low
	v.Warn(v.nicPlace(host, func(f *labfile.NIC) any { return f.DSCP }), fmt.Sprintf("write nic: {dscp: %d}, or list DSCP %d in the class %s", want, dscp, lossless.name),
		"RDMA packets of %s have DSCP %d, which is in the lossy class %s of %s: its lossless class %s is for DSCP %d", v.plan.Nodes[host].Name, dscp, lossy.name, v.plan.Nodes[sw].Name, lossless.name, want)
}

// warnOfMissingMarks warns of rate controls that wait for the signals of congestion points where no queue
// for their packets has one.
func (v *linter) warnOfMissingMarks() {
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if n.NIC != nil && waitsForMarks(n.NIC.Control) {
			dscps := append(v.rdmaDSCPs(), n.NIC.DSCP)
			// Points that send messages may be in the class of those.
			if !slices.ContainsFunc(dscps, v.marksDSCP) && (!getsMessages(n.NIC.Control) || !v.marksAny()) {
				v.Warn(v.nicPlace(i, func(f *labfile.NIC) any { return f.Control }), markHint,
					"cc: %s of %s waits for marks, and no queue marks packets of DSCP %d: it never slows down", n.NIC.Control, n.Name, dscps[0])
			}
		}
		if n.Edge.Settings != nil {
			for _, c := range controlsIn(n.Edge.Settings) {
				if waitsForMarks(*c) && !v.marksAny() {
					v.Warn(v.FirstSet(v.nodeFileOf(i).Edge, v.lab.Topology.Kinds.Host.Edge, v.files[i]), markHint,
						"cc: %s of %s at %s waits for marks, and no queue marks packets: it never slows down", c, n.Edge.Name, n.Name)
				}
			}
		}
	}
	k := 0
	for i := range v.lab.Workload {
		if pattern, place, _ := patternOf(&v.lab.Workload[i]); pattern != nil && k < len(v.plan.Traffic) {
			if t := v.plan.Traffic[k].TCP; t != nil && waitsForMarks(t.Control) && !cc.TraitsOf(t.Control).ClassicECN && !v.marksDSCP(t.DSCP) {
				v.Warn(place, markHint, "cc: %s waits for marks, and no queue marks packets of DSCP %d: it never slows down but for losses", t.Control, t.DSCP)
			}
			k++
		}
	}
}

const markHint = "give the class or the queue a mark at the switches, such as mark: {red: {kmin: 100KB, kmax: 400KB, pmax: 0.2}}"

// waitsForMarks reports whether a control reacts to signals of congestion points alone.
func waitsForMarks(c cc.Choice) bool {
	return cc.TraitsOf(c).Marks != cc.AnswerNothing || getsMessages(c)
}

// getsMessages reports whether a control reacts to messages of congestion points.
func getsMessages(c cc.Choice) bool {
	m, err := cc.Methods.Find(c.Name)
	return err == nil && m.Feedback != nil
}

// marksDSCP reports whether any queue for packets with a DSCP has a congestion point.
func (v *linter) marksDSCP(dscp uint8) bool {
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		for p := range n.Ports {
			m := n.Ports[p].Queue.Mark
			if n.QoS != nil {
				if c := n.Ports[p].Class(n.QoS.Map.DSCP[dscp]); c != nil {
					m = c.Mark
				}
			}
			if m.Settings != nil {
				return true
			}
		}
	}
	return false
}

// marksAny reports whether any queue has a congestion point.
func (v *linter) marksAny() bool {
	for dscp := range uint8(64) {
		if v.marksDSCP(dscp) {
			return true
		}
	}
	return false
}

// warnOfShortMTUs warns of links between switches that take shorter packets than the hosts behind them
// send: a switch drops longer ones and tells nobody. A router tells the sender, but RoCE cannot
// make its packets shorter.
func (v *linter) warnOfShortMTUs() {
	domains := v.plan.Domains()
	type longest struct {
		mtu units.Bytes
		end plan.End
	}
	byDomain := map[int]longest{}
	var anywhere longest // of NICs
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if n.Kind != plan.Host {
			continue
		}
		for p := range n.Ports {
			port := &n.Ports[p]
			if port.Link < 0 {
				continue
			}
			x := longest{v.settingsOf(port, 0).MTU, plan.End{Node: i, Port: p}}
			if x.mtu > byDomain[domains[i][p]].mtu {
				byDomain[domains[i][p]] = x
			}
			if n.NIC != nil {
				if x.mtu = min(x.mtu, units.Bytes(n.NIC.MTU.Bytes())+overRoCE); x.mtu > anywhere.mtu {
					anywhere = x
				}
			}
		}
	}
	for l := range v.plan.Links {
		ends := v.plan.Links[l].Ends
		for d, from := range ends {
			mtu := v.plan.Links[l].Dir[d].MTU
			x := byDomain[domains[from.Node][from.Port]]
			if v.plan.Nodes[from.Node].Kind == plan.Host || x.end == from {
				continue
			}
			name := fmt.Sprintf("%s to %s", v.plan.PortName(from.Node, from.Port), v.plan.PortName(ends[1-d].Node, ends[1-d].Port))
			switch {
			case x.mtu > mtu:
				v.Warn(v.mtuPlace(l), fmt.Sprintf("give the link an mtu of %d or more, or those of the hosts one of %d", x.mtu, mtu),
					"the link from %s has an mtu of %d, and %s sends packets of up to %d: switches drop longer ones, and no host learns of it", name, mtu, v.plan.PortName(x.end.Node, x.end.Port), x.mtu)
			case anywhere.mtu > mtu && v.plan.Routed():
				v.Warn(v.mtuPlace(l), fmt.Sprintf("give the link an mtu of %d or more, or the NICs a smaller one, such as mtu: 1024", anywhere.mtu),
					"the link from %s has an mtu of %d, and the NIC of %s sends packets of up to %d, which routers drop", name, mtu, v.plan.PortName(anywhere.end.Node, anywhere.end.Port), anywhere.mtu)
			}
		}
	}
}

// mtuPlace returns where the file sets the MTU of a link, or the link.
func (v *linter) mtuPlace(link int) any {
	return v.FirstSet(v.linkPlaces[link], v.lab.Topology.Kinds.Link.MTU, v.lab.Topology.Generate, &v.lab.Topology)
}
