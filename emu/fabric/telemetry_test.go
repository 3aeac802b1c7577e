package fabric

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/observe/dissector"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

func init() {
	cc.Methods.Register("probe", cc.Method{
		Presets: []string{"only"},
		Preset:  func(string, units.Rate) cc.Settings { return &probe{} },
	})
}

// probe is a rate control that keeps the contents of acknowledgements.
type probe struct {
	cc.NopControl
	Hops   int  `yaml:"hops,omitempty" jsonschema_description:"for how many hops packets have room"`
	Silent bool `yaml:"silent,omitempty" jsonschema_description:"nothing is kept"`
	Ack    int  `yaml:"ack,omitempty" jsonschema_description:"DSCP of acknowledgements"`

	made []*probe
	flow cc.Flow
	acks []cc.Ack
	hops [][]telemetry.Hop
}

func (p *probe) Validate(units.Rate) error { return nil }

func (p *probe) Traits() cc.Traits {
	return cc.Traits{Telemetry: p.Hops, AskEvery: 1, NeedsAcks: true, NeedsPath: true, AckDSCP: uint8(p.Ack)}
}

func (p *probe) New(f cc.Flow) cc.Control {
	if p.Silent {
		return p
	}
	p.made = append(p.made, &probe{flow: f})
	return p.made[len(p.made)-1]
}

func (p *probe) OnAck(_ units.Time, a *cc.Ack) {
	if p.Silent {
		return
	}
	p.acks = append(p.acks, *a)
	p.hops = append(p.hops, append([]telemetry.Hop(nil), a.Hops...))
}

const telemetryLab = `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  kinds:
    host: {attach: none, nic: {cc: {probe: {hops: %d}}}}
    switch: {%s}
    link: {rate: 40Gbps, delay: 1us, mtu: 1500}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"]}
    - {endpoints: ["s1:s2", "s2:s1"], rate: 10Gbps}
    - {endpoints: ["h2:eth0", "s2:h2"]}
workload:
  - {write: {from: h1, to: h2, size: 200KB, ip: %d}}
`

// TestTelemetry_ComesBackToTheSender: each switch writes the rate, the bytes and the queue of
// its egress port, the receiver sends them back, and frames with telemetry carry the invariant
// CRC of the packet without it. This holds with classes and without, and during captures.
func TestTelemetry_ComesBackToTheSender(t *testing.T) {
	for _, c := range []struct {
		sw string
		ip int
	}{{"", 4}, {"classes: {fast: {dscp: 40, priority: 5}}", 4}, {"", 6}} {
		for _, watched := range []bool{false, true} {
			f := New(parse(t, fmt.Sprintf(telemetryLab, 5, c.sw, c.ip)))
			frames := 0
			if watched {
				for _, n := range []string{"h1", "s1", "s2", "h2"} {
					at, _ := f.Plan.Node(n)
					for i := range f.Plan.Nodes[at].Ports {
						f.Port(at, i).SetObserver(0, observer(func(p *packet.Packet, _ port.Direction, _ packet.Fate) {
							frames++
							checkTelemetryFrame(t, p)
						}))
					}
				}
			}
			if err := f.Run(context.Background(), units.Never); err != nil {
				t.Fatal(err)
			}
			h1, _ := f.Plan.Node("h1")
			made := f.Plan.Nodes[h1].NIC.Control.Settings.(*probe).made
			if len(made) != 1 {
				t.Fatalf("%d controls", len(made))
			}
			checkHops(t, made[0])
			if watched == (frames == 0) {
				t.Errorf("%d frames were looked at", frames)
			}
		}
	}
}

// TestTelemetry_IsReadByTshark: tshark with the dissector shows what the packets contain.
func TestTelemetry_IsReadByTshark(t *testing.T) {
	lua := filepath.Join(t.TempDir(), "weft.lua")
	if err := os.WriteFile(lua, dissector.Lua(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ip := range []int{4, 6} {
		f := New(parse(t, fmt.Sprintf(telemetryLab, 5, "", ip)))
		var frames [][]byte
		var want [][]string
		h1, _ := f.Plan.Node("h1")
		f.Port(h1, 0).SetObserver(0, observer(func(p *packet.Packet, _ port.Direction, _ packet.Fate) {
			frames = append(frames, new(renderer).render(p, nil))
			s := p.Telemetry()
			var rates, queues, sent []string
			for _, h := range s.WrittenHops() {
				code, _ := telemetry.RateCode(h.Rate())
				_, n := h.Since(0)
				rates, queues, sent = append(rates, fmt.Sprint(code)), append(queues, fmt.Sprint(int64(h.Queue()))), append(sent, fmt.Sprint(int64(n)))
			}
			want = append(want, []string{fmt.Sprint(s.Count), map[bool]string{false: "0", true: "1"}[s.Echo], strings.Join(rates, ","), strings.Join(queues, ","), strings.Join(sent, ","), fmt.Sprint(uint8(p.RoCE.BTH.Opcode))})
		}))
		if err := f.Run(context.Background(), units.Never); err != nil {
			t.Fatal(err)
		}
		got := oracle.Tshark(t, lua, frames, "weft_int.count", "weft_int.echo", "weft_int.hop.rate", "weft_int.hop.queue", "weft_int.hop.sent", "infiniband.bth.opcode")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("IPv%d (-want +got):\n%s", ip, diff)
		}
	}
}

// checkTelemetryFrame takes the telemetry out of a packet's frame, which must leave a
// valid RoCEv2 packet.
func checkTelemetryFrame(t *testing.T, p *packet.Packet) {
	frame := new(renderer).render(p, nil)
	if units.Bytes(len(frame)) != p.Size || p.DstPort != telemetry.Port {
		t.Fatalf("%d bytes of %d to port %d", len(frame), p.Size, p.DstPort)
	}
	var s telemetry.Stack
	rest, err := telemetry.RemoveStack(frame, int(p.L3), &s)
	if err == nil {
		err = roce.CheckICRC(rest[p.L3:])
	}
	var b roce.Packet
	if err == nil {
		err = b.DecodeIP(rest[p.L3:])
	}
	if err != nil || s != *p.Telemetry() && s.Count > 0 && s.Hops[s.Count-1] != p.Telemetry().Hops[s.Count-1] {
		t.Fatalf("%v, %+v", err, s)
	}
	if ack := b.BTH.Opcode.Operation() == roce.Ack; ack != s.Echo || s.Room != 5 || ack && s.Count != 2 {
		t.Fatalf("%v with %+v", b.BTH.Opcode, s)
	}
}

func checkHops(t *testing.T, p *probe) {
	t.Helper()
	if want := (cc.Path{RTT: p.flow.Path.RTT, Bottleneck: 10 * units.Gbps, Hops: 3}); p.flow.Path != want || p.flow.Path.RTT < 6*units.Microsecond || p.flow.Path.RTT > 10*units.Microsecond || p.flow.MTU != 1024 {
		t.Errorf("the flow is %+v", p.flow)
	}
	longest, path := units.Bytes(0), p.acks[0].Path
	for i, hops := range p.hops {
		if len(hops) != 2 || hops[0].Rate() != 10*units.Gbps || hops[1].Rate() != 40*units.Gbps || p.acks[i].Path != path {
			t.Fatalf("acknowledgement %d: %v, path %#x", i, hops, p.acks[i].Path)
		}
		longest = max(longest, hops[0].Queue())
		if hops[1].Queue() != 0 {
			t.Errorf("a queue of %v before a faster link", hops[1].Queue())
		}
		if i == 0 || i == len(p.hops)-1 { // the last packet is shorter
			continue
		}
		for k := range hops {
			after, sent := hops[k].Since(p.hops[i-1][k])
			if rate := float64(sent) * 8 / after.Seconds(); after <= 0 || rate > 1.2*10e9 || rate < 0.75*10e9 {
				t.Errorf("acknowledgement %d: %v in %v at hop %d", i, sent, after, k)
			}
		}
	}
	if last := p.acks[len(p.acks)-1]; last.Acked != 200*units.KB || last.InFlight != 0 || len(p.acks) != 196 {
		t.Errorf("%d acknowledgements, the last %+v", len(p.acks), last)
	}
	// 200 KB arrive at four times the rate at which they leave.
	if longest < 150*units.KB || longest > 180*units.KB {
		t.Errorf("the queue was at most %v", longest)
	}
	if p.acks[0].RTT < p.flow.Path.RTT || p.acks[0].RTT > p.flow.Path.RTT+units.Microsecond {
		t.Errorf("the first round trip took %v, %v is expected", p.acks[0].RTT, p.flow.Path.RTT)
	}
}

// TestTelemetry_StopsAtItsRoom: hops beyond the room are not written, and a rate that
// telemetry cannot encode is refused.
func TestTelemetry_StopsAtItsRoom(t *testing.T) {
	f := New(parse(t, fmt.Sprintf(telemetryLab, 1, "", 4)))
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	h1, _ := f.Plan.Node("h1")
	for _, hops := range f.Plan.Nodes[h1].NIC.Control.Settings.(*probe).made[0].hops {
		if len(hops) != 1 || hops[0].Rate() != 10*units.Gbps {
			t.Fatalf("%v", hops)
		}
	}
	text := strings.Replace(fmt.Sprintf(telemetryLab, 1, "", 4), "10Gbps", "11Gbps", 1)
	if _, err := resolve.Parse("lab.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "in-band telemetry has no code for the rate 11Gbps of s1:s2") {
		t.Errorf("%v", err)
	}
}

// TestFlowPerMessage_GivesEachMessageARateControl: with flow-per-message each message has a
// separate rate control, otherwise all messages of a queue pair share one.
func TestFlowPerMessage_GivesEachMessageARateControl(t *testing.T) {
	for _, c := range []struct {
		keys string
		want int
	}{{"depth: 1", 1}, {"flow-per-message: true", 6}} {
		text := strings.Replace(fmt.Sprintf(telemetryLab, 5, "", 4), "size: 200KB", "size: 3KB, count: 5, "+c.keys, 1)
		f := New(parse(t, text))
		if err := f.Run(context.Background(), units.Never); err != nil {
			t.Fatal(err)
		}
		h1, _ := f.Plan.Node("h1")
		made := f.Plan.Nodes[h1].NIC.Control.Settings.(*probe).made
		// One is made when the queue pair is connected.
		if n := len(made); n != c.want {
			t.Errorf("%s: %d controls", c.keys, n)
		}
		for _, p := range made[1:] {
			if last := p.acks[len(p.acks)-1]; last.Acked != 3*units.KB || last.Sent != 3*units.KB {
				t.Errorf("%s: a control heard %+v", c.keys, last)
			}
		}
	}
}
