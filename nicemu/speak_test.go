package nicemu

import (
	"testing"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// remark is a message that the far end sends back, except for the last of a flow.
type remark struct {
	about        packet.FlowKey
	number       int
	turned, last bool
}

func (r *remark) Len() int                { return 4 }
func (r *remark) EncodeTo(b []byte)       { clear(b) }
func (r *remark) Set(from packet.Body)    { *r = *from.(*remark) }
func (r *remark) Reset()                  { *r = remark{} }
func (r *remark) FlowKey() packet.FlowKey { return r.about }
func (r *remark) IsOutward() bool         { return !r.turned }

func (r *remark) TurnAround() bool {
	r.turned = !r.last
	return r.turned
}

// ReplacesOlder returns false for the last one after the first, if that has not left.
func (r *remark) ReplacesOlder(older cc.Probe) bool { return !r.last || older.(*remark).number != 1 }

var remarks = packet.NewMessageProtocol(packet.MessageProtocol{Name: "remarks", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: 9, New: func() packet.Body { return &remark{} }})

const remarkEvery = 10 * units.Microsecond

// speaker sends a remark when its flow begins, one every 10 us while it lasts, and a last one. A
// packet takes about 10 us at its rate.
type speaker struct {
	cc.NopControl
	active bool
	next   units.Time
	said   int
	due    []remark
	queued []units.Bytes
	heard  []int
}

func (s *speaker) Rate() units.Rate { return 880 * units.Mbps }

func (s *speaker) say(last bool) {
	s.said++
	s.due = append(s.due, remark{number: s.said, last: last})
}

func (s *speaker) SetActive(now units.Time, active bool) {
	s.active, s.next = active, units.Never
	if active {
		s.next = now + remarkEvery
	}
	s.say(!active)
}

func (s *speaker) NextTimer() units.Time {
	if !s.active {
		return units.Never
	}
	return s.next
}

func (s *speaker) OnTimer(now units.Time) {
	if s.NextTimer() <= now {
		s.next += remarkEvery
		s.say(false)
	}
}

func (s *speaker) OnDataQueued(_ units.Time, n units.Bytes) { s.queued = append(s.queued, n) }
func (s *speaker) OnMessage(_ units.Time, m cc.Feedback) {
	s.heard = append(s.heard, m.(*remark).number)
}
func (s *speaker) SendsMessages() bool { return len(s.due) > 0 }

func (s *speaker) NextMessage(key packet.FlowKey, b packet.Body) {
	*b.(*remark) = s.due[0]
	b.(*remark).about = key
	s.due = s.due[1:]
}

// spoken are the settings of speakers.
type spoken struct{ made *[]*speaker }

func (spoken) Validate(units.Rate) error { return nil }
func (spoken) Traits() cc.Traits         { return cc.Traits{MessageDSCP: 48, WakeIdle: true} }
func (s spoken) New(cc.Flow) cc.Control {
	*s.made = append(*s.made, &speaker{next: units.Never})
	return (*s.made)[len(*s.made)-1]
}

func init() {
	cc.Methods.Register("spoken", cc.Method{
		Presets: []string{"only"}, Feedback: remarks,
		Preset: func(string, units.Rate) cc.Settings { return spoken{new([]*speaker)} },
	})
}

// speaking makes two NICs whose flows speak, with a queue pair each. The first speaker is that of
// NIC 0.
func speaking(t *testing.T, six bool) (w *world, a, b *host, x, y *QP, made *[]*speaker) {
	made = new([]*speaker)
	w = newWorld(t, 2, func(s *Settings, _ *Env) {
		s.Control = cc.Choice{Name: "spoken", Preset: "only", Settings: spoken{made}}
	})
	a, b = w.host(0), w.host(1)
	x, y = a.qp(qp.RC), b.qp(qp.RC)
	join(t, x, y, qp.MTU1024, six)
	return w, a, b, x, y, made
}

// TestSpeak: messages of a rate control go to its flow's destination, with the flow's hash and the
// class of their own DSCP; the far end sends them back, and only the control of their flow hears
// them.
func TestSpeak(t *testing.T) {
	for _, six := range []bool{false, true} {
		w, a, b, x, y, made := speaking(t, six)
		other, far := a.qp(qp.RC), b.qp(qp.RC)
		join(t, other, far, qp.MTU1024, six)
		out, back := 0, 0
		w.touch = func(from int, p *packet.Packet) bool {
			if p.Message == nil {
				return true
			}
			m := p.Message.Body.(*remark)
			switch {
			case m.about.QP != y.Number() || p.TOS>>2 != 48 || m.about.SrcPort != x.route.port:
				t.Errorf("%+v has DSCP %d", m, p.TOS>>2)
			case from == 0 && (p.Hash != x.route.hash || p.Message.To != m.about.To || m.turned):
				t.Errorf("%+v goes out to %v with hash %x, of its flow is %x", m, p.Message.To, p.Hash, x.route.hash)
			case from == 1 && (p.Message.To != m.about.From || !m.turned || m.last):
				t.Errorf("%+v comes back to %v", m, p.Message.To)
			case from == 0:
				out++
			default:
				back++
			}
			return true
		}
		w.write(a, b, x, 5*1024)
		w.run(units.Millisecond)
		s := (*made)[0]
		if out != s.said || back != out-1 || len(s.heard) != back || s.said < 6 {
			t.Errorf("IPv6 %v: of %d messages %d went out, %d came back, %d were heard", six, s.said, out, back, len(s.heard))
		}
		for _, k := range (*made)[1:] {
			if k.said+len(k.heard) > 0 {
				t.Errorf("a flow that rests has said %d and heard %d", k.said, len(k.heard))
			}
		}
		if w.pool.LivePackets() != 0 {
			t.Errorf("%d packets are left", w.pool.LivePackets())
		}
	}
}

// TestSized: a control learns how much its flow has when this becomes active, and not again.
func TestSized(t *testing.T) {
	w, a, b, x, _, made := speaking(t, false)
	for range 2 {
		w.write(a, b, x, 5000)
		w.write(a, b, x, 300) // the flow is active already
		w.run(w.engine.Now() + units.Millisecond)
	}
	s := (*made)[0]
	if len(s.queued) != 2 || s.queued[0] != 5000 || s.queued[1] != 5000 {
		t.Errorf("%v", s.queued)
	}
}

// TestOneMessageWaits: while their class is paused a flow's messages replace each other, at its
// source and, on their way back, at its destination. The newest leaves.
func TestOneMessageWaits(t *testing.T) {
	for paused := range 2 {
		w, a, b, x, _, made := speaking(t, false)
		w.write(a, b, x, 60*1024)
		w.run(5 * units.Microsecond)
		w.ports[paused].paused[6] = true
		for range 40 {
			w.run(w.engine.Now() + remarkEvery)
			if n := w.ports[paused].device.WaitingPackets(); n > 1 {
				t.Fatalf("%d messages wait at NIC %d", n, paused)
			}
			w.ports[paused].device.sound(t)
		}
		s := (*made)[0]
		before := len(s.heard)
		w.ports[paused].paused[6] = false
		w.ports[paused].AnnouncePacket(w.engine.Now(), 6, 60)
		w.run(w.engine.Now() + remarkEvery/2)
		if len(s.heard) != before+1 || s.heard[before] < 40 {
			t.Errorf("NIC %d was paused: heard are %v, the last of %d", paused, s.heard, s.said)
		}
	}
}

// TestNothingLeftToSay: a flow that ends before its first message has left sends none.
func TestNothingLeftToSay(t *testing.T) {
	w, a, b, x, _, made := speaking(t, false)
	w.ports[0].paused[6] = true
	w.write(a, b, x, 100)
	w.run(8 * units.Microsecond)
	if n := a.WaitingPackets(); n != 0 || (*made)[0].said != 2 || w.pool.LivePackets() != 0 {
		t.Errorf("%d messages wait of %d, %d packets are left", n, (*made)[0].said, w.pool.LivePackets())
	}
	a.sound(t)
}

// TestWordsOutliveQueuePairs: a flow's messages leave even if its queue pair is reset.
func TestWordsOutliveQueuePairs(t *testing.T) {
	w, a, b, x, _, made := speaking(t, false)
	w.write(a, b, x, 3*1024)
	w.run(15 * units.Microsecond)
	w.ports[0].paused[6] = true
	w.run(100 * units.Microsecond)
	if err := x.SetState(qp.Reset); err != nil {
		t.Fatal(err)
	}
	last := false
	w.touch = func(_ int, p *packet.Packet) bool {
		last = last || p.Message != nil && p.Message.Body.(*remark).last
		return true
	}
	w.ports[0].paused[6] = false
	w.ports[0].AnnouncePacket(w.engine.Now(), 6, 60)
	w.run(200 * units.Microsecond)
	if !last || (*made)[0].active || w.pool.LivePackets() != 0 {
		t.Errorf("the last message has left: %v; %d packets are left", last, w.pool.LivePackets())
	}
}

// TestNobodyToSpeakTo: in loopback nothing is sent.
func TestNobodyToSpeakTo(t *testing.T) {
	made := new([]*speaker)
	w := newWorld(t, 1, func(s *Settings, _ *Env) {
		s.Control = cc.Choice{Name: "spoken", Preset: "only", Settings: spoken{made}}
	})
	a := w.host(0)
	x, y := a.qp(qp.RC), a.qp(qp.RC)
	join(t, x, y, qp.MTU1024, false)
	w.write(a, a, x, 3*1024)
	w.run(units.Millisecond)
	if s := (*made)[0]; s.said < 2 || len(s.heard) > 0 || len(s.due) > 0 || len(w.log) > 0 || w.pool.LivePackets() != 0 {
		t.Errorf("said %d, heard %v, %d packets left the NIC, %d are live", s.said, s.heard, len(w.log), w.pool.LivePackets())
	}
}
