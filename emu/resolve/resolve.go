package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
)

// resolve makes a plan of a lab. Each part resolves one subject of the file and adds it to
// the plan; later parts build on earlier ones, and the order decides which faults are
// reported first.
func resolve(r *yamlfile.Reader, lab *labfile.Lab) (*plan.Plan, error) {
	b := newBase(r)
	kinds := &lab.Topology.Kinds

	(&header{base: b, file: lab}).resolve()
	t := &topology{base: b, file: &lab.Topology, queues: map[plan.End]labfile.Queue{}}
	t.generate()
	t.namedNodes()
	t.namedLinks()
	if err := b.Err(); err != nil {
		return nil, err
	}

	(&nodes{base: b, kinds: kinds}).resolve()
	c := controls{base: b}
	(&edges{controls: c, kinds: kinds}).resolve() // what they prepend to packets counts against the NICs' MTU
	(&nics{controls: c, kind: kinds.Host.NIC}).resolve()

	q := &qos{base: b, kinds: kinds, queues: t.queues}
	q.classes()
	reroute(b, lab.Topology.Reroute)
	q.portSettings()
	q.portClasses()

	(&addressing{base: b, file: &lab.Addressing, auto: kinds.Switch.Address}).resolve()
	(&hostNames{base: b, file: &lab.Topology}).check()
	learning(b, kinds.Switch.Learning)
	q.checkRoutedMarks()
	domain := b.plan.Domains()
	(&hostRoutes{base: b, domain: domain}).resolve()
	reach := b.plan.Reach()
	(&switchRoutes{base: b, domain: domain, routed: b.plan.Routed()}).resolve()

	d := &directions{base: b, qos: q, mtu: kinds.Link.MTU}
	d.check()
	bandwidthDelay(b.plan)
	d.checkTelemetry()
	d.events(lab.Events)
	q.buffers() // after the events, which change what buffers have to hold
	q.obeyed()
	q.queueEvents(lab.Events)

	(&traffic{controls: c, file: lab.Workload, reach: reach, duration: lab.Duration, window: lab.Window, names: map[string]int{}}).resolve()
	window(b, lab.Window, lab.Duration)
	samples(b, lab.Series)
	if err := b.Err(); err != nil {
		return nil, err
	}
	(&linter{base: b, qos: q, lab: lab}).lint()
	return b.plan, nil
}

// set overrides *to with a setting of the file; from is nil if the file does
// not set it.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
