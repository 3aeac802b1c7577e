package fabric

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// drawNICLab makes a random lab like drawDeepLab in which hosts have NICs, with
// transfers of every verb and service beside the flows.
func drawNICLab(t *rapid.T) string {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	// DCQCN more often than the others, and in the class that marks: only it has CNPs.
	controls := slices.DeleteFunc(cc.Methods.Names(), func(name string) bool {
		m, err := cc.Methods.Find(name)
		return err != nil || m.Preset(m.Presets[0], units.Gbps).Traits().NeedsDelivery // NICs lack it
	})
	control := pick("cc", append([]string{"none", "dcqcn", "dcqcn", "dcqcn"}, controls...)...)
	dscps := []string{"3", "1", "0"}
	if control == "dcqcn" {
		dscps = []string{"1"}
	}
	telemetry := false
	if m, err := cc.Methods.Find(control); err == nil {
		preset := pick("preset", m.Presets...)
		telemetry = m.Preset(preset, units.Gbps).Traits().Telemetry > 0
		control = "{" + control + ": {preset: " + preset + "}}"
	}
	nic := fmt.Sprintf("{dscp: %s, cc: %s, ack-every: %s, ask-every: %s, timeout: %s, retries: %d, rnr-timer: 20us, mtu: %s, delays: %s, recovery: %s",
		pick("NIC's DSCP", dscps...), control, pick("ack-every", "0", "1", "5"), pick("ask-every", "0", "1", "16"),
		pick("timeout", "65us", "500us", "none"), rapid.IntRange(0, 7).Draw(t, "retries"), pick("mtu", "256", "1024"),
		pick("delays", "none", "connectx-3", "{doorbell: 100ns, dma: 3us, completion: 20us}"), pick("recovery", "go-back-n", "connectx-3"))
	text := strings.Replace(drawDeepLab(t), "host: {attach: none}", "host: {attach: none, nic: "+nic+"}}", 1)
	if telemetry { // it cannot encode every rate
		text = regexp.MustCompile(`rate: \d+Mbps, delay`).ReplaceAllString(text, "rate: 1Gbps, delay")
		text = strings.Replace(text, "rate: 77Mbps", "rate: 100Mbps", 1)
	}
	var b strings.Builder
	b.WriteString(text)
	for i := range rapid.IntRange(1, 4).Draw(t, "transfers") {
		verb, service := pick("verb", "write", "read", "send"), pick("service", "rc", "rc", "uc", "ud")
		size := rapid.IntRange(0, 60_000).Draw(t, "size")
		switch {
		case verb == "read":
			service = "rc"
		case service == "ud":
			verb, size = "send", size%257
		}
		fmt.Fprintf(&b, "  - {%s: {name: t%d, from: [%s], to: %s, service: %s, size: %dB, qps: %d, depth: %d, at: %dus, for: 1ms", verb, i,
			pick("from", "h1", "h1, h3", "h2, h3, h1"), pick("to", "h4", "h2"), service, size,
			rapid.IntRange(1, 3).Draw(t, "qps"), rapid.IntRange(1, 20).Draw(t, "depth"), rapid.IntRange(0, 300).Draw(t, "at"))
		b.WriteString(pick("every", "", ", every: 30us", ", every: 200us, ip: 6", ", ip: 6, count: 7"))
		b.WriteString("}}\n")
	}
	return b.String()
}

// nicOutcome is outcome with the results of NICs and transfers.
func nicOutcome(f *Fabric) []any {
	type counters struct {
		NIC nicemu.Counters
		QPs any
	}
	all := append(outcome(f), f.Transfers())
	for _, n := range f.nics {
		a, b := n.Counters()
		all = append(all, counters{a, b})
	}
	return all
}

// TestTransfers_AreTheSameWithAnyNumberOfWorkers: whatever switches and links do to transfers,
// every packet is accounted for, and neither the number of workers nor inspections, at any
// time, change anything.
func TestTransfers_AreTheSameWithAnyNumberOfWorkers(t *testing.T) {
	check(t, 30, func(rt *rapid.T) {
		runSound(rt, drawNICLab(rt), soundness{workers: 4, watch: watchAll, outcome: nicOutcome})
	})
}

// TestTransfers_SurviveOrFailTheSameWithAnyNumberOfWorkers: the same, for labs in which
// transfers slow down, lose packets, time out and fail.
func TestTransfers_SurviveOrFailTheSameWithAnyNumberOfWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		nic, link, events string
		happens           func(s *workload.TransferSums) bool
	}{
		"marks slow them down": {
			nic: "cc: dcqcn", happens: func(s *workload.TransferSums) bool {
				return s.CNPs > 0 && s.Completed > 0 && s.Failed == 0
			},
		},
		"links lose packets": {
			nic: "timeout: 65us", link: ", loss: 1%", happens: func(s *workload.TransferSums) bool {
				return s.NAKs > 0 && s.Retransmitted > 0 && s.Timeouts > 0 && s.Completed > 0
			},
		},
		"a link fails": {
			nic: "timeout: 65us, retries: 1", events: "events:\n  - {at: 1ms, link: \"h4:eth0\", set: {state: down}}\n",
			happens: func(s *workload.TransferSums) bool {
				return s.Timeouts > 0 && s.Failed > 0 && s.Completed > 0
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := runSound(t, fmt.Sprintf(`
duration: 2ms
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, %s}}
    switch: {classes: {cnp: {dscp: 48, priority: 6}, roce: {dscp: 26, priority: 3, limit: 300KB, mark: {step: {k: 20KB}}}}}
  generate: {dumbbell: {left: 3, right: 2, rate: 10Gbps, delay: 1us%s}}
%sworkload:
  - {incast: {to: h4, from: [h1, h2, h3], size: 50KB, count: unlimited}}
  - {read: {from: h4, to: h1, size: 20KB, count: unlimited, every: 100us}}
  - {send: {from: h5, to: h2, size: 30KB, count: unlimited, every: 100us}}
`, c.nic, c.link, c.events), soundness{workers: 4, watch: watchAll, outcome: nicOutcome})
			if s := workload.SumTransfers(f.Transfers()); !c.happens(s) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// watchAll captures at all ports. The function that it returns stops that.
func watchAll(t rapid.TB, f *Fabric) (end func()) {
	var ports []Watched
	for n := range f.Plan.Nodes {
		for i := range f.Plan.Nodes[n].Ports {
			if f.ports[n][i].Link() != nil {
				ports = append(ports, Watched{Node: n, Port: i, In: true, Out: true})
			}
		}
	}
	c, err := f.NewCapture(ports, capture.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), io.Discard)
		ended <- err
	}()
	stop := f.Watch(ports, c)
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
