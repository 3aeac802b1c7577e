package swift

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays acknowledgements line by line and compares what comes of them.
// Rewrite with go test ./protocols/swift -rewrite and check the difference by hand.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		var s *Control
		config := new(Config)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := play(t, d, &s, config)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

// play plays packets of 1000 bytes in 1100 on the wire.
func play(t *testing.T, d *datadriven.TestData, s **Control, config *Config) (string, error) {
	var out strings.Builder
	show := func(what string) {
		fmt.Fprintf(&out, "%-18s cwnd %9.5f target %8.4fus", what, (*s).cwnd, (*s).target().Micros())
		if r := (*s).Rate(); r > 0 {
			fmt.Fprintf(&out, " R %.4fM", float64(r)/float64(units.Mbps))
		}
		out.WriteString("\n")
	}
	switch d.Cmd {
	case "flow", "validate": // hops=N: a new flow, with changed keys as YAML
		c := Preset("htsim")
		var err error
		if d.Input != "" {
			err = yaml.UnmarshalWithOptions([]byte(d.Input), &c, yaml.Strict())
		}
		if err == nil {
			err = c.Validate(100 * units.Gbps)
		}
		if d.Cmd == "validate" {
			if err != nil {
				return err.Error(), nil
			}
			return "good", nil
		}
		if err != nil {
			return "", err
		}
		*config = c
		f := cc.Flow{MTU: 1000, Packet: 1100}
		d.MaybeScanArgs(t, "hops", &f.Path.Hops)
		*s = New(config, f)
		show("start")
	case "inputs": // lines of INSTANT RTT PACKETS [idle], INSTANT nak or INSTANT timeout
		for _, line := range strings.Split(d.Input, "\n") {
			f := strings.Fields(line)
			now, err := units.ParseTime(f[0])
			if err != nil {
				return "", err
			}
			switch f[1] {
			case "nak", "timeout":
				(*s).Lost(now, cc.Loss{Payload: 1000, Timeout: f[1] == "timeout"})
			default:
				a := cc.Ack{InFlight: (*s).Window()}
				var n units.Bytes
				if _, err := fmt.Sscan(f[2], (*int64)(&n)); err != nil {
					return "", err
				}
				a.Newly = n * 1000
				if a.RTT, err = units.ParseTime(f[1]); err != nil {
					return "", err
				}
				if len(f) > 3 {
					a.InFlight = 0
				}
				(*s).Acked(now, &a)
			}
			show(line)
		}
	default:
		return "", errors.New("no such command")
	}
	return out.String(), nil
}

// TestConvergence: flows that join one after the other fill the link, share it and keep the delay at the target, which
// flow scaling raises with their number.
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
		b.Measure(all...)
		b.Run(15 * units.Millisecond)
		mean, longest, used := b.Results()
		jain := cctest.Jain(all...)
		rtt := b.RTT().Micros() + mean*8/100e3
		target := 0.0
		for _, f := range all {
			target += f.Control.(*Control).target().Micros() / float64(flows)
		}
		t.Logf("%d flows: %.4f of the link, Jain's index %.4f, queue %.0f B, at most %.0f: RTT %.1f us, target %.1f us", flows, used, jain, mean, longest, rtt, target)
		if used < 0.99 || jain < 0.98 || rtt < 0.9*target || rtt > 1.05*target || rtt <= last {
			t.Errorf("%d flows: %.4f of the link, Jain's index %.4f, RTT %.1f us, target %.1f us", flows, used, jain, rtt, target)
		}
		last = rtt
	}
}

// TestConfigAsText: the preset is good and comes through YAML and JSON.
func TestConfigAsText(t *testing.T) {
	cctest.Presets(t, "swift", units.Mbps, units.Gbps, 100*units.Gbps, 1_600*units.Gbps)
}

// TestGauges: their values fit their descriptions.
func TestGauges(t *testing.T) {
	method, err := cc.Methods.Find("swift")
	if err != nil {
		t.Fatal(err)
	}
	config := Preset("htsim")
	s := New(&config, cc.Flow{MTU: 1000, Packet: 1100})
	for _, want := range []string{"cwnd 10  target 2.7061e-05 s", "cwnd 10.1  target 2.70098e-05 s rtt 1e-05 s"} {
		var got []string
		for _, v := range gauge.Read(method.Gauges, s.Gauges(0, nil)) {
			got = append(got, fmt.Sprintf("%s %.6g %s", v.Name, v.Value, v.Unit))
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q, want %q", g, want)
		}
		s.Acked(1, &cc.Ack{Newly: 1000, InFlight: 9000, RTT: 10 * units.Microsecond})
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
		s.Acked(now, &ack)
		if s.Window() == 0 || s.Rate() > 0 {
			t.Error("paced")
		}
	}); n != 0 {
		t.Errorf("%v allocations an acknowledgement", n)
	}
}
