package limit

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// note is a message that the far end sends back, unless it is the last one.
type note struct {
	about    packet.FlowKey
	returned bool
	last     bool
}

func (n *note) Len() int                { return 4 }
func (n *note) EncodeTo(b []byte)       { clear(b) }
func (n *note) Set(from packet.Body)    { *n = *from.(*note) }
func (n *note) Reset()                  { *n = note{} }
func (n *note) FlowKey() packet.FlowKey { return n.about }
func (n *note) IsOutward() bool         { return !n.returned }
func (n *note) TurnAround() bool {
	n.returned = !n.last
	return n.returned
}
func (n *note) ReplacesOlder(cc.Probe) bool { return true }

var notes = packet.NewMessageProtocol(packet.MessageProtocol{Name: "notes", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: 9, New: func() packet.Body { return &note{} }})

// talker sends a note when its flow begins, and one every 10 us after that until it has sent three,
// whether the flow has packets or not.
type talker struct {
	cc.NopControl
	next   units.Time
	due    int
	left   int
	queued units.Bytes
	heard  int
}

func (k *talker) SetActive(now units.Time, active bool) {
	if active && k.left == 0 {
		k.due, k.left, k.next = 1, 2, now+10*units.Microsecond
	}
}

func (k *talker) NextTimer() units.Time { return k.next }

func (k *talker) OnTimer(now units.Time) {
	if k.next > now {
		return
	}
	k.due++
	if k.left--; k.left == 0 {
		k.next = units.Never
	} else {
		k.next += 10 * units.Microsecond
	}
}

func (k *talker) OnDataQueued(_ units.Time, n units.Bytes) { k.queued = n }
func (k *talker) OnMessage(_ units.Time, _ cc.Feedback)    { k.heard++ }
func (k *talker) SendsMessages() bool                      { return k.due > 0 }
func (k *talker) NextMessage(key packet.FlowKey, b packet.Body) {
	k.due--
	b.(*note).about = key
}

func init() {
	cc.Methods.Register("talker", cc.Method{
		Presets: []string{"only"}, Feedback: notes,
		Preset: func(string, units.Rate) cc.Settings { return &controls{} },
	})
}

// talking makes a host whose flows talk.
func talking(t *testing.T, reached bool) (w *world, made *[]*talker) {
	made = &[]*talker{}
	settings := &controls{traits: cc.Traits{MessageDSCP: 40, WakeIdle: true}, make: func(cc.Flow) cc.Control {
		k := &talker{next: units.Never}
		*made = append(*made, k)
		return k
	}}
	w = newWorld(t, &Config{Control: cc.Choice{Name: "talker", Preset: "only", Settings: settings}, Flows: 100, Age: units.Second}, units.Gbps, 0)
	w.reached = reached
	return w, made
}

// TestControlsSpeak: a rate control's messages leave before its flow's first packet, on the flow's
// path, and also while the flow has no packets.
func TestControlsSpeak(t *testing.T) {
	for _, reached := range []bool{true, false} {
		w, made := talking(t, reached)
		var said []string
		w.says = func(now units.Time, p *packet.Packet) {
			said = append(said, fmt.Sprint(now, " to ", p.Message.To, " from port ", p.SrcPort, " TOS ", p.TOS, " hash ", p.Hash, " about ", p.Message.Body.(*note).about.Flow))
		}
		w.left = func(now units.Time, p *packet.Packet) { said = append(said, fmt.Sprint(now, " packet ", p.Seq)) }
		p := w.modelled(3, 1, 1000, 0)
		p.Hash = 77
		w.l.SendPacket(0, p)
		for now := units.Time(0); now <= 100*units.Microsecond; now += units.Microsecond {
			w.engine.Run(now, 1000)
			w.engine.AdvanceTo(now)
		}
		note := " to 10.0.0.2 from port 9 TOS 160 hash 77 about 3"
		want := []string{"0s" + note, "0s packet 1", "10us" + note, "20us" + note}
		if !reached {
			want = []string{"0s packet 1"} // messages to addresses without a host are lost
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if k := (*made)[0]; k.queued != 1000 {
			t.Errorf("the control was told of %d bytes", k.queued)
		}
		if live := w.pool.LivePackets(); live != 0 {
			t.Errorf("%d packets live", live)
		}
	}
}

// TestProbesAreAnswered: a message on its way to a flow's destination comes back from there, the
// last one does not, and an answer reaches its flow.
func TestProbesAreAnswered(t *testing.T) {
	w, made := talking(t, true)
	answers := 0
	w.says = func(_ units.Time, p *packet.Packet) {
		if n := p.Message.Body.(*note); n.returned {
			answers++
			if n.about.Flow != 9 || p.Message.To != netip.MustParseAddr("10.0.0.7") || p.TOS != 8 {
				t.Errorf("the answer is %+v to %v with TOS %d", n, p.Message.To, p.TOS)
			}
		}
	}
	come := func(n note) {
		p := w.pool.NewMessage(notes)
		p.Message.From, p.TOS = netip.MustParseAddr("10.0.0.7"), 8
		*p.Message.Body.(*note) = n
		if !w.l.WantsPacket(p) {
			t.Fatalf("%+v is not wanted", n)
		}
		w.l.ReceivePacket(units.Microsecond, p)
	}
	other := packet.FlowKey{Flow: 9, Proto: wire.ProtoUDP}
	come(note{about: other})
	come(note{about: other, last: true})
	come(note{about: other, returned: true}) // about no flow here
	w.l.SendPacket(units.Microsecond, w.modelled(3, 1, 1000, 0))
	mine := packet.FlowKey{Flow: 3, Proto: wire.ProtoUDP, SrcPort: 3}
	come(note{about: mine, returned: true})
	if k := (*made)[0]; answers != 1 || w.consumed != 4 || k.heard != 1 || w.l.heard != 1 || w.l.ignored != 1 {
		t.Errorf("%d answers, %d consumed, %d heard by the flow, %d by all, %d ignored", answers, w.consumed, k.heard, w.l.heard, w.l.ignored)
	}
}
