package dctcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays acknowledgements line by line and compares what comes of them.
// Rewrite with go test ./protocols/dctcp -rewrite and check the difference by hand.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		p := new(player)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := p.play(t, d)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

// player holds one flow with packets of 1000 bytes in 1100 on the wire.
type player struct {
	config Config
	flow   *Control
	acked  units.Bytes
	out    strings.Builder
}

func (p *player) play(t *testing.T, d *datadriven.TestData) (string, error) {
	p.out.Reset()
	var preset, line, rtt string
	d.MaybeScanArgs(t, "preset", &preset)
	d.MaybeScanArgs(t, "line", &line)
	d.MaybeScanArgs(t, "rtt", &rtt)
	switch d.Cmd {
	case "flow", "validate": // preset=NAME line=RATE rtt=TIME, changed keys as YAML
		rate, err := units.ParseRate(line)
		if err != nil {
			return "", err
		}
		config := Preset(preset, rate)
		if d.Input != "" {
			err = yaml.UnmarshalWithOptions([]byte(d.Input), &config, yaml.Strict())
		}
		if err == nil {
			err = config.Validate(rate)
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
		p.config, p.acked = config, 0
		f := cc.Flow{Line: rate, MTU: 1000, Packet: 1100}
		if rtt != "" {
			if f.Path.RTT, err = units.ParseTime(rtt); err != nil {
				return "", err
			}
			f.Path.Bottleneck = rate
		}
		p.flow = New(&p.config, f)
		p.show("start")
	case "inputs": // lines of ACKED/SENT [CE] [rtt=TIME] [idle], nak, timeout or line RATE
		for _, line := range strings.Split(d.Input, "\n") {
			if err := p.input(line); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
			p.show(line)
		}
	default:
		return "", errors.New("no such command")
	}
	return p.out.String(), nil
}

func (p *player) input(line string) error {
	f := strings.Fields(line)
	switch f[0] {
	case "nak":
		p.flow.Lost(0, cc.Loss{Payload: 1000})
		return nil
	case "timeout":
		p.flow.Lost(0, cc.Loss{Payload: 1000, Timeout: true})
		return nil
	case "line":
		r, err := units.ParseRate(f[1])
		p.flow.Line(0, r)
		return err
	}
	var a cc.Ack
	if _, err := fmt.Sscanf(f[0], "%d/%d", &a.Acked, &a.Sent); err != nil {
		return err
	}
	a.Newly, a.InFlight = a.Acked-p.acked, a.Sent-a.Acked
	p.acked = a.Acked
	for _, word := range f[1:] {
		s, rtt := strings.CutPrefix(word, "rtt=")
		switch {
		case word == "CE":
			a.Marked = true
		case rtt:
			var err error
			if a.RTT, err = units.ParseTime(s); err != nil {
				return err
			}
		default:
			return errors.New("no such input")
		}
	}
	p.flow.Acked(0, &a)
	return nil
}

func (p *player) show(what string) {
	d := p.flow
	ssthresh := "-"
	if d.ssthresh < unlimited {
		ssthresh = fmt.Sprint(int64(d.ssthresh))
	}
	fmt.Fprintf(&p.out, "%-22s alpha %.5f F %.3f cwnd %6d ssthresh %6s", what, d.alpha, d.f, d.cwnd, ssthresh)
	if d.cwr {
		fmt.Fprintf(&p.out, " cwr until %d", d.highSeq)
	}
	if r := d.Rate(); r > 0 {
		fmt.Fprintf(&p.out, " R %.4fG", float64(r)/float64(units.Gbps))
	}
	p.out.WriteString("\n")
}
