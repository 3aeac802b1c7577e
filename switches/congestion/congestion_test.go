package congestion

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// ip returns an IPv4 packet with an ECN codepoint.
func ip(ecn uint8) *packet.Packet { return &packet.Packet{Version: 4, TOS: 0xb8 | ecn, Size: 1514} }

// TestTranscript: the input is a queue length and a packet, the output its fate. K
// is 10 KB, KMin and KMax are 10 and 20 KB. The transcript omits queue lengths at
// which RED's probability is neither 0 nor 1; see TestREDShare.
func TestTranscript(t *testing.T) {
	points := []struct {
		name   string
		config Choice
		script string
	}{
		{"step", Choice{Settings: &Step{K: 10 * units.KB}}, `
			0      ect0    -> fine ect0
			10000  ect0    -> fine ect0
			10001  ect0    -> marked ce
			10001  ect1    -> marked ce
			10001  ce      -> marked ce
			10000  ce      -> fine ce
			10001  not-ect -> fine not-ect
			10001  arp     -> fine not-ect
			99999  ect0    -> marked ce`},
		{"step, drop", Choice{Settings: &Step{K: 10 * units.KB, NotECT: DropNotECT}}, `
			10000  not-ect -> fine not-ect
			10001  not-ect -> early-drop not-ect
			10001  arp     -> early-drop not-ect
			10001  ect0    -> marked ce
			10001  ce      -> marked ce`},
		{"step of 0", Choice{Settings: &Step{}}, `
			0      ect0    -> fine ect0
			1      ect0    -> marked ce`},
		{"red", Choice{Settings: &RED{KMin: 10 * units.KB, KMax: 20 * units.KB, PMax: 0.5}}, `
			0      ect0    -> fine ect0
			10000  ect0    -> fine ect0
			20001  ect0    -> marked ce
			20001  ect1    -> marked ce
			20001  ce      -> marked ce
			20001  not-ect -> fine not-ect
			20001  arp     -> fine not-ect`},
		{"red, drop", Choice{Settings: &RED{KMin: 10 * units.KB, KMax: 20 * units.KB, PMax: 0.5, NotECT: DropNotECT}}, `
			10000  not-ect -> fine not-ect
			20001  not-ect -> early-drop not-ect
			20001  arp     -> early-drop not-ect
			20001  ect0    -> marked ce`},
		{"red without a slope", Choice{Settings: &RED{KMin: 10 * units.KB, KMax: 10 * units.KB, PMax: 0.5}}, `
			10000  ect0    -> fine ect0
			10001  ect0    -> marked ce`},
	}
	codes := [...]string{wire.NotECT: "not-ect", wire.ECT1: "ect1", wire.ECT0: "ect0", wire.CE: "ce"}
	for _, c := range points {
		t.Run(c.name, func(t *testing.T) {
			point := New(c.config, Env{Rand: sim.NewRand(1, "mark")})
			var got []string
			for line := range strings.Lines(strings.TrimSpace(c.script)) {
				var queue units.Bytes
				var code string
				if _, err := fmt.Sscan(line, (*int64)(&queue), &code); err != nil {
					t.Fatal(err)
				}
				p := &packet.Packet{Ether: wire.EtherTypeARP, Size: 60}
				for ecn, name := range codes {
					if name == code {
						p = ip(uint8(ecn))
					}
				}
				fate := point.OnEnqueue(0, Queue{Bytes: queue, Limit: units.MB}, p)
				got = append(got, fmt.Sprintf("%-6d %-7s -> %v %s", queue, code, fate, codes[p.ECN()]))
				if p.Version != 0 && p.TOS>>2 != 0xb8>>2 {
					t.Errorf("%s: the DSCP changed, ToS %#x", line, p.TOS)
				}
				if fate := point.OnDequeue(0, Queue{Bytes: queue}, p); fate != packet.Fine {
					t.Errorf("%s: %v when sent", line, fate)
				}
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(c.script)) {
				want = append(want, strings.TrimSpace(line))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-script +point):\n%s", diff)
			}
			if next := point.OnTimer(0, Queue{}); next != units.Never {
				t.Errorf("it asks for a timer at %v", next)
			}
		})
	}
}

// TestMarkAtDequeue: with at-dequeue a packet passes when it joins, whatever the length, and is
// judged when it leaves. The point is not one that only judges arrivals, and its settings
// can change.
func TestMarkAtDequeue(t *testing.T) {
	for _, c := range []struct{ before, after Settings }{
		{&Step{K: 10 * units.KB, AtDequeue: true}, &Step{K: 30 * units.KB, AtDequeue: true}},
		{&RED{KMin: 10 * units.KB, KMax: 10 * units.KB, PMax: 1, AtDequeue: true}, &RED{KMin: 30 * units.KB, KMax: 30 * units.KB, PMax: 1, AtDequeue: true}},
	} {
		point := New(Choice{Settings: c.before}, Env{Rand: sim.NewRand(1, "mark")})
		if _, ok := point.(ArrivalsOnly); ok {
			t.Errorf("%T only judges arrivals", point)
		}
		check := func(queue units.Bytes, want packet.Fate) {
			t.Helper()
			p := ip(wire.ECT0)
			if fate := point.OnEnqueue(0, Queue{Bytes: units.MB}, p); fate != packet.Fine || p.ECN() != wire.ECT0 {
				t.Errorf("%T: %v when it joins", c.before, fate)
			}
			if fate := point.OnDequeue(0, Queue{Bytes: queue}, p); fate != want || (p.ECN() == wire.CE) != (want == packet.Marked) {
				t.Errorf("%T: %v with %v behind it, want %v", c.before, fate, queue, want)
			}
		}
		check(10*units.KB, packet.Fine)
		check(20*units.KB, packet.Marked)
		adjuster := point.(Adjuster)
		if got := adjuster.Adjusted(); !cmp.Equal(got, c.before) {
			t.Errorf("settings %+v, want %+v", got, c.before)
		}
		adjuster.Adjust(c.after)
		check(20*units.KB, packet.Fine)
		check(30001, packet.Marked)
	}
}

// TestREDProbability follows a curve point by point.
func TestREDProbability(t *testing.T) {
	r := RED{KMin: 40 * units.KB, KMax: 200 * units.KB, PMax: 0.01}
	for queue, want := range map[units.Bytes]float64{
		0: 0, 40 * units.KB: 0, 40*units.KB + 1600: 0.0001, 80 * units.KB: 0.0025, 120 * units.KB: 0.005,
		200 * units.KB: 0.01, 200*units.KB + 1: 1, units.MB: 1,
	} {
		if got := r.MarkProbability(queue); math.Abs(got-want) > 1e-15 {
			t.Errorf("a queue of %v marks with %v, want %v", queue, got, want)
		}
	}
}

// TestREDShare measures the share of packets marked and dropped, to four and
// a half standard deviations.
func TestREDShare(t *testing.T) {
	const packets = 100_000
	for _, treat := range []NotECT{PassNotECT, DropNotECT} {
		r := RED{KMin: 10 * units.KB, KMax: 20 * units.KB, PMax: 0.4, NotECT: treat}
		for queue, p := range map[units.Bytes]float64{10100: 0.004, 15 * units.KB: 0.2, 20 * units.KB: 0.4} {
			for ecn, want := range map[uint8]packet.Fate{wire.ECT0: packet.Marked, wire.NotECT: packet.EarlyDrop} {
				point := New(Choice{Settings: &r}, Env{Rand: sim.NewRand(1, "mark")})
				count := map[packet.Fate]float64{}
				for range packets {
					count[point.OnEnqueue(0, Queue{Bytes: queue}, ip(ecn))]++
				}
				p := p
				if ecn == wire.NotECT && treat == PassNotECT {
					p = 0
				}
				spread := 4.5 * math.Sqrt(packets*p*(1-p))
				if math.Abs(count[want]-packets*p) > spread || count[packet.Fine]+count[want] != packets {
					t.Errorf("queue %v, ECN %d, not-ect %v: %v, want %.0f ± %.0f of %v", queue, ecn, treat, count, packets*p, spread, want)
				}
			}
		}
	}
}

// TestMarkRewritesTheFrame: a mark is in the wire bytes too.
func TestMarkRewritesTheFrame(t *testing.T) {
	p := &packet.Packet{Frame: make([]byte, 60)}
	copy(p.Frame[12:], []byte{8, 0, 0x45, wire.ECT0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	sum := wire.IPv4Checksum(p.Frame[14:34])
	p.Frame[24], p.Frame[25] = byte(sum>>8), byte(sum)
	p.Parse()
	if fate := New(Choice{Settings: &Step{}}, Env{}).OnEnqueue(0, Queue{Bytes: 1}, p); fate != packet.Marked {
		t.Fatal(fate)
	}
	if p.Frame[15] != wire.CE || wire.IPv4Checksum(p.Frame[14:34]) != 0 {
		t.Errorf("ToS %#x, checksum over the header %#x", p.Frame[15], wire.IPv4Checksum(p.Frame[14:34]))
	}
}

func TestConfig(t *testing.T) {
	if p := New(Choice{}, Env{}); p != nil {
		t.Errorf("no configuration makes %T, want plain drop-tail", p)
	}
	for want, settings := range map[string]Settings{
		`{"kmin":"40KB","kmax":"200KB","pmax":"1%","not-ect":"drop"}`:  &RED{KMin: 40 * units.KB, KMax: 200 * units.KB, PMax: 0.01, NotECT: DropNotECT},
		`{"target":"50KB","alpha":"0.2%","beta":"2%","every":"100us"}`: &PI{Target: 50 * units.KB, Alpha: 0.002, Beta: 0.02, Every: 100 * units.Microsecond},
		`{"target":"5ms","interval":"100ms","not-ect":"pass"}`:         &CoDel{Target: 5 * ms, Interval: 100 * ms},
	} {
		text, err := json.Marshal(settings)
		if err != nil || string(text) != want {
			t.Errorf("written %s, %v; want %s", text, err, want)
		}
		got := reflect.New(reflect.TypeOf(settings).Elem()).Interface()
		if err := json.Unmarshal(text, got); err != nil || !cmp.Equal(got, any(settings)) {
			t.Errorf("read back %+v, %v", got, err)
		}
	}
	for _, n := range []NotECT{PassNotECT, DropNotECT} {
		var got NotECT
		if err := got.UnmarshalText([]byte(n.String())); err != nil || got != n {
			t.Errorf("%v is read as %v, %v", n, got, err)
		}
	}
	var n NotECT
	if err := n.UnmarshalText([]byte("mark")); err == nil || !strings.Contains(err.Error(), "pass and drop") {
		t.Errorf("an unknown treatment: %v", err)
	}
}
