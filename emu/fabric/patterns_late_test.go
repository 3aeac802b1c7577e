package fabric

import (
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire/roce"
)

// meddler sits in front of a NIC: it loses packets, and passes on late copies of them.
type meddler struct {
	hosts.NIC
	engine *sim.Engine
	pool   *packet.Pool
	lose   func(p *packet.Packet) bool
	late   func(p *packet.Packet) []units.Time
	timer  sim.Timer
	held   []*packet.Packet // by rising At
	copies int
}

func meddle(f *Fabric, node int) *meddler {
	iface := f.interfaces[node][0]
	m := &meddler{NIC: iface.EmulatedNIC(), engine: f.engineOf(node), pool: iface.Pool}
	m.timer = m.engine.NewTimer(m)
	iface.SetNIC(m)
	return m
}

func (m *meddler) ReceivePacket(now units.Time, p *packet.Packet) {
	if m.late != nil {
		for _, by := range m.late(p) {
			c := m.pool.ClonePacket(p)
			c.At = now + by
			i := len(m.held)
			for i > 0 && m.held[i-1].At > c.At {
				i--
			}
			m.held = append(m.held[:i], append([]*packet.Packet{c}, m.held[i:]...)...)
			m.copies++
		}
		if len(m.held) > 0 {
			m.timer.Arm(m.held[0].At)
		}
	}
	if m.lose != nil && m.lose(p) {
		m.pool.Free(p)
		return
	}
	m.NIC.ReceivePacket(now, p)
}

func (m *meddler) Fire(now units.Time) {
	p := m.held[0]
	if m.held = m.held[1:]; len(m.held) > 0 {
		m.timer.Arm(m.held[0].At)
	}
	m.NIC.ReceivePacket(now, p)
}

// TestPooledQueuePairs_SurviveLateAndLostPackets: late packets are not taken for a flow or a
// part of one, also after later flows on the same connection, while others are in progress,
// and when another queue pair has the connection. If a flow's last acknowledgement, or last
// response, is lost, whichever queue pair has the connection answers when the sender asks
// again.
func TestPooledQueuePairs_SurviveLateAndLostPackets(t *testing.T) {
	for _, verb := range []workload.Verb{workload.Write, workload.Send, workload.Read} {
		for _, c := range []struct {
			name string
			lose bool
			late []units.Time
		}{
			{"last packets get lost", true, nil},
			{"requests come again late", false, []units.Time{3 * units.Microsecond, 40 * units.Microsecond, 130 * units.Microsecond, 700 * units.Microsecond, 9 * units.Millisecond}},
			{"last packets get lost and requests come again late", true, []units.Time{700 * units.Microsecond, 9 * units.Millisecond}},
		} {
			t.Run(verb.String()+", "+c.name, func(t *testing.T) { lateAndLost(t, verb, c.lose, c.late) })
		}
	}
}

func lateAndLost(t *testing.T, verb workload.Verb, lose bool, late []units.Time) {
	reads := verb == workload.Read
	p := fabrictest.Star(t, 3, "{timeout: 262us}", "")
	h := fabrictest.Hosts(p)
	p.Nodes[h[1]].NIC.Limits.QP = 3 // so that queue pairs keep changing their connections
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
	const n = 400
	for k := range n {
		// Pairs of flows begin together, so that there are two connections. Between
		// them come flows of another host, which take the queue pairs that no longer
		// linger.
		at := units.Time(k/2) * 400 * units.Microsecond
		f := pattern.Flow{Tag: uint32(k), From: h[0], To: h[1], Size: units.Bytes(k*977%5000 + 1), At: at}
		g := pattern.Flow{Tag: uint32(k), From: h[2], To: h[1], Size: 3000, At: at + 200*units.Microsecond}
		if reads {
			f.From, f.To, g.From, g.To = f.To, f.From, g.To, g.From
		}
		l.Flows[h[0]], l.Flows[h[2]] = append(l.Flows[h[0]], f), append(l.Flows[h[2]], g)
	}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{Verb: verb, MTU: 3, Chunk: 2000}}}
	f := New(p)
	there, here := meddle(f, h[1]), meddle(f, h[0])
	// Every request arrives again, some time later.
	there.late = func(*packet.Packet) []units.Time { return late }
	// For every second flow of h1, the packet that ends it is lost.
	lost, seen := map[uint32]bool{}, 0
	if lose {
		here.lose = func(p *packet.Packet) bool {
			op := p.RoCE.BTH.Opcode.Operation()
			ends := op == roce.Ack && p.RoCE.AETH.Syndrome == roce.SyndromeUnlimited || op == roce.ReadOnly || op == roce.ReadLast
			key := p.RoCE.BTH.PSN | p.RoCE.BTH.DestQP<<24
			if _, again := lost[key]; !ends || again {
				return false
			}
			seen++
			lost[key] = seen%2 == 0
			return lost[key]
		}
	}
	var all fabrictest.Records
	f.SetFlowSink(&all, false)
	f.traffic.collector.Finish = nil // it would look for NICs at the interfaces, and find meddlers
	runTo(t, f, units.Never)
	if err := f.EndFlows(); err != nil {
		t.Fatal(err)
	}
	fabrictest.CheckOnce(t, l, all, reads)
	slow := 0
	for _, r := range all {
		if r.State != records.Done {
			t.Errorf("%+v", r)
		}
		if r.FCT() > 262*units.Microsecond {
			slow++
		}
	}
	sum := f.Carriers()
	if lose && slow < n/50 || !lose && slow > 0 || there.copies < 2*n*len(late) || sum.Returned == 0 || sum.Returned < n/10 && !reads || sum.Retired > 0 {
		t.Error("too little was tried")
	}
	t.Logf("%d flows waited for a timeout, %d packets came late, %+v", slow, there.copies, sum)
}
