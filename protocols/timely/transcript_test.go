package timely

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays acknowledgements line by line and compares what comes of
// them. Rewrite with go test ./protocols/timely -rewrite and check the difference by
// hand.
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

// player holds one flow.
type player struct {
	flow  *Timely
	acked units.Bytes
	out   strings.Builder
}

func (p *player) play(t *testing.T, d *datadriven.TestData) (string, error) {
	p.out.Reset()
	switch d.Cmd {
	case "flow": // preset=NAME line=RATE [path=RTT], changed keys as YAML: a new flow
		f := cc.Flow{Line: arg(t, d, "line", units.ParseRate)}
		if d.HasArg("path") {
			f.Path.RTT = arg(t, d, "path", units.ParseTime)
		}
		c, err := p.configure(t, d, f.Line)
		if err != nil {
			return err.Error(), nil
		}
		p.flow, p.acked = New(&c, f), 0
		p.show(0, "start")
	case "acks": // lines of INSTANT BYTES [rtt RTT] [sent BYTES], or INSTANT line RATE
		for _, line := range strings.Split(d.Input, "\n") {
			if err := p.input(strings.Fields(line)); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
		}
	case "validate":
		if _, err := p.configure(t, d, arg(t, d, "line", units.ParseRate)); err != nil {
			return err.Error(), nil
		}
		return "good", nil
	default:
		return "", errors.New("no such command")
	}
	return p.out.String(), nil
}

func (p *player) configure(t *testing.T, d *datadriven.TestData, line units.Rate) (Config, error) {
	var preset string
	d.MaybeScanArgs(t, "preset", &preset)
	c := Preset(preset, line)
	if d.Input != "" {
		if err := yaml.UnmarshalWithOptions([]byte(d.Input), &c, yaml.Strict()); err != nil {
			return c, err
		}
	}
	return c, c.Validate(line)
}

func (p *player) input(f []string) error {
	now, err := units.ParseTime(f[0])
	if err != nil {
		return err
	}
	if f[1] == "line" {
		r, err := units.ParseRate(f[2])
		p.flow.Line(now, r)
		p.show(now, strings.Join(f[1:], " "))
		return err
	}
	var a cc.Ack
	a.Newly, err = units.ParseBytes(f[1])
	p.acked += a.Newly
	a.Acked, a.Sent = p.acked, p.acked
	for i := 2; i+1 < len(f); i += 2 {
		var wrong error
		switch f[i] {
		case "rtt":
			a.RTT, wrong = units.ParseTime(f[i+1])
		case "sent":
			a.Sent, wrong = units.ParseBytes(f[i+1])
		default:
			wrong = errors.New("no such input")
		}
		err = errors.Join(err, wrong)
	}
	p.flow.Acked(now, &a)
	p.show(now, strings.Join(f[1:], " "))
	return err
}

func (p *player) show(now units.Time, what string) {
	g := p.flow.Gauges(now, nil)
	fmt.Fprintf(&p.out, "%6v %-24s rate %10.6f", now, what, float64(p.flow.Rate())/float64(units.Gbps))
	if !math.IsNaN(g[1]) {
		fmt.Fprintf(&p.out, " gradient %+9.6f falling %.0f", g[1], g[3])
	}
	p.out.WriteString("\n")
}

func arg[T any](t *testing.T, d *datadriven.TestData, key string, parse func(string) (T, error)) T {
	var s string
	d.MaybeScanArgs(t, key, &s)
	v, err := parse(s)
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", d.Pos, key, err))
	}
	return v
}
