package systems

import (
	"fmt"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

func init() {
	cc.Methods.Register("test-ack-class", cc.Method{
		Summary: "for tests", Presets: []string{"only"}, Preset: func(string, units.Rate) cc.Settings { return &ackClass{} },
	})
}

// ackClass is a rate control that limits nothing and asks for a class of acknowledgements.
type ackClass struct{ cc.NopControl }

func (*ackClass) Validate(units.Rate) error { return nil }
func (*ackClass) Traits() cc.Traits         { return cc.Traits{AckDSCP: 10} }
func (a *ackClass) New(cc.Flow) cc.Control  { return a }

// TestAckClass_KeepsACKsMovingWhileDataIsPaused: h2's own data is paused most of the time,
// since it goes to h3, behind a slow link. Data from h1 to h2 has to be acknowledged
// meanwhile. A pause of the data's class holds acknowledgements up unless they have a separate
// class, which the file or the rate control asks for.
func TestAckClass_KeepsACKsMovingWhileDataIsPaused(t *testing.T) {
	lab := func(cc, dscp string) string {
		return fmt.Sprintf(`
duration: 20ms
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}}
  kinds:
    host: {attach: none, nic: {cc: %s%s}}
    link: {rate: 10Gbps, delay: 1us}
    switch:
      buffer: {size: 2MB}
      classes:
        acks: {dscp: [10], priority: 5}
        roce: {dscp: [26], priority: 3, pfc: {xoff: 50KB, xon: 40KB}}
        default: {weight: 1}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"]}
    - {endpoints: ["h2:eth0", "s1:h2"]}
    - {endpoints: ["h3:eth0", "s1:h3"], rate: 100Mbps}
workload:
  - {write: {name: paused, from: h2, to: h3, size: 1MB, count: 1, dscp: 26}}
  - {write: {name: heard, from: h1, to: h2, size: 20KB, depth: 1, for: 20ms, dscp: 26}}
`, cc, dscp)
	}
	completed := map[string]uint64{}
	for name, text := range map[string]string{
		"with the data": lab("none", ""), "own": lab("none", ", ack-dscp: 10"),
		"trait": lab("test-ack-class", ""), "file over trait": lab("test-ack-class", ", ack-dscp: 26"),
	} {
		f := fabric.New(fabrictest.Parse(t, text))
		var ports []fabric.Watched
		for n := range f.Plan.Nodes {
			for i := range f.Plan.Nodes[n].Ports {
				ports = append(ports, fabric.Watched{Node: n, Port: i, In: true, Out: true})
			}
		}
		frames := captured(t, f, ports, func() { runTo(t, f, 20*ms) })
		for _, r := range f.Transfers() {
			if r.Transfer == "heard" {
				completed[name] = r.Completed
			}
		}
		for _, c := range portNamed(t, f, "h2:eth0").Classes {
			if c.Name == "roce" && c.PausedTime < 10*ms {
				t.Errorf("%s: h2's data was paused for %v", name, c.PausedTime)
			}
		}
		want := uint8(26)
		if name == "own" || name == "trait" {
			want = 10
		}
		acks, data := ackDSCPs(frames)
		if len(acks) != 1 || acks[want] < 100 || len(data) != 1 || data[26] < 1000 {
			t.Errorf("%s: in the capture acknowledgements have the DSCPs %v and data %v, want %d and 26", name, acks, data, want)
		}
		for _, n := range f.NICs() {
			if n.AckDSCP == nil != (name == "with the data") || n.AckDSCP != nil && *n.AckDSCP != want {
				t.Errorf("%s: %s says %v", name, n.Name, n.AckDSCP)
			}
		}
	}
	if a, b := completed["own"], completed["with the data"]; a < 2*b || b == 0 {
		t.Errorf("%d messages complete with acknowledgements in a class of their own, %d with those in the data's", a, b)
	}
	if completed["trait"] < 2*completed["file over trait"] {
		t.Errorf("messages that complete: %v", completed)
	}
}

// ackDSCPs counts the DSCPs of the acknowledgements and of the other RoCE packets among
// frames with IPv4.
func ackDSCPs(frames [][]byte) (acks, data map[uint8]int) {
	acks, data = map[uint8]int{}, map[uint8]int{}
	for _, b := range frames {
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || udp.DstPort != roce.Port {
			continue
		}
		dscp := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4).TOS >> 2
		if roce.Opcode(udp.Payload[0]).Operation() == roce.Ack {
			acks[dscp]++
		} else {
			data[dscp]++
		}
	}
	return acks, data
}
