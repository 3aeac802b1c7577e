package qcn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"

	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays inputs line by line and compares what comes of them. Rewrite
// with go test ./protocols/qcn -rewrite and check the difference by hand.
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

// player holds one flow and one congestion point.
type player struct {
	rp  *Reaction
	cp  *CP
	out strings.Builder
}

// middle is random numbers of which each is the middle of its range.
type middle struct{}

func (middle) Uint64() uint64 { return 1 << 52 }

func (p *player) play(t *testing.T, d *datadriven.TestData) (string, error) {
	p.out.Reset()
	switch d.Cmd {
	case "flow": // line=RATE, changed keys as YAML: a new flow
		line := arg(t, d, "line", units.ParseRate)
		c, err := configure(d, line)
		if err != nil {
			return "", err
		}
		p.rp = New(&c, line, rand.New(rand.NewPCG(1, 2)))
		p.show(0, "start")
	case "reaction": // lines of INSTANT [cnm FB | sent BYTES | line RATE]
		for _, line := range strings.Split(d.Input, "\n") {
			if err := p.input(strings.Fields(line)); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
		}
	case "point": // q-sp=BYTES, then lines of BYTES QUEUE: frames and the queue that they have joined
		c := StandardCP()
		if d.HasArg("q-sp") {
			c.QSp = arg(t, d, "q-sp", units.ParseBytes)
		}
		p.cp = NewCP(c, rand.New(middle{}))
		fallthrough
	case "frames": // the same point goes on
		for _, line := range strings.Split(d.Input, "\n") {
			if err := p.frame(strings.Fields(line)); err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
		}
	case "validate":
		if _, err := configure(d, arg(t, d, "line", units.ParseRate)); err != nil {
			return err.Error(), nil
		}
		return "good", nil
	default:
		return "", errors.New("no such command")
	}
	return p.out.String(), nil
}

func configure(d *datadriven.TestData, line units.Rate) (Config, error) {
	c := Preset("standard", line)
	if d.Input != "" {
		if err := yaml.UnmarshalWithOptions([]byte(d.Input), &c, yaml.Strict()); err != nil {
			return c, err
		}
	}
	return c, c.Validate(line)
}

// input lets the flow's timer run until the instant, showing each increase, and then
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
	if len(f) == 1 {
		return nil
	}
	switch f[1] {
	case "cnm":
		var fb int
		fb, err = strconv.Atoi(f[2])
		p.rp.Message(now, &CNM{Fb: uint8(fb)})
	case "sent":
		var n units.Bytes
		n, err = units.ParseBytes(f[2])
		p.rp.Sent(now, n)
	case "line":
		var r units.Rate
		r, err = units.ParseRate(f[2])
		p.rp.Line(now, r)
	default:
		err = errors.New("no such input")
	}
	p.show(now, strings.Join(f[1:], " "))
	return err
}

func (p *player) show(now units.Time, what string) {
	r := p.rp
	fmt.Fprintf(&p.out, "%7v %-12s rate %10.6f", now, what, float64(r.Rate())/float64(units.Gbps))
	if r.enabled {
		fmt.Fprintf(&p.out, " target %10.6f stages %d %d timer %v", float64(r.target)/float64(units.Gbps), r.timeStage, r.byteStage, r.Timer())
	}
	p.out.WriteString("\n")
}

func (p *player) frame(f []string) error {
	n, err := units.ParseBytes(f[0])
	queue, wrong := units.ParseBytes(f[1])
	s, sent := p.cp.Arrive(n, queue)
	fmt.Fprintf(&p.out, "%-12s", strings.Join(f, " "))
	switch {
	case sent:
		fmt.Fprintf(&p.out, " CNM: Fb %d, offset %v, delta %v", s.Fb, s.QOffset, s.QDelta)
	case s != Sample{}:
		fmt.Fprintf(&p.out, " no CNM: Fb %d, offset %v, delta %v", s.Fb, s.QOffset, s.QDelta)
	}
	fmt.Fprintf(&p.out, " (next sample after %v)\n", p.cp.enqueued)
	return errors.Join(err, wrong)
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
