package swift

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays acknowledgements and losses.
func TestTranscripts(t *testing.T) {
	cctest.RunTranscripts(t, "swift", func(out *strings.Builder) cctest.Player { return &player{out: out} })
}

// player holds one flow.
type player struct {
	flow *Control
	out  *strings.Builder
}

func (p *player) Start(c cc.Control) {
	p.flow = c.(*Control)
	p.show("start")
}

func (p *player) Verb(_ *testing.T, d *datadriven.TestData) func([]string) error {
	if d.Cmd == "inputs" { // lines of INSTANT RTT PACKETS [idle], INSTANT nak or INSTANT timeout
		return p.input
	}
	return nil
}

func (p *player) input(f []string) error {
	now, err := units.ParseTime(f[0])
	if err != nil {
		return err
	}
	switch f[1] {
	case "nak", "timeout":
		p.flow.OnLoss(now, cc.Loss{Payload: 1000, Timeout: f[1] == "timeout"})
	default:
		packets, err := strconv.Atoi(f[2])
		if err != nil {
			return err
		}
		a := cc.Ack{Newly: units.Bytes(packets) * 1000, InFlight: p.flow.Window()}
		if a.RTT, err = units.ParseTime(f[1]); err != nil {
			return err
		}
		if len(f) > 3 {
			a.InFlight = 0
		}
		p.flow.OnAck(now, &a)
	}
	p.show(strings.Join(f, " "))
	return nil
}

func (p *player) show(what string) {
	fmt.Fprintf(p.out, "%-18s cwnd %9.5f target %8.4fus", what, p.flow.cwnd, p.flow.targetDelay().Micros())
	if r := p.flow.Rate(); r > 0 {
		fmt.Fprintf(p.out, " R %.4fM", float64(r)/float64(units.Mbps))
	}
	p.out.WriteString("\n")
}

// TestConvergence: flows that join one after the other fill the link, share it and keep the
// delay at the target, which flow scaling raises with the number of flows.
func TestConvergence(t *testing.T) {
	var last float64
	for _, flows := range []int{2, 8, 64} {
		b := &cctest.Bottleneck{Line: 100 * units.Gbps, NIC: 100 * units.Gbps, MTU: 1000, Packet: 1100}
		b.Delay = 10*units.Microsecond - b.RTT()
		config := Preset("htsim")
		var all []*cctest.Flow
		for i := range flows {
			b.Run(units.Time(i) * 30 * units.Microsecond)
			all = append(all, b.Start(config.New(b.Flow())))
		}
		b.Run(10 * units.Millisecond)
		b.RestartMeasurement(all...)
		b.Run(15 * units.Millisecond)
		mean, longest, used := b.Results()
		jain := cctest.Jain(all...)
		rtt := b.RTT().Micros() + mean*8/100e3
		target := 0.0
		for _, f := range all {
			target += f.Control.(*Control).targetDelay().Micros() / float64(flows)
		}
		t.Logf("%d flows: %.4f of the link, Jain's index %.4f, queue %.0f B, at most %.0f: RTT %.1f us, target %.1f us", flows, used, jain, mean, longest, rtt, target)
		if used < 0.99 || jain < 0.98 || rtt < 0.9*target || rtt > 1.05*target || rtt <= last {
			t.Errorf("%d flows: %.4f of the link, Jain's index %.4f, RTT %.1f us, target %.1f us", flows, used, jain, rtt, target)
		}
		last = rtt
	}
}

// TestConfigAsText: the preset is valid and survives YAML and JSON.
func TestConfigAsText(t *testing.T) {
	cctest.CheckPresets(t, "swift", units.Mbps, units.Gbps, 100*units.Gbps, 1_600*units.Gbps)
}

// TestGauges: their values fit their descriptions.
func TestGauges(t *testing.T) {
	config := Preset("htsim")
	s := New(&config, cc.Flow{MTU: 1000, Packet: 1100})
	for _, want := range []string{"cwnd 10 target 2.7061e-05s", "cwnd 10.1 target 2.70098e-05s rtt 1e-05s"} {
		if got := cctest.FormatGauges(t, "swift", s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		s.OnAck(1, &cc.Ack{Newly: 1000, InFlight: 9000, RTT: 10 * units.Microsecond})
	}
}

func TestAnAcknowledgementDoesNotAllocate(t *testing.T) {
	config := Preset("htsim")
	var s cc.Control = New(&config, cc.Flow{MTU: 1000, Packet: 1100})
	now := units.Time(0)
	ack := cc.Ack{Newly: 1000, InFlight: 100_000}
	if n := testing.AllocsPerRun(1000, func() {
		now += units.Microsecond
		ack.RTT = 20*units.Microsecond + now%(20*units.Microsecond)
		s.OnAck(now, &ack)
		if s.Window() == 0 || s.Rate() > 0 {
			t.Error("paced")
		}
	}); n != 0 {
		t.Errorf("%v allocations an acknowledgement", n)
	}
}
