package fabrictest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// DrawLab makes a random topology with every kind of link impairment and random
// traffic across it.
func DrawLab(t *rapid.T) string {
	generators := []string{
		"star: {hosts: %d, %s}", "dumbbell: {left: %d, right: 2, %s}", "parking-lot: {hops: %d, %s}",
		"leaf-spine: {spines: 2, leaves: %d, hosts-per-leaf: 2, %s}", "fat-tree: {k: 4, %s}",
	}
	g := rapid.SampledFrom(generators).Draw(t, "generator")
	link := fmt.Sprintf("rate: %dMbps, delay: %dns, loss: %d%%, corrupt: %d%%, duplicate: %d%%, reorder: %d%%, reorder-by: 20us, jitter: %dns, jitter-reorder: %v",
		rapid.IntRange(50, 2000).Draw(t, "rate"), rapid.IntRange(0, 20_000).Draw(t, "delay"), rapid.IntRange(0, 5).Draw(t, "loss"),
		rapid.IntRange(0, 5).Draw(t, "corrupt"), rapid.IntRange(0, 5).Draw(t, "duplicate"), rapid.IntRange(0, 5).Draw(t, "reorder"),
		rapid.IntRange(1, 5000).Draw(t, "jitter"), rapid.Bool().Draw(t, "free"))
	if strings.Contains(g, "%d") {
		g = fmt.Sprintf(g, rapid.IntRange(2, 4).Draw(t, "size"), link)
	} else {
		g = fmt.Sprintf(g, link)
	}
	limit := rapid.IntRange(2, 100).Draw(t, "limit")
	k := rapid.IntRange(0, limit-1).Draw(t, "k")
	return fmt.Sprintf(`
seed: %d
clock: %s
duration: 2ms
topology:
  kinds: {switch: {queue: {limit: %dKB, mark: {step: {k: %dKB, not-ect: drop}}}}}
  generate: {%s}
events:
  - {at: 500us, link: "h1:eth0", set: {state: down}}
  - {at: 700us, link: "h1:eth0", set: {state: up, rate: 77Mbps, delay: 1us}}
workload:
  - {cbr: {from: [h1, h3], to: [h2, h4], rate: %dMbps, size: %dB, ect: %v}}
  - {poisson: {from: h4, to: h1, rate: 200Mbps, size: 100B, ip: 6}}
`, rapid.IntRange(1, 1000).Draw(t, "seed"), DrawClock(t), limit, k, g,
		rapid.IntRange(1, 400).Draw(t, "offered"), rapid.IntRange(1, 1400).Draw(t, "payload"), rapid.Bool().Draw(t, "ect"))
}

// DrawClock makes a random value of the key clock.
func DrawClock(t *rapid.T) string {
	return rapid.SampledFrom([]string{"exact", "exact", "real", "{ppm: -1000, jitter: packet}", "{ppm: 37.5}", "{jitter: 3us}"}).Draw(t, "clock")
}

// drawQoS makes random settings of switches with classes of every kind.
func drawQoS(t *rapid.T) string {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	pfc := pick("pfc", "", "credits: {buffer: 2KB}, ", "credits: {buffer: 7KB, update: 64B, period: 30us}, ", "pfc: {xoff: 6KB, xon: 3KB}, ", "pfc: {alpha: 1/8, offset: 2KB, quanta: 500}, ",
		"pfc: {xoff: 9KB, offset: 4KB, watchdog: {detect: 100us, restore: 50us, action: forward}}, ",
		"pfc: {xoff: 4KB, xon: 2KB, watchdog: {detect: 60us, restore: 90us}}, ")
	trim := pick("trim", "", "", "", "limit: 5KB, trim: {preset: ndp, dscp: 12}, ", "limit: 9KB, trim: {preset: uec, dscp: 12}, ", "limit: 3KB, trim: {keep: 30B, dscp: 12, tail: 50%, fix-length: true}, ")
	pause := ""
	if pfc == "" {
		pause = pick("pause", "", "pause: {xoff: 7KB, xon: 4KB}, ")
	}
	mark := pick("mark", "", "mark: {red: {kmin: 2KB, kmax: 9KB, pmax: 0.3}}, ", "mark: {codel: {target: 20us, interval: 200us}}, ", "mark: {pi: {target: 3KB}}, ", "mark: {step: {k: 3KB, not-ect: drop}}, ")
	if pause != "" {
		trim = ""
	}
	if trim != "" {
		mark = ""
	}
	order := "fifo"
	if !strings.Contains(mark, "codel") {
		order = pick("order", "fifo", "fair")
	}
	return fmt.Sprintf(`buffer: {size: %s, alpha: %s}, %scut-through: %v, classes: {
      guarded: {dscp: [3], priority: 3, %s%s},
      bulk: {dscp: [1], priority: 1, order: %s, %s%s%sreserve: 2KB},
      headers: {dscp: [12], priority: 7, limit: 2KB},
      default: {weight: 2}}`,
		pick("buffer", "600KB", "2MB"), pick("alpha", "1/8", "1", "8"), pause, rapid.Bool().Draw(t, "cut-through"),
		pfc, pick("guarded weight", "", "weight: 4"),
		order, pick("bulk weight", "", "weight: 1, "), trim, mark)
}

// DrawQoSLab makes a random lab of switches with QoS and with traffic in all
// their classes.
func DrawQoSLab(t *rapid.T) string {
	generators := []string{"star: {hosts: 4, %s}", "dumbbell: {left: 3, right: 2, %s}", "leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, %s}", "parking-lot: {hops: 3, %s}"}
	link := fmt.Sprintf("rate: %dMbps, delay: %dns, loss: %v%%, corrupt: %d%%", rapid.IntRange(100, 2000).Draw(t, "rate"), rapid.IntRange(0, 9000).Draw(t, "delay"),
		rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "loss"), rapid.IntRange(0, 1).Draw(t, "corrupt"))
	g := fmt.Sprintf(rapid.SampledFrom(generators).Draw(t, "generator"), link)
	return fmt.Sprintf(`
seed: %d
clock: %s
duration: 2ms
topology:
  kinds:
    host: {attach: none}
    switch: {%s}
  generate: {%s}
events:
  - {at: 500us, link: "h1:eth0", set: {state: down}}
  - {at: 700us, link: "h1:eth0", set: {state: up, rate: 77Mbps}}
workload:
  - {cbr: {from: [h1, h3], to: [h2, h4], rate: %dMbps, size: %dB, ect: %v, dscp: 3}}
  - {on-off: {from: [h1, h2], to: h4, rate: 900Mbps, size: 1200B, dscp: 1, ect: true, on: 50us, off: 40us}}
  - {poisson: {from: [h4, h3], to: h1, rate: 200Mbps, size: 100B, ip: 6, dscp: %d}}
`, rapid.IntRange(1, 1000).Draw(t, "seed"), DrawClock(t), drawQoS(t), g,
		rapid.IntRange(1, 700).Draw(t, "offered"), rapid.IntRange(1, 1400).Draw(t, "payload"), rapid.Bool().Draw(t, "ect"),
		rapid.SampledFrom([]int{0, 1, 3, 12}).Draw(t, "dscp"))
}

// DrawNICLab makes a random lab like DrawQoSLab in which hosts have NICs, with
// transfers of every verb and service beside the flows.
func DrawNICLab(t *rapid.T) string {
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
	text := strings.Replace(DrawQoSLab(t), "host: {attach: none}", "host: {attach: none, nic: "+nic+"}}", 1)
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

// Permutation is a fat-tree of k ports with 100 Gb/s links in which every host
// sends packets of 1000 B to one other, at some Gb/s.
func Permutation(t testing.TB, k, gbps int) *plan.Plan {
	hosts := k * k * k / 4
	var flows strings.Builder
	for i := 1; i <= hosts; i++ {
		fmt.Fprintf(&flows, "  - {cbr: {from: h%d, to: h%d, rate: %dGbps, size: 1000B}}\n", i, (i+hosts/2-1)%hosts+1, gbps)
	}
	return Parse(t, fmt.Sprintf("duration: 1h\ntopology: {kinds: {switch: {queue: {limit: 200KB}}, host: {queue: {limit: 200KB}}}, generate: {fat-tree: {k: %d, rate: 100Gbps, delay: 1us}}}\nworkload:\n", k)+flows.String())
}
