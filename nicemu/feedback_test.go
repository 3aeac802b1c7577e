package nicemu

import (
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// order is a message that sets a flow's rate.
type order struct {
	about packet.FlowKey
	rate  units.Rate
}

func (o *order) Len() int                { return 0 }
func (o *order) EncodeTo([]byte)         {}
func (o *order) Set(from packet.Body)    { *o = *from.(*order) }
func (o *order) Reset()                  { *o = order{} }
func (o *order) FlowKey() packet.FlowKey { return o.about }

var orders = packet.NewMessageProtocol(packet.MessageProtocol{Name: "orders", Proto: wire.ProtoICMP, Proto6: wire.ProtoICMPv6, New: func() packet.Body { return &order{} }})

// obedient follows the messages.
type obedient struct {
	cc.NopControl
	rate units.Rate
	said []string
}

func (o *obedient) Rate() units.Rate { return o.rate }

func (o *obedient) OnMessage(_ units.Time, m cc.Feedback) { o.rate = m.(*order).rate }

func (o *obedient) SetActive(now units.Time, active bool) {
	if active {
		o.said = append(o.said, "active")
	} else {
		o.said = append(o.said, "idle")
	}
}

func init() {
	cc.Methods.Register("obedient", cc.Method{
		Presets: []string{"only"}, Feedback: orders,
		Preset: func(string, units.Rate) cc.Settings { return made(nil) },
	})
}

// TestMessagesReachTheirFlow: a message about a queue pair's flow reaches its rate control and no
// other; other messages are counted.
func TestMessagesReachTheirFlow(t *testing.T) {
	controls := []*obedient{}
	w := newWorld(t, 2, func(s *Settings, _ *Env) {
		s.Control = cc.Choice{Name: "obedient", Preset: "only", Settings: made(func(units.Rate) cc.Control {
			controls = append(controls, &obedient{rate: lineRate})
			return controls[len(controls)-1]
		})}
	})
	a, b := w.host(0), w.host(1)
	first, second, far := a.qp(qp.RC), a.qp(qp.RC), b.qp(qp.RC)
	join(t, first, far, qp.MTU1024, false)
	join(t, second, b.qp(qp.RC), qp.MTU1024, false)
	tell := func(about packet.FlowKey, rate units.Rate) {
		p := w.pool.NewMessage(orders)
		*p.Message.Body.(*order) = order{about, rate}
		a.ReceiveMessage(w.engine.Now(), p)
	}
	key := packet.FlowKey{From: v4(0), To: v4(1), QP: far.Number()}
	tell(key, units.Gbps)
	if r, _ := first.Rate(); r != units.Gbps {
		t.Errorf("the rate is %v", r)
	}
	if r, _ := second.Rate(); r != lineRate {
		t.Errorf("the other's is %v", r)
	}
	wrong := key
	wrong.QP = 99
	tell(wrong, units.Mbps)
	wrong = key
	wrong.From = v6(0)
	tell(wrong, units.Mbps)
	if c, _ := a.Counters(); c.RPMessagesHandled != 1 || c.RPMessagesIgnored != 2 {
		t.Errorf("%+v", c)
	}
	if err := first.SetState(qp.Reset); err != nil {
		t.Fatal(err)
	}
	tell(key, units.Mbps)
	if c, _ := a.Counters(); c.RPMessagesIgnored != 3 || w.pool.LivePackets() != 0 {
		t.Errorf("after RESET: %+v, %d packets are live", c, w.pool.LivePackets())
	}
}

// TestActive: a control is told when its flow has data to send, and when all of it is acknowledged.
func TestActive(t *testing.T) {
	var c *obedient
	w := newWorld(t, 2, withControl(func(units.Rate) cc.Control {
		c = &obedient{rate: lineRate}
		return c
	}))
	a, b := w.host(0), w.host(1)
	qa, qb := a.qp(qp.RC), b.qp(qp.RC)
	join(t, qb, qa, qp.MTU1024, false) // the last control is a's
	for range 2 {
		post(t, qa, transport.SendWR{Op: transport.Write, SGL: []memory.SGE{a.mr.SGE(0, 3000)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
		w.run(w.engine.Now() + units.Millisecond)
	}
	if len(c.said) != 4 || c.said[0] != "active" || c.said[1] != "idle" || c.said[2] != "active" || c.said[3] != "idle" {
		t.Errorf("%v", c.said)
	}
}
