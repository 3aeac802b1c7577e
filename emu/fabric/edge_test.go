package fabric

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/edge/eqdsnic"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire"
)

// advice is the message of a switch in these tests to the sender of a flow: a rate.
type advice struct {
	key  packet.FlowKey
	rate units.Rate
}

func (a *advice) Len() int                { return 60 }
func (a *advice) EncodeTo(b []byte)       { binary.BigEndian.PutUint64(b, uint64(a.rate)) }
func (a *advice) Set(from packet.Body)    { *a = *from.(*advice) }
func (a *advice) Reset()                  { *a = advice{} }
func (a *advice) FlowKey() packet.FlowKey { return a.key }

var advising = packet.NewMessageProtocol(packet.MessageProtocol{Name: "advice", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: 50001, New: func() packet.Body { return &advice{} }})

// obedient is a rate control that sends at the rate it was told, and until then at the line
// rate.
type obedient struct {
	cc.NopControl
	rate   units.Rate
	active bool
	spells int
}

func (o *obedient) Rate() units.Rate { return o.rate }

func (o *obedient) OnMessage(_ units.Time, m cc.Feedback) { o.rate = m.(*advice).rate }

func (o *obedient) SetActive(_ units.Time, active bool) {
	if active == o.active {
		panic("told twice")
	}
	if o.active = active; active {
		o.spells++
	}
}

func (o *obedient) AppendGauges(_ units.Time, values []float64) []float64 {
	return append(values, float64(o.spells))
}

type obedience struct {
	Path bool `yaml:"path,omitempty" json:"path" jsonschema_description:"begin with half of the slowest link of the way"`
}

func (o *obedience) Validate(units.Rate) error { return nil }
func (o *obedience) Traits() cc.Traits         { return cc.Traits{NeedsPath: o.Path} }
func (o *obedience) New(f cc.Flow) cc.Control {
	if o.Path {
		return &obedient{rate: f.Path.Bottleneck / 2}
	}
	return &obedient{}
}

// adviser is a congestion point that sends each flow a rate that depends on the size of its
// packets.
type adviser struct {
	congestion.Passive
	env congestion.Env
}

// advised returns the rate for packets of a size.
func advised(size units.Bytes) units.Rate { return units.Rate(size) * 10_007 }

func (a *adviser) OnEnqueue(_ units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
	if p.Kind == packet.Protocol {
		return packet.Fine
	}
	m := a.env.NewReply(p, advising)
	if m == nil {
		return packet.Fine
	}
	body := m.Message.Body.(*advice)
	body.key, body.rate = p.FlowKey(4791), advised(p.Size)
	m.TOS = 46 << 2
	a.env.Send(m)
	return packet.Fine
}

type adviserSettings struct{}

func (*adviserSettings) Validate(units.Bytes) error { return nil }
func (*adviserSettings) New(e congestion.Env) congestion.Point {
	return &adviser{env: e}
}

func init() {
	cc.Methods.Register("test-obedient", cc.Method{
		Summary: "for tests", Presets: []string{"only"}, Feedback: advising,
		Preset: func(string, units.Rate) cc.Settings { return &obedience{} },
		Gauges: []gauge.Gauge{{Name: "spells"}},
	})
	congestion.Points.Register("test-adviser", congestion.Kind{
		Summary: "for tests", Settings: func(string, units.Rate) congestion.Settings { return &adviserSettings{} },
	})
	edge.Services.Register("test-toll", edge.Kind{
		Summary: "for tests", Settings: func(string, units.Rate) edge.Settings { return &tollSettings{Every: 1} },
	})
}

// wireRates measures the rates on the wire, from some time on, of modelled flows at a port.
type wireRates struct {
	from        units.Time
	first, last map[int32]units.Time
	bytes       map[int32]units.Bytes
	seq         map[int32]uint32
	disorder    int
}

func newWireRates(from units.Time) *wireRates {
	return &wireRates{from: from, first: map[int32]units.Time{}, last: map[int32]units.Time{}, bytes: map[int32]units.Bytes{}, seq: map[int32]uint32{}}
}

func (w *wireRates) Observe(now units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, fate packet.Fate, _ units.Bytes) {
	if dir != port.Out || p.Kind != packet.Modelled || fate.IsDrop() {
		return
	}
	if seq, ok := w.seq[p.Flow]; ok && p.Seq <= seq {
		w.disorder++
	}
	w.seq[p.Flow] = p.Seq
	if now < w.from {
		return
	}
	if _, ok := w.first[p.Flow]; !ok {
		w.first[p.Flow] = now
		w.bytes[p.Flow] = -packet.OnWire(p.Size) // the last packet's gap is not over
	}
	w.last[p.Flow] = now
	w.bytes[p.Flow] += packet.OnWire(p.Size)
}

func (w *wireRates) rate(flow int32) float64 {
	return float64(w.bytes[flow]) * 8 / (w.last[flow] - w.first[flow]).Seconds()
}

// TestEdgeLimit_HoldsEachFlowToItsRate: flows that offer more are sent at the limit, within a
// thousandth, whatever their packets' size. A flow that offers less is neither slowed nor held
// up by them. When the senders stop, the rest still leaves, and then the run ends.
func TestEdgeLimit_HoldsEachFlowToItsRate(t *testing.T) {
	f := New(parse(t, `
topology:
  kinds: {host: {attach: none, edge: {limit: {rate: 100Mbps}}}, switch: {queue: {limit: 1MB}}}
  generate: {star: {hosts: 3, rate: 1Gbps, delay: 1us}}
workload:
  - {cbr: {from: h1, to: h2, rate: 300Mbps, size: 1400B, for: 100ms}}
  - {poisson: {name: small, from: h1, to: h3, rate: 200Mbps, size: 100B, for: 100ms}}
  - {cbr: {name: modest, from: h1, to: h3, rate: 20Mbps, size: 500B, for: 100ms}}
`))
	h1 := interfaceOf(f, "h1")
	w := newWireRates(10 * units.Millisecond)
	h1.Port.SetObserver(0, w)
	if err := f.Run(context.Background(), 90*units.Millisecond); err != nil {
		t.Fatal(err)
	}
	for i := range int32(2) {
		if r := w.rate(i); math.Abs(r/100e6-1) > 0.001 {
			t.Errorf("flow %d is sent at %.0f b/s", i, r)
		}
	}
	// 500 B of payload are 566 B on the wire.
	if r := w.rate(2); math.Abs(r/(20e6*566/500)-1) > 0.001 {
		t.Errorf("the flow that is slow by itself is sent at %.0f b/s", r)
	}
	flows, err := f.EdgeFlowsOf("h1")
	if err != nil || len(flows) != 3 {
		t.Fatalf("%v, %+v", err, flows)
	}
	for _, x := range flows {
		r := f.Results()[slices.IndexFunc(f.Plan.Flows, func(w workload.Flow) bool { return w.Name == x.Flow })]
		if x.Flow != r.Flow || x.Peer == "" || x.Protocol != "udp" || x.Rate != 100*units.Mbps || x.TxPackets+uint64(x.QueuePackets) != r.Sent {
			t.Errorf("%+v of %+v", x, r)
		}
	}
	if s := statusOf(f, "h1"); s.Edge == nil || s.Edge.Service != "limit" || s.Edge.QueuePackets < 1000 {
		t.Errorf("%+v", s.Edge)
	}
	if a := f.Accounts(); !a.Balanced() || a.Held < 1000 {
		t.Errorf("%+v", a)
	}
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	if a := f.Accounts(); !a.Balanced() || a.Held != 0 || a.Dropped != 0 || a.Entered != a.Delivered {
		t.Errorf("%+v", a)
	}
	if w.disorder > 0 {
		t.Errorf("%d packets left out of order", w.disorder)
	}
	if r := f.Results()[2]; r.DelayMax > 50 {
		t.Errorf("the flow that is slow by itself waited for the others: at most %v us", r.DelayMax)
	}
}

// TestEdgeLimit_FollowsMessagesAboutItsFlows: the messages of a switch about a flow reach the
// rate control of that flow at its sender, for ordinary flows and for the NIC's beside them,
// though both use the same protocol; the status shows it.
func TestEdgeLimit_FollowsMessagesAboutItsFlows(t *testing.T) {
	lab := `
duration: 40ms
topology:
  kinds:
    host: {attach: none, nic: {cc: test-obedient}, edge: {limit: {cc: {test-obedient: {}}}}}
    switch: {classes: {control: {dscp: 46, priority: 6}, default: {mark: test-adviser, limit: 1MB}}}
  generate: {dumbbell: {left: 2, right: 2, rate: 1Gbps, delay: 1us, bottleneck: {rate: 1Gbps}}}
workload:
  - {cbr: {from: h1, to: h3, rate: 300Mbps, size: 1400B}}
  - {cbr: {from: h1, to: h4, rate: 300Mbps, size: 700B, ip: 6}}
  - {cbr: {from: h2, to: h4, rate: 1Mbps, size: 600B}}
  - {write: {from: h1, to: h3, size: 1GB}}
`
	for _, workers := range []int{1, 2} {
		f := build4(t, lab, workers)
		f.Failed = func(err error) { t.Error(err) }
		w := newWireRates(5 * units.Millisecond)
		interfaceOf(f, "h1").Port.SetObserver(0, w)
		runTo(t, f, 40*units.Millisecond)
		for i, size := range []units.Bytes{1442, 762} {
			if r, want := w.rate(int32(i)), float64(advised(size)); math.Abs(r/want-1) > 0.001 {
				t.Errorf("flow %d is sent at %.0f b/s in place of %.0f", i, r, want)
			}
		}
		flows, err := f.EdgeFlowsOf("h1:eth0")
		if err != nil || len(flows) != 2 {
			t.Fatalf("%v, %+v", err, flows)
		}
		for i, x := range flows {
			if x.Rate != advised([]units.Bytes{1442, 762}[i]) || len(x.Gauges) != 1 || x.Gauges[0].Value < 1 {
				t.Errorf("%+v", x)
			}
		}
		pairs, err := f.QPsOf("h1")
		if err != nil || len(pairs) != 1 || pairs[0].Rate != advised(1082) || f.NICs()[0].Counters.Of("rp_messages_ignored") != 0 {
			t.Errorf("%v, %+v", err, pairs)
		}
		e := statusOf(f, "h1").Edge
		if g := gauges(e.Gauges); g["messages"] < 100 || g["messages_ignored"] != 0 || g["flows"] != 2 {
			t.Errorf("%+v", e)
		}
		if a := f.Accounts(); !a.Balanced() {
			t.Errorf("%+v", a)
		}
	}
}

// interfaceOf returns the first interface of a host.
func interfaceOf(f *Fabric, host string) *hosts.Interface {
	n, _ := f.Plan.Node(host)
	return f.Interface(n, 0)
}

func statusOf(f *Fabric, host string) status.Port {
	n, _ := f.Plan.Node(host)
	return f.PortStatus(n, 0)
}

func gauges(list []gauge.Value) map[string]float64 {
	m := map[string]float64{}
	for _, g := range list {
		m[g.Name] = g.Value
	}
	return m
}

// TestEdgeLimit_IsTheSameWithWorkersAndCaptures: the trace is the same with one engine and
// with two, captured or not; and every packet is accounted for, though the table of flows is
// too small and queues overflow.
func TestEdgeLimit_IsTheSameWithWorkersAndCaptures(t *testing.T) {
	lab := `
duration: 30ms
topology:
  kinds:
    host: {attach: none, queue: {limit: 60KB}, nic: roce, edge: {limit: {rate: 31Mbps, flows: 2, age: 2ms}}}
    switch: {queue: {limit: 50KB}}
  generate: {dumbbell: {left: 3, right: 3, rate: 200Mbps, delay: 2us, loss: 0.5%, jitter: 3us, bottleneck: {rate: 100Mbps}}}
events:
  - {at: 10ms, from: "h1:eth0", set: {rate: 40Mbps}}
  - {at: 20ms, link: "h2:eth0", set: {state: down}}
  - {at: 22ms, link: "h2:eth0", set: {state: up}}
workload:
  - {on-off: {from: "h[1-3]", to: "h[4-6]", rate: 90Mbps, size: 1000B, on: 2ms, off: 3ms, phases: exponential}}
  - {poisson: {from: "h[4-6]", to: "h[1-3]", rate: 20Mbps, size: 200B, ip: 6}}
  - {write: {from: "h[1-3]", to: h4, size: 100KB, count: unlimited}}
`
	type result struct {
		trace    uint64
		accounts string
		flows    string
	}
	do := func(workers int, watch bool) result {
		f := build4(t, lab, workers)
		f.Failed = func(err error) { t.Error(err) }
		w := newWireRates(0)
		if watch {
			for _, iface := range f.Interfaces {
				iface.Port.SetObserver(0, observer(func(p *packet.Packet, _ port.Direction, _ packet.Fate) {
					if p.HasBytes() {
						new(renderer).render(p, nil)
					}
				}))
			}
			interfaceOf(f, "h1").Port.SetObserver(0, w)
		}
		runTo(t, f, 30*units.Millisecond)
		if w.disorder > 0 {
			t.Errorf("%d packets left out of order", w.disorder)
		}
		a := f.Accounts()
		if !a.Balanced() || a.Drops["queue-full"] == 0 {
			t.Errorf("%+v", a)
		}
		flows, err := f.EdgeFlowsOf("")
		if err != nil {
			t.Fatal(err)
		}
		full := 0.0
		for _, iface := range f.Interfaces {
			g := gauges(f.edgeStatus(f.Now(), iface).Gauges)
			full += g["table_full"]
			if g["flows"] > 2 {
				t.Errorf("%v flows", g["flows"])
			}
		}
		if full == 0 {
			t.Error("the table was never full")
		}
		return result{f.Trace(), fmt.Sprint(a), fmt.Sprint(flows)}
	}
	first := do(1, false)
	for _, c := range []struct {
		workers int
		watch   bool
	}{{1, true}, {2, false}, {2, true}} {
		if again := do(c.workers, c.watch); again != first {
			t.Errorf("%d workers, watched %v:\n%v\n%v", c.workers, c.watch, again, first)
		}
	}
}

// TestNICAndEdge_ShareAPortEqually: the NIC and the edge service each get half of a class of a
// port.
func TestNICAndEdge_ShareAPortEqually(t *testing.T) {
	f := build4(t, `
duration: 20ms
topology:
  kinds: {host: {attach: none, nic: {mtu: 1024}, edge: {limit: {rate: 1Gbps}}}, switch: {queue: {limit: 1MB}}}
  generate: {star: {hosts: 3, rate: 1Gbps, delay: 1us}}
workload:
  - {cbr: {from: h1, to: h2, rate: 2Gbps, size: 1040B}}
  - {write: {from: h1, to: h3, size: 1GB}}
`, 1)
	w := newWireRates(units.Millisecond)
	interfaceOf(f, "h1").Port.SetObserver(0, w)
	runTo(t, f, 20*units.Millisecond)
	if r := w.rate(0); math.Abs(r/500e6-1) > 0.01 {
		t.Errorf("the flow beside a queue pair is sent at %.0f b/s", r)
	}
}

// TestEdgeLimit_KnowsThePathOfAFlow: a rate control that asks for it is told the path of a
// flow, also for modelled flows.
func TestEdgeLimit_KnowsThePathOfAFlow(t *testing.T) {
	f := build4(t, `
duration: 1ms
topology:
  kinds: {host: {attach: none}, link: {rate: 1Gbps, delay: 1us}}
  nodes: {h1: {kind: host, edge: {limit: {cc: {test-obedient: {path: true}}}}}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 100Mbps}
    - {endpoints: ["h3:eth0", "s1:3"]}
workload:
  - {cbr: {from: h1, to: [h2, h3], rate: 100Mbps, size: 1000B}}
`, 1)
	runTo(t, f, units.Millisecond)
	flows, _ := f.EdgeFlowsOf("")
	if len(flows) != 2 || flows[0].Rate != 50*units.Mbps || flows[1].Rate != 500*units.Mbps {
		t.Errorf("%+v", flows)
	}
}

// toll is an edge service that does everything that one may do: it holds back every
// packet, including the NIC's, sends its own message for each to the same place, drops
// some, takes messages that arrive, and looks at everything else that arrives.
type toll struct {
	edge.Flowless
	*tollSettings
	env      edge.Env
	queue    [8]packet.List
	count    int
	bytes    units.Bytes
	nic      edge.Feeder
	nicHas   [8]units.Bytes
	took     int
	looked   int
	line     units.Rate
	fired    units.Time
	admitted int
}

type tollSettings struct {
	Every int `yaml:"every,omitempty" json:"every" jsonschema_description:"which packets are answered for"`
}

var tolls []*toll // in order of creation

func (s *tollSettings) Validate(units.Rate) error {
	var c registry.Check
	c.CheckNumber("every", s.Every, 1, 9)
	return c.Err()
}

func (s *tollSettings) New(e edge.Env) edge.Service {
	tolls = append(tolls, &toll{tollSettings: s, env: e, line: e.Line})
	return tolls[len(tolls)-1]
}

func (s *toll) SendPacket(now units.Time, p *packet.Packet) {
	if p.Version == 0 || p.Kind != packet.Modelled {
		s.env.Pass(now, p)
		return
	}
	if p.Seq%7 == 3 {
		s.env.Drop(now, p, packet.EarlyDrop)
		return
	}
	m := s.env.Pool.NewMessage(remarks[0])
	m.Message.To = s.peer(p)
	m.SrcPort = 9
	if !s.env.Address(m) {
		panic("nobody has " + m.Message.To.String())
	}
	s.env.Admit(now, m)
	s.admitted++
	s.push(m)
	s.push(p)
	s.env.Arm(now + 3*units.Microsecond)
}

// peer returns the IPv4 address of the interface that a packet is for.
func (s *toll) peer(p *packet.Packet) (to netip.Addr) { return tollPeers[p.Dest] }

func (s *toll) push(p *packet.Packet) {
	s.queue[p.Prio].Push(p)
	s.count++
	s.bytes += p.Size
}

func (s *toll) Fire(now units.Time) {
	s.fired = now
	for prio := range s.queue {
		s.feed(now, uint8(prio))
	}
}

func (s *toll) feed(now units.Time, prio uint8) {
	switch p := s.queue[prio].First(); {
	case p != nil:
		s.env.AnnouncePacket(now, prio, p.Size)
	default:
		s.env.AnnouncePacket(now, prio, s.nicHas[prio])
	}
}

func (s *toll) Next(now units.Time, prio uint8) *packet.Packet {
	p := s.queue[prio].Pop()
	if p == nil {
		return s.nic.Next(now, prio)
	}
	s.count--
	s.bytes -= p.Size
	s.feed(now, prio)
	return p
}

// NICPort implements edge.TakesNIC.
func (s *toll) NICPort(f edge.Feeder) edge.Port {
	s.nic = f
	return (*tollPort)(s)
}

type tollPort toll

func (s *tollPort) AnnouncePacket(now units.Time, prio uint8, size units.Bytes) {
	s.nicHas[prio] = size
	if s.queue[prio].Empty() {
		(*toll)(s).feed(now, prio)
	}
}

func (s *toll) WantsPacket(p *packet.Packet) bool {
	return p.Kind == packet.Modelled || p.Kind == packet.Protocol && p.Message.Protocol == remarks[0]
}

func (s *toll) ReceivePacket(now units.Time, p *packet.Packet) {
	if p.Kind == packet.Modelled {
		s.looked++
		s.env.DeliverPacket(now, p)
		return
	}
	s.took++
	s.env.Consume(now, p)
}

func (s *toll) SetLineRate(_ units.Time, r units.Rate)                { s.line = r }
func (s *toll) HeldPackets() (int, units.Bytes)                       { return s.count, s.bytes }
func (s *toll) AppendGauges(_ units.Time, values []float64) []float64 { return values }

// TestForeignEdgeService_MayHoldDropAndTakePackets: a service registered from outside may
// hold, drop, make, take and look at packets, and take the NIC's; all are accounted for and
// captured.
func TestForeignEdgeService_MayHoldDropAndTakePackets(t *testing.T) {
	for _, workers := range []int{1, 2} {
		f := build4(t, `
topology:
  kinds: {host: {attach: none, nic: roce, edge: {test-toll: {every: 2}}}}
  generate: {dumbbell: {left: 1, right: 1, rate: 1Gbps, delay: 1us, bottleneck: {rate: 1Gbps}}}
events: [{at: 1ms, from: "h1:eth0", set: {rate: 500Mbps}}]
workload:
  - {cbr: {from: h1, to: h2, rate: 100Mbps, size: 1000B, for: 2ms}}
  - {write: {from: h1, to: h2, size: 1MB}}
`, workers)
		tollPeers = nil
		for _, iface := range f.Interfaces {
			a, _ := plan.AddressOf(&f.Plan.Nodes[iface.Node].Ports[iface.Index], false)
			tollPeers = append(tollPeers, a)
		}
		fates := map[packet.Fate]int{}
		interfaceOf(f, "h1").Port.SetObserver(0, observer(func(p *packet.Packet, d port.Direction, fate packet.Fate) {
			if d == port.Out {
				fates[fate]++
			}
			if p.HasBytes() {
				new(renderer).render(p, nil)
			}
		}))
		if err := f.Run(context.Background(), units.Never); err != nil {
			t.Fatal(err)
		}
		a, b := tolls[len(tolls)-2], tolls[len(tolls)-1]
		if a.Every != 2 || a.line != 500*units.Mbps || a.admitted < 20 {
			t.Errorf("%+v", a)
		}
		if b.took != a.admitted || b.looked != a.admitted {
			t.Errorf("of %d packets and as many messages %d and %d arrived", a.admitted, b.looked, b.took)
		}
		all := f.Accounts()
		r := f.Results()[0]
		if !all.Balanced() || all.Held != 0 || all.Drops["early-drop"] != r.Sent-uint64(a.admitted) || fates[packet.EarlyDrop] != int(all.Drops["early-drop"]) {
			t.Errorf("%+v, %+v, %v", all, r, fates)
		}
		if done := f.Transfers()[0]; done.Completed != 1 {
			t.Errorf("%+v", done)
		}
	}
}

var tollPeers []netip.Addr

// TestGoEdge_SaysWhichServiceIsMissing: a host without an edge service and a host with another
// one give different errors.
func TestGoEdge_SaysWhichServiceIsMissing(t *testing.T) {
	f := New(parse(t, "topology: {kinds: {host: {attach: none}, link: {rate: 1Gbps}}, generate: {star: {hosts: 2}}, nodes: {h2: {edge: {limit: {rate: 1Mbps}}}}}"))
	for host, want := range map[string]string{"h1": "h1 has no edge service: write for example edge: eqds", "s1": "there is no host s1", "h9": "there is no host h9"} {
		if _, err := f.EdgeOf(host); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", host, err)
		}
		if _, err := f.GoEdge(host, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", host, err)
		}
	}
	s, err := f.EdgeOf("h2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eqdsnic.NativeOf(s); err == nil {
		t.Error("a limiter has a native EQIF")
	}
}

// TestEdgeStatus_HasTheOldestFlows: a status has the oldest flows of a service, and counts the
// others.
func TestEdgeStatus_HasTheOldestFlows(t *testing.T) {
	f := New(parse(t, `
duration: 1ms
topology:
  kinds: {host: {attach: none, edge: {limit: {rate: 10Mbps}}}}
  generate: {star: {hosts: 21, rate: 1Gbps, delay: 1us}}
workload: [{poisson: {from: h1, to: "h[2-9]", rate: 10Mbps, size: 100B}}, {poisson: {from: h1, to: "h1[0-9]", rate: 10Mbps, size: 100B}}, {cbr: {name: last, from: h1, to: h20, rate: 10Mbps, size: 100B, at: 900us}}]
`))
	runTo(t, f, units.Millisecond)
	s := statusOf(f, "h1").Edge
	if len(s.Flows) != status.MaxEdgeFlows || s.FlowsLeftOut != 19-status.MaxEdgeFlows || slices.ContainsFunc(s.Flows, func(x status.EdgeFlow) bool { return x.Flow == "last" }) {
		t.Errorf("%d flows, %d left out", len(s.Flows), s.FlowsLeftOut)
	}
	if all, err := f.EdgeFlowsOf("h1"); err != nil || len(all) != 19 || all[18].Flow != "last" {
		t.Errorf("%d flows, %v", len(all), err)
	}
}
