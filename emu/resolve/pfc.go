package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/wire"
)

// Defaults of SONiC's pfcwd start_default.
const (
	watchdogDetect  = 200 * units.Millisecond
	watchdogRestore = 200 * units.Millisecond
)

// headroom returns the headroom of a port if the file does not set it.
func (m *memory) defaultHeadroom(in, out plan.Extreme) units.Bytes {
	return max(plan.HeadroomFor(in, out).Bytes(), plan.InFlight(in.Fastest, in.Delay, m.flights))
}

// pauseAt returns the alpha at which lossless classes of a port pause. HPCC's
// simulator doubles it, up to 1, with each doubling of the port's rate above
// the hosts' rate.
func (m *memory) pauseAt(r units.Rate) float64 {
	a := m.pause
	for ; m.nic > 0 && r > m.nic && a < 1; r /= 2 {
		a *= 2
	}
	return a
}

// resolvePFC resolves how a class of a port pauses.
func (v *qos) resolvePFC(at plan.End, file *namedClass, m *memory, reach [][2]plan.Extreme, c *class.Class, room *units.Bytes) {
	f := file.PFC.Settings()
	if f == nil {
		return
	}
	if d := v.qosFiles[at.Node]; d.Pause.Settings() != nil {
		v.ReportFault(file.PFC, "leave one of them out; none removes the kind's setting", "pause applies to all classes of a port, and the class %s also has pfc", file.name)
		return
	}
	port := &v.plan.Nodes[at.Node].Ports[at.Port]
	peer := v.plan.Links[port.Link].Ends[1-port.End]
	if theirs := v.qosFiles[peer.Node]; theirs != nil && !hasPriority(theirs, file.priority) {
		v.FailOnce(file.PFC, "give it a class with this priority", "%s asks %s for pauses of priority %d, which has no class there",
			v.plan.PortName(at.Node, at.Port), v.plan.Nodes[peer.Node].Name, file.priority)
		return
	}
	config, needs, ok := v.resolvePause(at, f, "pfc", m, reach, c.Ingress.Reserve)
	if ok {
		c.PFC, *room = &config, needs
	}
}

func hasPriority(d *qosFile, priority uint8) bool {
	for _, c := range d.classes {
		if c.priority == priority {
			return true
		}
	}
	return false
}

// globalPause resolves how the ports of a switch pause as a whole. The lowest
// threshold of any port applies to the whole switch.
func (v *qos) globalPause(node int, m *memory, reach [][2]plan.Extreme) {
	n, f := &v.plan.Nodes[node], v.qosFiles[node].Pause.Settings()
	if f == nil {
		return
	}
	for p := range n.Ports {
		var reserve units.Bytes
		for _, c := range n.Ports[p].Classes {
			reserve += c.Ingress.Reserve
		}
		config, needs, ok := v.resolvePause(plan.End{Node: node, Port: p}, f, "pause", m, reach, reserve)
		if !ok {
			return
		}
		n.Ports[p].Headroom[0] = needs
		if n.QoS.Pause == nil {
			n.QoS.Pause = &config
			continue
		}
		lowest := n.QoS.Pause
		lowest.Xoff, lowest.Alpha = min(lowest.Xoff, config.Xoff), min(lowest.Alpha, config.Alpha)
		lowest.Offset = max(lowest.Offset, config.Offset)
	}
	if lowest := n.QoS.Pause; lowest != nil && lowest.Xoff > 0 {
		lowest.Offset = min(lowest.Offset, lowest.Xoff)
	}
}

// resolvePause resolves how a port requests pauses, and its headroom. Reserve is the
// part of the port's share that the threshold does not count.
func (v *qos) resolvePause(at plan.End, f *labfile.PFC, what string, m *memory, reach [][2]plan.Extreme, reserve units.Bytes) (c pfc.Config, room units.Bytes, ok bool) {
	before := v.Faults()
	name := v.plan.PortName(at.Node, at.Port)
	port := &v.plan.Nodes[at.Node].Ports[at.Port]
	out, in := reach[port.Link][port.End], reach[port.Link][1-port.End]
	peer := v.plan.Links[port.Link].Ends[1-port.End].Node
	if out.Slowest == 0 || in.Slowest == 0 {
		v.FailOnce(f, "write rate: in the link, or in link: under kinds", "%s needs links with a rate, as pauses are counted in bit times: the link of %s is unlimited", what, name)
		return c, 0, false
	}
	if v.qosFiles[peer] == nil {
		v.FailOnce(f, "give it classes too", "%s of %s has no effect: %s has a plain queue, which cannot be paused", what, name, v.plan.Nodes[peer].Name)
		return c, 0, false
	}
	v.checkMemory(f.Headroom, "headroom")
	if frame := in.MTU + wire.EthernetHeader; f.Headroom != nil && *f.Headroom < frame {
		v.FailOnce(f.Headroom, fmt.Sprintf("leave it out for what the link needs, here %v (weft headroom shows how it follows)", m.defaultHeadroom(in, out)),
			"a headroom of %v takes no packet of the MTU (%dB with its Ethernet header) at %s: what comes in after a pause has begun is dropped", *f.Headroom, frame, name)
	}
	room = m.defaultHeadroom(in, out)
	setFrom(&room, f.Headroom)

	v.resolveThreshold(&c, f, what, m, out.Fastest, m.part-reserve-room)
	if m.part > 0 && c.Xoff < 0 {
		v.FailOnce(f, "enlarge size of the buffer, or set headroom", "%s has %v for a class, less than the headroom %v and the reserve %v", name, m.part, room, reserve)
	}
	v.resolveOffset(&c, f, what, m, in.MTU)

	c.Quanta = pfc.DefaultQuanta
	setFrom((*labfile.Quanta)(&c.Quanta), f.Quanta)
	setFrom(&c.Refresh, f.Refresh)
	const quantum = 512 / 8 // IEEE 802.3 §31B.2
	if lasts := in.Fastest.TimeOf(units.Bytes(c.Quanta) * quantum); f.Refresh != nil && *f.Refresh >= lasts {
		v.FailOnce(f.Refresh, "shorten refresh, or leave it out for half of that", "refresh %v is too late: at %s a pause of %d quanta lasts %v", *f.Refresh, name, c.Quanta, lasts)
	}
	if f.Refresh != nil && *f.Refresh == 0 {
		v.ReportFault(f.Refresh, "leave it out for half of the pause time", "refresh must be above 0")
	}
	if w := f.Watchdog; w != nil {
		c.Watchdog = pfc.Watchdog{Detect: watchdogDetect, Restore: watchdogRestore}
		setFrom(&c.Watchdog.Detect, w.Detect)
		setFrom(&c.Watchdog.Restore, w.Restore)
		setFrom(&c.Watchdog.Action, w.Action)
		v.checkTime(w.Detect, "detect", maxTime)
		v.checkTime(w.Restore, "restore", maxTime)
		if c.Watchdog.Detect == 0 {
			v.ReportFault(w.Detect, "200ms is the default", "detect must be above 0")
		}
	}
	return c, room, v.Faults() == before
}

// resolveThreshold resolves where a pause begins. Part is what a port's share of the
// buffer leaves for the threshold, if ports have shares.
func (v *qos) resolveThreshold(c *pfc.Config, f *labfile.PFC, what string, m *memory, rate units.Rate, part units.Bytes) {
	switch {
	case f.Xoff != nil && f.Alpha != nil:
		v.ReportFault(f.Alpha, "xoff is a static threshold, alpha a dynamic one", "%s has both xoff and alpha", what)
	case f.Xoff != nil && *f.Xoff == 0:
		v.ReportFault(f.Xoff, "write for example xoff: 500KB", "xoff 0B would pause forever")
	case f.Xoff != nil && m.part > 0 && *f.Xoff > part:
		v.ReportFault(f.Xoff, "", "xoff %v is never reached: without headroom and reserve, a port has only %v", *f.Xoff, max(part, 0))
	case f.Xoff != nil:
		v.checkMemory(f.Xoff, "xoff")
		c.Xoff = *f.Xoff
	case f.Alpha != nil && m.size == 0:
		v.ReportFault(f.Alpha, "write for example buffer: {size: 12MB} in the switch, or xoff in place of alpha", "alpha of %s is a share of the buffer, but the switch has no buffer", what)
	case f.Alpha != nil && *f.Alpha > 0:
		c.Alpha = float64(*f.Alpha)
	case m.part > 0 && f.Alpha == nil:
		c.Xoff = part
		if part == 0 {
			c.Xoff = -1 // zero would mean no threshold at all
		}
	case m.pause > 0 && f.Alpha == nil:
		c.Alpha = m.pauseAt(rate)
	default:
		v.ReportFault(v.FirstSet(f.Alpha, f), "write for example xoff: 500KB, or give the switch a buffer with an alpha", "%s lacks xoff, the threshold at which a pause begins", what)
	}
}

// resolveOffset resolves where a pause ends.
func (v *qos) resolveOffset(c *pfc.Config, f *labfile.PFC, what string, m *memory, mtu units.Bytes) {
	switch {
	case f.Xon != nil && f.Offset != nil:
		v.ReportFault(f.Offset, "xon is xoff less offset", "%s has both xon and offset", what)
	case f.Xon != nil && c.Alpha > 0:
		v.ReportFault(f.Xon, "write offset: how far below the threshold a pause ends", "xon needs xoff: a dynamic threshold has no fixed xon")
	case f.Xon != nil && c.Xoff > 0 && *f.Xon > c.Xoff:
		v.ReportFault(f.Xon, "a pause begins at xoff and ends at xon", "xon %v is above xoff %v", *f.Xon, c.Xoff)
	case f.Xon != nil:
		c.Offset = c.Xoff - *f.Xon
	case f.Offset != nil:
		c.Offset = *f.Offset
		v.checkMemory(f.Offset, "offset")
		if c.Xoff > 0 && c.Offset > c.Xoff {
			v.ReportFault(f.Offset, "a pause ends at xoff less offset", "offset %v is above xoff %v", c.Offset, c.Xoff)
		}
	default:
		c.Offset = 2 * mtu
		if m.offset > 0 {
			c.Offset = m.offset
		}
		if c.Xoff > 0 {
			c.Offset = min(c.Offset, c.Xoff)
		}
	}
}
