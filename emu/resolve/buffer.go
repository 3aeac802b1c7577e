package resolve

import (
	"math"
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
)

// maxMemory bounds buffers and their reservations, so that sums fit into 64
// bits.
const maxMemory = plan.MaxHeadroom

// memory holds what a switch's buffer gives its classes. The zero memory is for
// a switch without a buffer.
type memory struct {
	size units.Bytes // total; 0 without a buffer
	part units.Bytes // static share of each class at each port; 0 if everything is shared

	pause float64    // alpha at which lossless classes pause
	lossy float64    // alpha of lossy queues
	nic   units.Rate // pause doubles per doubling of the port rate above this; 0: never

	queueReserve   units.Bytes // of lossy queues
	ingressReserve units.Bytes // of lossless classes
	ingressAlpha   float64     // of lossy classes
	offset         units.Bytes // of pauses; 0 means two packets
	flights        float64     // headroom covers at least this many link delays at line rate
}

// resolveMemory resolves the buffer of a switch. It returns false after a fault that
// leaves the buffer without a size.
func (v *qos) resolveMemory(node int) (memory, bool) {
	d := v.qosFiles[node]
	file := d.Buffer.Settings()
	if file == nil {
		return memory{}, true
	}
	n := &v.plan.Nodes[node]
	m := memory{pause: 1, lossy: 1}
	ports, parts := units.Bytes(max(len(n.Ports), 1)), units.Bytes(len(d.classes))
	if d.Pause.Settings() != nil {
		parts = 1 // all classes of a port fill and pause together
	}
	switch {
	case file.Preset == nil:
	case *file.Preset == labfile.HPCCBuffer:
		// alibaba-edu/High-Precision-Congestion-Control, simulation/run.py,
		// scratch/third.cc and switch-mmu.cc.
		m = memory{pause: 1.0 / 8, lossy: 1.0 / 8, nic: v.nicRate(), ingressReserve: 4 * units.KiB, offset: 3 * units.KiB, flights: 3}
		m.size = units.Bytes(math.Min(float64(16*units.MiB)*float64(m.nic)/50e9, float64(maxMemory)))
	case *file.Preset == labfile.BroadcomBuffer:
		// Broadcom Trident II as SONiC sets it for the Dell S6000
		// (sonic-buildimage, buffers_defaults_t1.j2, pg_profile_lookup.ini).
		m = memory{size: 12_766_208, pause: 1.0 / 8, lossy: 8, ingressAlpha: 8, queueReserve: 1518, offset: 2496}
	case *file.Preset == labfile.PerPortBuffer:
		m = memory{part: 240 * units.KB} // IRN: Mittal et al., SIGCOMM 2018, §4.1
	}
	if file.Size != nil {
		m.size = *file.Size
		if m.part > 0 {
			m.part = *file.Size
		}
	}
	if file.Alpha != nil {
		m.pause, m.lossy, m.nic = float64(*file.Alpha), float64(*file.Alpha), 0
	}
	if m.part > 0 {
		m.size = m.part * ports * parts
	}
	place := v.FirstSet(file.Size, file.Preset, file)
	switch {
	case file.Size != nil && (*file.Size == 0 || *file.Size > maxMemory):
		v.ReportFault(place, "leave the buffer out for unlimited memory", "buffer size %v is outside 1B to %v", *file.Size, maxMemory)
		return m, false
	case m.part > 0 && file.Alpha != nil:
		v.ReportFault(file.Alpha, "", "alpha has no effect: the shares of per-port are static")
	case m.size == 0 && file.Preset != nil:
		v.ReportFault(place, "write size: in the buffer", "hpcc sizes the buffer by the rate of the first host's link, and no host's link has a rate")
		return m, false
	case m.size == 0:
		v.ReportFault(place, "write for example buffer: {size: 12MB}, or a preset", "the buffer lacks size")
		return m, false
	}
	return m, true
}

// nicRate returns the rate of the first host link that has one, or 0.
func (v *qos) nicRate() units.Rate {
	for _, n := range v.plan.Nodes {
		for _, p := range n.Ports {
			if n.Kind == plan.Host && p.Link >= 0 && v.plan.Links[p.Link].Dir[p.End].Rate > 0 {
				return v.plan.Links[p.Link].Dir[p.End].Rate
			}
		}
	}
	return 0
}

// resolveBuffers resolves how much of the buffer the classes of switches may take, and
// how they pause and trim. It allows for everything that links do in the course
// of the run.
func (v *qos) resolveBuffers() {
	if !slices.ContainsFunc(v.qosFiles, func(d *qosFile) bool { return d != nil }) {
		return
	}
	reach := v.plan.Extremes()
	for i, d := range v.qosFiles {
		if d == nil || v.plan.Nodes[i].Kind == plan.Host {
			continue
		}
		m, ok := v.resolveMemory(i)
		if !ok {
			continue
		}
		n := &v.plan.Nodes[i]
		for p := range n.Ports {
			port := &n.Ports[p]
			for j, file := range d.classes {
				v.resolveBufferShare(d, file, &m, &port.Classes[j])
				v.resolvePFC(plan.End{Node: i, Port: p}, file, &m, reach, &port.Classes[j], &port.Headroom[file.priority])
				v.resolveCredits(plan.End{Node: i, Port: p}, file, &m, reach, &port.Classes[j])
			}
			for j, file := range d.classes {
				port.Classes[j].Trim = v.resolveTrimming(d, file, port, reach[port.Link][port.End].MTU)
			}
		}
		v.globalPause(i, &m, reach)
		v.checkBufferFill(i, &m)
	}
}

// resolveBufferShare resolves how much of the buffer a class may take.
func (v *qos) resolveBufferShare(d *qosFile, file *namedClass, m *memory, c *class.Class) {
	ingress := file.Ingress
	if ingress == nil {
		ingress = &labfile.Ingress{}
	}
	if d.isLossless(file) {
		c.Ingress.Reserve = m.ingressReserve
		hint := "pauses limit it: see xoff and alpha of pfc"
		if file.Credits.Settings() != nil {
			hint = "credits limit it: see buffer of credits"
			if ingress.Reserve != nil {
				v.ReportFault(ingress.Reserve, hint, "ingress of the class %s with credits has no reserve", file.name)
			}
		}
		if ingress.Limit != nil {
			v.ReportFault(ingress.Limit, hint, "ingress of the lossless class %s has no limit", file.name)
		}
		if ingress.Alpha != nil {
			v.ReportFault(ingress.Alpha, hint, "ingress of the lossless class %s has no alpha", file.name)
		}
	} else {
		c.Alpha, c.Reserve = m.lossy, m.queueReserve
		c.Ingress.Alpha = m.ingressAlpha
	}
	setFrom(&c.Reserve, file.Reserve)
	setFrom((*labfile.Alpha)(&c.Alpha), file.Alpha)
	setFrom(&c.Ingress.Reserve, ingress.Reserve)
	if m.part > 0 && !d.isLossless(file) {
		c.Ingress.Limit = max(m.part-c.Ingress.Reserve, 1)
	}
	setFrom(&c.Ingress.Limit, ingress.Limit)
	setFrom((*labfile.Alpha)(&c.Ingress.Alpha), ingress.Alpha)
	if ingress.Limit != nil && *ingress.Limit == 0 {
		v.ReportFault(ingress.Limit, "leave it out for no limit", "limit must be above 0")
	}
	for _, key := range []struct {
		name  string
		bytes *units.Bytes
		alpha *labfile.Alpha
	}{
		{"reserve", file.Reserve, nil}, {"alpha", nil, file.Alpha},
		{"reserve", ingress.Reserve, nil}, {"alpha", nil, ingress.Alpha},
	} {
		place := v.FirstSet(key.bytes, key.alpha)
		if place != nil && m.size == 0 {
			v.ReportFault(place, "write for example buffer: {size: 12MB} in the switch", "%s of the class %s is a share of the buffer, but the switch has no buffer", key.name, file.name)
		}
		v.checkMemory(key.bytes, key.name)
	}
}

// checkMemory checks an amount in the file, which may be nil.
func (v *qos) checkMemory(b *units.Bytes, what string) {
	if b != nil && *b > maxMemory {
		v.ReportFault(b, "", "%s %v exceeds %v", what, *b, maxMemory)
	}
}

// checkBufferFill checks a switch's classes against the size of the buffer.
func (v *qos) checkBufferFill(node int, m *memory) {
	n, d := &v.plan.Nodes[node], v.qosFiles[node]
	n.QoS.Buffer = m.size
	var headroom, reserve units.Bytes
	for p := range n.Ports {
		for _, h := range n.Ports[p].Headroom {
			headroom += h
		}
		for _, c := range n.Ports[p].Classes {
			reserve += c.Reserve + c.Ingress.Reserve
		}
	}
	shared := m.size - headroom - reserve
	if m.size > 0 && shared <= 0 {
		buffer := d.Buffer.Settings()
		v.ReportFault(v.FirstSet(buffer.Size, buffer.Preset, buffer), "the buffer must hold more than that",
			"the headroom of %s takes %v and its reserves %v: %v of a buffer of %v", n.Name, headroom, reserve, headroom+reserve, m.size)
		return
	}
	for p := range n.Ports {
		queue := v.queues[plan.End{Node: node, Port: p}]
		for j, c := range n.Ports[p].Classes {
			file := d.classes[j]
			if f := file.PFC.Settings(); f != nil && f.Xoff != nil && m.size > 0 && *f.Xoff > shared {
				v.ReportFault(f.Xoff, "", "xoff %v is never reached: without headroom and reserves, the buffer of %s holds %v", *f.Xoff, n.Name, shared)
			}
			mark := file.Mark
			if mark == nil {
				mark = queue.Mark
			}
			if maxLength := maxQueue(&c, m.size, shared); mark != nil && maxLength > 0 {
				v.checkMark(n, c.Mark, maxLength, mark)
				if k, err := congestion.Points.Find(mark.Name); err == nil && k.NotFair != "" && file.Order != nil && *file.Order == labfile.Fair {
					v.ReportFault(v.FirstSet(file.Order, mark), "leave out order: fair or mark: "+mark.Name, "%s and does not work with order: fair", k.NotFair)
				}
			}
		}
	}
}

// maxQueue returns the greatest length of a class's queue, 0 if it has no bound.
func maxQueue(c *class.Class, buffer, shared units.Bytes) units.Bytes {
	bound := buffer
	if c.Alpha > 0 {
		// A single queue in the buffer is in balance at T = alpha·(shared-T)
		// (Choudhury and Hahne 1998, §III).
		bound = c.Reserve + units.Bytes(float64(shared)*c.Alpha/(1+c.Alpha))
	}
	if c.Limit > 0 && (bound == 0 || c.Limit < bound) {
		bound = c.Limit
	}
	return bound
}
