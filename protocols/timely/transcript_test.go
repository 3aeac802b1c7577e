package timely

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays acknowledgements.
func TestTranscripts(t *testing.T) {
	cctest.RunTranscripts(t, "timely", func(out *strings.Builder) cctest.Player { return &player{out: out} })
}

// player holds one flow.
type player struct {
	flow  *Control
	acked units.Bytes
	out   *strings.Builder
}

func (p *player) Start(c cc.Control) {
	p.flow, p.acked = c.(*Control), 0
	p.show(0, "start")
}

func (p *player) Verb(_ *testing.T, d *datadriven.TestData) func([]string) error {
	if d.Cmd == "acks" { // lines of INSTANT BYTES [rtt RTT] [sent BYTES], or INSTANT line RATE
		return p.input
	}
	return nil
}

func (p *player) input(f []string) error {
	now, err := units.ParseTime(f[0])
	if err != nil {
		return err
	}
	if f[1] == "line" {
		r, err := units.ParseRate(f[2])
		p.flow.SetLineRate(now, r)
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
	p.flow.OnAck(now, &a)
	p.show(now, strings.Join(f[1:], " "))
	return err
}

func (p *player) show(now units.Time, what string) {
	g := p.flow.AppendGauges(now, nil)
	fmt.Fprintf(p.out, "%6v %-24s rate %10.6f", now, what, float64(p.flow.Rate())/float64(units.Gbps))
	if !math.IsNaN(g[1]) {
		fmt.Fprintf(p.out, " gradient %+9.6f falling %.0f", g[1], g[3])
	}
	p.out.WriteString("\n")
}
