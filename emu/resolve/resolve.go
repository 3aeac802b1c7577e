package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
)

// resolveLab makes a plan of a lab. Each part resolves one subject of the file and adds it to
// the plan; later parts build on earlier ones, and the order decides which faults are
// reported first. clock is the preset of nodes whose clock the file does not set.
func resolveLab(r *yamlfile.Reader, lab *labfile.Lab, clock string) (*plan.Plan, error) {
	b := newBase(r)
	kinds := &lab.Topology.Kinds

	(&header{base: b, file: lab}).resolveHeader()
	t := &topology{base: b, file: &lab.Topology, queues: map[plan.End]labfile.Queue{}}
	t.generateNodes()
	t.namedNodes()
	t.namedLinks()
	if err := b.Err(); err != nil {
		return nil, err
	}

	(&nodes{base: b, kinds: kinds}).resolveNodes()
	(&clocks{base: b, file: lab, preset: clock}).resolveClocks()
	c := controls{base: b}
	(&edges{controls: c, kinds: kinds}).resolveEdges() // what they prepend to packets counts against the NICs' MTU
	(&nics{controls: c, kind: kinds.Host.NIC}).resolveNICs()

	q := &qos{base: b, kinds: kinds, queues: t.queues}
	q.resolveClasses()
	resolveReroute(b, lab.Topology.Reroute)
	q.portSettings()
	q.portClasses()

	(&addressing{base: b, file: &lab.Addressing, auto: kinds.Switch.Address}).resolveAddresses()
	(&hostNames{base: b, file: &lab.Topology}).check()
	learning(b, kinds.Switch.Learning)
	q.checkRoutedMarks()
	domain := b.plan.Domains()
	(&hostRoutes{base: b, domain: domain}).resolveHostRoutes()
	reach := b.plan.Reach()
	(&switchRoutes{base: b, domain: domain, routed: b.plan.Routed()}).resolveSwitchRoutes()

	d := &directions{base: b, qos: q, mtu: kinds.Link.MTU}
	d.checkStart()
	bandwidthDelay(b.plan)
	d.checkTelemetry()
	d.resolveEvents(lab.Events)
	q.resolveBuffers() // after the events, which change what buffers have to hold
	q.resolveObeyed()
	q.resolveQueueEvents(lab.Events)

	(&traffic{controls: c, file: lab.Workload, reach: reach, duration: lab.Duration, window: lab.Window, names: map[string]int{}, shared: map[int][2]int{}}).resolveTraffic()
	resolveWindow(b, lab.Window, lab.Duration)
	resolveSamples(b, lab.Series)
	if err := b.Err(); err != nil {
		return nil, err
	}
	(&linter{base: b, qos: q, lab: lab}).warnOfMistakes()
	return b.plan, nil
}

// setFrom overrides *to with a setting of the file; from is nil if the file does
// not set it.
func setFrom[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
