package resolve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/dcqcn"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire/roce"
)

// checkNIC checks a node against the doc comments of Node.NIC and
// nicemu.Settings.
func checkNIC(t rapid.TB, p *plan.Plan, n *plan.Node) {
	t.Helper()
	s := n.NIC
	if s == nil {
		return
	}
	if n.Kind != plan.Host || n.QoS == nil || n.Ports[0].Link < 0 {
		t.Errorf("%s has a NIC, is a %v, and has %+v and %+v", n.Name, n.Kind, n.QoS, n.Ports[0])
		return
	}
	if s.MTU < qp.MTU256 || s.MTU > qp.MTU4096 || s.MTU != s.Limits.ActiveMTU || s.DSCP > 63 || s.AckEvery < 0 || s.AskEvery < 0 ||
		s.Timeout > 31 || s.RetryCount > 7 || s.RNRRetry > 7 || s.MinRNR > 31 {
		t.Errorf("the NIC of %s is %+v", n.Name, *s)
	}
	if err := s.Limits.Check(); err != nil {
		t.Errorf("the NIC of %s: %v", n.Name, err)
	}
	for _, port := range n.Ports {
		link := p.Links[port.Link]
		for _, d := range link.Dir {
			if units.Bytes(s.MTU.Bytes())+84 > d.MTU {
				t.Errorf("the path MTU %d of %s does not fit %d", s.MTU.Bytes(), n.Name, d.MTU)
			}
		}
		if s.Control.Settings != nil {
			if err := s.Control.Settings.Validate(link.Dir[port.End].Rate); err != nil {
				t.Errorf("the NIC of %s: %v", n.Name, err)
			}
		}
	}
	if (s.Control.Settings == nil) != (s.Control.Name == "") || (s.Control.Preset == "") != (s.Control.Name == "") {
		t.Errorf("the NIC of %s has the rate control %+v", n.Name, s.Control)
	}
}

// checkTransfers checks transfers against the doc comments of workload.Transfer.
// Names holds the names of others.
func checkTransfers(t rapid.TB, p *plan.Plan, names map[string]bool) {
	t.Helper()
	pairs := map[int]int{}
	for _, x := range p.Transfers {
		from, to := p.Nodes[x.From].NIC, p.Nodes[x.To].NIC
		if from == nil || to == nil || x.From == x.To || x.Name == "" || names[x.Name] {
			t.Fatalf("transfer %+v", x)
		}
		names[x.Name] = true
		maxPathMTU := units.Bytes(min(from.MTU, to.MTU).Bytes())
		if x.Size < 0 || x.Size > math.MaxInt32 || x.Count < 0 || x.QPs < 1 || x.Depth < 1 || x.Depth > from.Limits.QPWR || x.At < 0 || x.For < 0 ||
			x.Every < 0 || x.MTU < 256 || x.MTU > maxPathMTU || x.MTU&(x.MTU-1) != 0 || x.FlowPerMessage && (x.Depth != 1 || x.Verb == workload.Read) || x.DSCP > 63 || x.Count == 0 && x.For == 0 && p.Duration == 0 {
			t.Errorf("transfer %+v", x)
		}
		switch x.Service {
		case roce.RC:
		case roce.UC:
			if x.Verb == workload.Read {
				t.Errorf("transfer %+v", x)
			}
		case roce.UD:
			if x.Verb != workload.Send || x.Size > x.MTU {
				t.Errorf("transfer %+v", x)
			}
		default:
			t.Errorf("transfer %+v", x)
		}
		for _, n := range []int{x.From, x.To} {
			if pairs[n] += x.QPs; pairs[n] > p.Nodes[n].NIC.Limits.QP {
				t.Errorf("%s has %d queue pairs", p.Nodes[n].Name, pairs[n])
			}
		}
	}
}

// dumpNIC prints a NIC, with those limits that differ from a ConnectX-5's.
func dumpNIC(b *strings.Builder, s *nicemu.Settings) {
	if s == nil {
		return
	}
	fmt.Fprintf(b, "  nic mtu %d dscp %d cc %v recovery %v ack-every %d ask-every %d timeout %d retries %d rnr-retries %d rnr-timer %d",
		s.MTU.Bytes(), s.DSCP, s.Control, s.Recovery, s.AckEvery, s.AskEvery, s.Timeout, s.RetryCount, s.RNRRetry, s.MinRNR)
	standard := qp.ConnectX5()
	v, other := reflect.ValueOf(s.Limits), reflect.ValueOf(standard)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "ActiveMTU" && !v.Field(i).Equal(other.Field(i)) {
			fmt.Fprintf(b, " %s=%v", name, v.Field(i).Interface())
		}
	}
	if s.Delays != (nicemu.Delays{}) {
		fmt.Fprintf(b, " delays %+v", s.Delays)
	}
	if r := s.RateLimiter; r != (nicemu.RateLimiter{}) {
		fmt.Fprintf(b, " rate-limiter %+v", r)
	}
	b.WriteString("\n")
	if s.Control.Settings != nil {
		fmt.Fprintf(b, "    %+v\n", reflect.ValueOf(s.Control.Settings).Elem())
	}
}

// dumpTransfer prints a transfer, without fields that are 0.
func dumpTransfer(b *strings.Builder, p *plan.Plan, t workload.Transfer) {
	fmt.Fprintf(b, "transfer %s: %s %v %v %s size %dB count %d depth %d", t.Name, p.Nodes[t.From].Name, t.Service, t.Verb, p.Nodes[t.To].Name, t.Size, t.Count, t.Depth)
	for _, f := range []struct {
		name  string
		value any
	}{
		{"at", t.At}, {"for", t.For}, {"every", t.Every}, {"dscp", t.DSCP},
	} {
		if !reflect.ValueOf(f.value).IsZero() {
			fmt.Fprintf(b, " %s %v", f.name, f.value)
		}
	}
	fmt.Fprintf(b, " qps %d mtu %d ipv6 %v\n", t.QPs, t.MTU, t.IPv6)
}

// TestPathMTU_IsTheLargestThatFitsTheLink checks at the boundaries that a path MTU is the largest
// with which a WRITE with immediate data over IPv6 fits.
func TestPathMTU_IsTheLargestThatFitsTheLink(t *testing.T) {
	for link, want := range map[int]int{
		1280: 1024, 1500: 1024, 2048 + 83: 1024, 2048 + 84: 2048, 4096 + 83: 2048, 4096 + 84: 4096, 9000: 4096, 9216: 4096,
	} {
		p, err := Parse("lab.yaml", fmt.Appendf(nil, "topology: {generate: {star: {hosts: 1, mtu: %d}}, kinds: {host: {nic: roce}}}", link))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Nodes[1].NIC.MTU.Bytes(); got != want {
			t.Errorf("a link's mtu of %d: %d, not %d", link, got, want)
		}
	}
	for link, want := range map[int]int{576: 256, 512 + 84 - 1: 256, 512 + 84: 512, 1024 + 83: 512, 1024 + 84: 1024} {
		p, err := Parse("lab.yaml", fmt.Appendf(nil, "addressing: {ipv6: none}\ntopology: {generate: {star: {hosts: 1, mtu: %d}}, kinds: {host: {nic: roce}}}", link))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Nodes[1].NIC.MTU.Bytes(); got != want {
			t.Errorf("a link's mtu of %d: %d, not %d", link, got, want)
		}
	}
}

// TestDCQCNPreset_IsThatOfTheLinksRate checks that a NIC has the preset for its link's rate,
// overridden by the file's settings.
func TestDCQCNPreset_IsThatOfTheLinksRate(t *testing.T) {
	for _, preset := range dcqcn.Presets {
		p, err := Parse("lab.yaml", fmt.Appendf(nil, "topology: {generate: {star: {hosts: 1, rate: 25Gbps}}, kinds: {host: {nic: {cc: {dcqcn: {preset: %s, rpg_gd: 9, clamp_tgt_rate: true}}}}}}", preset))
		if err != nil {
			t.Fatal(err)
		}
		want := dcqcn.Preset(preset, 25*units.Gbps)
		want.RPGGD, want.ClampTgtRate = 9, true
		control := p.Nodes[1].NIC.Control
		if control.Name != "dcqcn" || control.Preset != preset {
			t.Errorf("%s: it says %q, %q", preset, control.Name, control.Preset)
		}
		if got := control.Settings.(*dcqcn.Config); *got != want {
			t.Errorf("%s: %+v, not %+v", preset, got, want)
		}
	}
}

// TestDerangement_IsEvenAndGivesNoHostItself checks that no host is its own peer, that every host
// is the peer of one, and that all derangements of four are about equally frequent.
func TestDerangement_IsEvenAndGivesNoHostItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		n := rapid.IntRange(2, 60).Draw(t, "n")
		seen := make([]bool, n)
		for i, peer := range drawDerangement(r, n) {
			if peer == i || seen[peer] {
				t.Errorf("%d goes to %d", i, peer)
			}
			seen[peer] = true
		}
	})
	const draws = 9000
	r := rand.New(rand.NewPCG(1, 2))
	count := map[string]int{}
	for range draws {
		count[fmt.Sprint(drawDerangement(r, 4))]++
	}
	for p, n := range count {
		if n < draws/9*8/10 || n > draws/9*12/10 {
			t.Errorf("%s comes up %d times of %d", p, n, draws)
		}
	}
	if len(count) != 9 {
		t.Errorf("%d derangements of four, not 9", len(count))
	}
}

// TestPermutation_DependsOnSeedAndNameOnly checks that a permutation depends only on the
// seed and on its name, or its number among the permutations, and not on other
// traffic.
func TestPermutation_DependsOnSeedAndNameOnly(t *testing.T) {
	peers := func(seed int, entries string) (to []int) {
		p, err := Parse("lab.yaml", fmt.Appendf(nil, "seed: %d\ntopology: {generate: {star: {hosts: 20}}, kinds: {host: {nic: roce}}}\nworkload: [%s]", seed, entries))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range p.Transfers[len(p.Transfers)-20:] {
			to = append(to, x.To)
		}
		return to
	}
	const unnamed, named = "{permutation: {size: 1KB}}", "{permutation: {size: 1KB, name: p}}"
	for _, test := range []struct {
		name string
		a, b []int
		same bool
	}{
		{"beside another flow", peers(1, unnamed), peers(1, "{cbr: {from: h1, to: h2, rate: 1Mbps, size: 1B, for: 1s}}, "+unnamed), true},
		{"beside an incast", peers(1, unnamed), peers(1, `{incast: {from: "h*", to: h2, size: 1B}}, `+unnamed), true},
		{"a second one", peers(1, unnamed), peers(1, unnamed+", "+unnamed), false},
		{"another seed", peers(1, unnamed), peers(2, unnamed), false},
		{"a name", peers(1, unnamed), peers(1, named), false},
		{"a name, anywhere", peers(1, named), peers(1, unnamed+", "+named), true},
	} {
		if reflect.DeepEqual(test.a, test.b) != test.same {
			t.Errorf("%s: %v and %v", test.name, test.a, test.b)
		}
	}
}

// transfersFile returns a lab of four hosts with a number of entries of transfers.
func transfersFile(p pick, number int) []byte {
	nics := []string{
		"nic: roce", "nic: none", "nic: {}", "nic: {cc: {dcqcn: {preset: hpcc}}}", "nic: {cc: {dcqcn: {rpg_gd: 10}}}",
		"nic: {mtu: 512, dscp: 26}", "nic: {limits: {max_qp: 60, max_qp_wr: 3}}", "nic: {mtu: 4096}",
	}
	// Half of the picks are usually.
	nic := func(name, usually string) string {
		return p(name, slices.Concat(slices.Repeat([]string{usually}, len(nics)), nics)...)
	}
	var entries []string
	for range number {
		keys := "size: " + p("size", "1KB", "0", "300B", "10MB")
		keys += p("count", "", "", ", count: 10", ", count: 3, every: 1us", ", for: 1ms", ", count: unlimited, for: 1s")
		keys += p("more", "", "", ", qps: 3", ", depth: 2", ", mtu: 256", ", ip: 6", ", dscp: 3", ", service: uc", ", at: 1s", ", name: x", ", flow-per-message: true")
		hosts := []string{"h1", "h2", "[h1, h3]", `"*"`, `"h[23]"`}
		from := p("from", hosts...)
		entries = append(entries, p("entry",
			"write: {from: "+from+", to: "+p("to", append([]string{"h4"}, hosts...)...)+", "+keys,
			"read: {from: h1, to: h4, "+keys,
			"send: {from: h4, to: h1, service: ud, "+keys,
			"incast: {to: h2, verb: write, from: "+from+", "+keys,
			"incast: {to: h2, verb: read, from: "+from+", "+keys,
			"incast: {to: h2, verb: send, from: "+from+", "+keys,
			"permutation: {"+keys, "all-to-all: {"+keys, "cbr: {from: h1, to: h2, rate: 1Mbps, for: 1s, "+keys)+"}")
	}
	return fmt.Appendf(nil, "topology: {kinds: {host: {%s}%s}, generate: {star: {hosts: 4, rate: 10Gbps, mtu: %s}}, nodes: {h2: {%s}, h3: {%s}}}\nworkload: [{%s}]",
		nic("kind", "nic: roce"), p("classes", "", ", switch: {classes: {a: {dscp: 26, priority: 3}}}"), p("mtu", "1500", "9000"),
		nic("second", ""), nic("third", ""), strings.Join(entries, "}, {"))
}

// TestTransfers_AcceptedFileIsASoundPlan draws NICs and transfers.
func TestTransfers_AcceptedFileIsASoundPlan(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		p, err := Parse("lab.yaml", transfersFile(drawPick(t), rapid.IntRange(1, 3).Draw(t, "entries")))
		if err != nil {
			return
		}
		accepted++
		checkPlan(t, p)
	})
	t.Logf("%d plans were accepted", accepted)
}

// TestTransfers_EachSettingAloneIsASoundPlan: the file with one transfer is accepted with each
// setting, but for those that need another one.
func TestTransfers_EachSettingAloneIsASoundPlan(t *testing.T) {
	needs := map[string]string{
		"to h1":                   "h1 cannot send to itself",
		"kind nic: none":          "no host has a NIC",
		"kind nic: {mtu: 4096}":   "more than the mtu 1500 of the link",
		"second nic: {mtu: 4096}": "more than the mtu 1500 of the link",
		"third nic: {mtu: 4096}":  "more than the mtu 1500 of the link",
	}
	tryEachAlone(func(p pick) { transfersFile(p, 1) }, func(setting string, p pick) {
		plan, err := Parse("lab.yaml", transfersFile(p, 1))
		if want, bad := needs[setting]; bad != (err != nil) || bad && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
		if err == nil {
			checkPlan(t, plan)
		}
	})
}
