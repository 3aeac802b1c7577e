package hosts

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/dcqcn"
	"github.com/weftlab/weft/protocols/rocc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/port"
)

// settings are those of the NICs in these tests, with DCQCN.
func settings() nicemu.Settings {
	c := dcqcn.Preset("connectx", units.Gbps)
	return nicemu.Settings{
		MTU: qp.MTU1024, DSCP: 8, AskEvery: 64, Timeout: 12, RetryCount: 2, RNRRetry: 7, MinRNR: 12, Limits: qp.ConnectX5(),
		Control: cc.Choice{Name: "dcqcn", Preset: "connectx", Settings: &c},
	}
}

// pair is two NICs and a queue pair of each, connected.
type pair struct {
	*world
	nics [2]*nicemu.Device
	qps  [2]*nicemu.QP
	mrs  [2]*nicemu.MR
}

const regionSize = 100 * units.KB

func newPair(t testing.TB, change func(w *world)) *pair {
	t.Helper()
	x := &pair{world: newWorld(change)}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for k, i := range x.interfaces {
		d, err := i.AddNIC(settings(), nicemu.Env{Rand: sim.NewRand(1, i.Name)})
		check(err)
		pd, err := d.AllocPD()
		check(err)
		cq, err := d.CreateCQ(16, nil)
		check(err)
		x.qps[k], err = pd.CreateQP(nicemu.QPConfig{Type: nicemu.RC, SendCQ: cq, RecvCQ: cq, Cap: nicemu.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		check(err)
		x.mrs[k], err = pd.RegisterSize(regionSize, nicemu.LocalWrite|nicemu.RemoteWrite)
		check(err)
		x.nics[k] = d
	}
	for k, q := range x.qps {
		check(q.Join(nicemu.Join{Local: addressOf(k, false), Remote: addressOf(1-k, false), RemoteQPN: x.qps[1-k].Number(), Access: nicemu.RemoteWrite}))
	}
	return x
}

// write posts a WRITE of n bytes from the first NIC to the second.
func (x *pair) write(t testing.TB, n units.Bytes) {
	t.Helper()
	if err := x.qps[0].PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{x.mrs[0].SGE(0, n)}, RemoteVA: x.mrs[1].Addr(0), RKey: x.mrs[1].RKey()}); err != nil {
		t.Fatal(err)
	}
}

func counter(d *nicemu.Device, name string) (n uint64) {
	d.EachCounter(func(found string, v uint64) {
		if found == name {
			n = v
		}
	})
	return n
}

// TestAddNIC_JoinsNICs: a WRITE passes between two NICs, in the class of its DSCP; what they send
// and receive is counted as entered and delivered.
func TestAddNIC_JoinsNICs(t *testing.T) {
	x := newPair(t, nil)
	x.write(t, regionSize)
	x.run()
	a, b := x.interfaces[0], x.interfaces[1]
	if counter(x.nics[1], "rx_write_requests") != 1 || a.Entered < 98 || a.Entered != b.Delivered || b.Entered == 0 || b.Entered != a.Delivered || x.pool.LivePackets() != 0 {
		t.Errorf("%d and %d entered, %d and %d were delivered", a.Entered, b.Entered, a.Delivered, b.Delivered)
	}
	if sent := a.Port.Class(x.engine.Now(), 1).TxPackets; sent != a.Entered {
		t.Errorf("%d of %d packets are in the class of their DSCP", sent, a.Entered)
	}
	for k, d := range x.nics {
		if i := x.interfaces[k]; i.EmulatedNIC() != d || d.Name() != i.Name || d.MAC() != i.MAC || d.Line() != units.Gbps || len(d.GIDs()) != 3 {
			t.Errorf("%s: %s, %x, %v, GIDs %v", i.Name, d.Name(), d.MAC(), d.Line(), d.GIDs())
		}
	}
	if a.SetLineRate(x.engine.Now(), 100*units.Mbps); x.nics[0].Line() != 100*units.Mbps {
		t.Errorf("the NIC knows of %v", x.nics[0].Line())
	}
}

// TestAddNIC_SaysWhichNICIsWrong: an error has the name of the interface, which then has no NIC.
func TestAddNIC_SaysWhichNICIsWrong(t *testing.T) {
	i := newWorld(nil).interfaces[0]
	s := settings()
	s.DSCP = 64
	if d, err := i.AddNIC(s, nicemu.Env{}); err == nil || !strings.Contains(err.Error(), "NIC h1:eth0: dscp is 64") || d != nil || i.EmulatedNIC() != nil {
		t.Errorf("%v, %v", d, err)
	}
	i.SetNIC(&nicBox{})
	if i.EmulatedNIC() != nil {
		t.Error("another NIC is no emulated one")
	}
}

// TestNotify_SlowsTheSender: the edge service in front of a NIC slows the queue pair that sent a
// packet, as a CNP does.
func TestNotify_SlowsTheSender(t *testing.T) {
	var services [2]*holding
	x := newPair(t, func(w *world) { w.prepare = func(i *Interface) { services[i.ID] = addHolding(i) } })
	var sent *packet.Packet
	x.interfaces[0].Port.SetObserver(0, observer(func(_ units.Time, dir port.Direction, p *packet.Packet) {
		if dir == port.Out && sent == nil {
			sent = x.pool.ClonePacket(p)
		}
	}))
	x.write(t, units.KB)
	x.run()
	if sent == nil {
		t.Fatal("nothing is sent")
	}
	before := x.qps[0].Status().Rate
	if !services[0].env.Notify(x.engine.Now(), sent) || services[1].env.Notify(x.engine.Now(), sent) {
		t.Error("the sender is not known, or it is the other NIC")
	}
	if rate := x.qps[0].Status().Rate; rate == 0 || rate >= before || before != units.Gbps {
		t.Errorf("the queue pair sends at %v, before at %v", rate, before)
	}
}

type observer func(now units.Time, dir port.Direction, p *packet.Packet)

func (o observer) Observe(now units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, _ packet.Fate, _ units.Bytes) {
	o(now, dir, p)
}

// TestNICClock_MeasuresWithTheHostsClock: a NIC with a slow clock waits longer for an
// acknowledgement, in emulated time, and one with a fast clock less, by as much as the clock is wrong.
func TestNICClock_MeasuresWithTheHostsClock(t *testing.T) {
	times := func(c *nodeclock.Clock) (sent []units.Time) {
		x := newPair(t, func(w *world) { w.clock, w.loss = c, 1 })
		x.interfaces[0].Port.SetObserver(0, observer(func(now units.Time, dir port.Direction, _ *packet.Packet) {
			if dir == port.Out {
				sent = append(sent, now)
			}
		}))
		x.write(t, units.KB)
		x.run()
		if now := x.engine.Now(); x.nics[0].Now() != c.ReadAt(now) {
			t.Errorf("at %v the NIC shows %v, its clock %v", now, x.nics[0].Now(), c.ReadAt(now))
		}
		return sent
	}
	exact := times(nil)
	for _, wrong := range []nodeclock.PPB{-1000 * nodeclock.PPM, 1000 * nodeclock.PPM} {
		got := times(nodeclock.New(nodeclock.Settings{Error: wrong}, 1, "h1:eth0"))
		if len(exact) != 3 || len(got) != 3 { // the packet and its two retries
			t.Fatalf("sent at %v and at %v", exact, got)
		}
		for k := 1; k < 3; k++ {
			a, b := exact[k]-exact[0], got[k]-got[0]
			if off := b - a + a/1000*units.Time(wrong/(1000*nodeclock.PPM)); off < -a/1e5 || off > a/1e5 {
				t.Errorf("%v: retry %d after %v, with an exact clock after %v", wrong, k, b, a)
			}
		}
	}
}

// TestAddNIC_TakesFeedback: the messages of switches for the NIC's rate control go to the NIC and
// not to the device.
func TestAddNIC_TakesFeedback(t *testing.T) {
	x := newWorld(nil)
	i := x.interfaces[0]
	i.Attach(&inbox{})
	s := settings()
	c := rocc.Preset("paper", units.Gbps)
	s.Control = cc.Choice{Name: "rocc", Settings: &c}
	if _, err := i.AddNIC(s, nicemu.Env{Rand: sim.NewRand(1, i.Name)}); err != nil {
		t.Fatal(err)
	}
	i.InputPacket(0, i.Port, x.pool.NewMessage(rocc.Protocol))
	if i.Delivered != 1 || i.ReceiverOf(rocc.Protocol) == nil || x.pool.LivePackets() != 0 {
		t.Errorf("%d messages are delivered, %d live", i.Delivered, x.pool.LivePackets())
	}
}

// TestAddNIC_TakesTurnsWithTheEdgeService: a service that does not carry the NIC's packets and the
// NIC send in turns; one that does gets the NIC.
func TestAddNIC_TakesTurnsWithTheEdgeService(t *testing.T) {
	x := newPair(t, func(w *world) { w.prepare = func(i *Interface) { addHolding(i) } })
	var order []packet.Kind
	x.interfaces[0].Port.SetObserver(0, observer(func(_ units.Time, dir port.Direction, p *packet.Packet) {
		if dir == port.Out {
			order = append(order, p.Kind)
		}
	}))
	x.interfaces[1].Attach(drain{x.pool})
	x.write(t, 5*units.KB)
	for range 5 {
		x.interfaces[0].Enter(0, x.parsed(frame(0, 1, 8, 9, 1000)))
	}
	x.run()
	if counter(x.nics[1], "rx_write_requests") != 1 || x.interfaces[1].Delivered < 10 {
		t.Errorf("%d packets have arrived", x.interfaces[1].Delivered)
	}
	changes := 0
	for k := 1; k < len(order); k++ {
		if order[k] != order[k-1] {
			changes++
		}
	}
	if len(order) != 10 || changes < 8 {
		t.Errorf("packets leave in the order %v", order)
	}

	w := newWorld(nil)
	s := taking{&holding{}}
	w.interfaces[0].AddEdge(edge.Choice{Settings: s}, [class.Count]units.Bytes{}, nil)
	if _, err := w.interfaces[0].AddNIC(settings(), nicemu.Env{}); err != nil || s.nic != edge.Feeder(w.interfaces[0].nic.(*nic)) {
		t.Errorf("the service has %v, %v", s.nic, err)
	}
}
