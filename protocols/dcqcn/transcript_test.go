package dcqcn

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

// TestTranscripts plays inputs line by line and compares what comes of them.
// Rewrite with go test ./protocols/dcqcn -rewrite and check the difference by
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
	config Config
	line   units.Rate
	rp     *Reaction
	np     cc.Notification
	out    strings.Builder
}

func (p *player) play(t *testing.T, d *datadriven.TestData) (string, error) {
	p.out.Reset()
	switch d.Cmd {
	case "flow": // preset=NAME line=RATE, changed keys as YAML: a new flow
		var preset string
		p.line = arg(t, d, "line", units.ParseRate)
		d.MaybeScanArgs(t, "preset", &preset)
		if err := p.configure(preset, d.Input); err != nil {
			return "", err
		}
		p.rp, p.np = New(&p.config, p.line), cc.Notification{}
		p.show(0, "start")
	case "reaction": // lines of INSTANT [cnp | sent BYTES | line RATE]
		for _, line := range strings.Split(d.Input, "\n") {
			if err := p.input(strings.Fields(line)); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
		}
	case "packets": // lines of INSTANT [CE]: which are answered by a CNP
		for _, line := range strings.Split(d.Input, "\n") {
			at, mark, _ := strings.Cut(line, " ")
			now, err := units.ParseTime(at)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&p.out, "%-8s", line)
			if p.np.Packet(now, mark == "CE", p.config.NPMinTimeBetweenCNPs) {
				p.out.WriteString(" CNP")
			}
			p.out.WriteString("\n")
		}
	case "validate":
		c, line := p.config, p.line
		p.line = arg(t, d, "line", units.ParseRate)
		var preset string
		d.MaybeScanArgs(t, "preset", &preset)
		err := p.configure(preset, d.Input)
		p.config, p.line = c, line
		if err == nil {
			return "good", nil
		}
		return err.Error(), nil
	default:
		return "", errors.New("no such command")
	}
	return p.out.String(), nil
}

func (p *player) configure(preset, keys string) error {
	p.config = Preset(preset, p.line)
	if keys != "" {
		if err := yaml.UnmarshalWithOptions([]byte(keys), &p.config, yaml.Strict()); err != nil {
			return err
		}
	}
	return p.config.Validate(p.line)
}

// input lets the flow's timers fire until the instant, showing each, and then
// does what the line says.
func (p *player) input(f []string) error {
	now, err := units.ParseTime(f[0])
	if err != nil {
		return err
	}
	for p.rp.Timer() <= now {
		at := p.rp.Timer()
		p.rp.Tick(at)
		p.show(at, "timer")
	}
	p.rp.Tick(now)
	switch {
	case len(f) == 1:
	case f[1] == "cnp":
		p.rp.CNP(now)
	case f[1] == "sent":
		n, err := units.ParseBytes(f[2])
		if err != nil {
			return err
		}
		p.rp.Sent(now, n)
	case f[1] == "line":
		r, err := units.ParseRate(f[2])
		if err != nil {
			return err
		}
		p.rp.Line(now, r)
	default:
		return errors.New("no such input")
	}
	p.show(now, strings.Join(f[1:], " "))
	return nil
}

func (p *player) show(now units.Time, what string) {
	s := p.rp.State(now)
	gbps := func(r units.Rate) string { return fmt.Sprintf("%.9f", float64(r)/float64(units.Gbps)) }
	fmt.Fprintf(&p.out, "%7v %-15s rate %13s", now, what, gbps(s.Rate))
	if s.Limited {
		fmt.Fprintf(&p.out, " target %13s alpha %.6f stages %d %d", gbps(s.Target), float64(s.Alpha), s.TimeStage, s.ByteStage)
	}
	fmt.Fprintf(&p.out, " timer %v\n", p.rp.Timer())
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
