package dctcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays acknowledgements and losses.
func TestTranscripts(t *testing.T) {
	cctest.RunTranscripts(t, "dctcp", func(out *strings.Builder) cctest.Player { return &player{out: out} })
}

// player holds one flow.
type player struct {
	flow  *Control
	acked units.Bytes
	out   *strings.Builder
}

func (p *player) Start(c cc.Control) {
	p.flow, p.acked = c.(*Control), 0
	p.show("start")
}

func (p *player) Verb(_ *testing.T, d *datadriven.TestData) func([]string) error {
	if d.Cmd == "inputs" { // lines of ACKED/SENT [CE] [rtt=TIME], nak, timeout or line RATE
		return func(f []string) error {
			err := p.input(f)
			p.show(strings.Join(f, " "))
			return err
		}
	}
	return nil
}

func (p *player) input(f []string) error {
	switch f[0] {
	case "nak":
		p.flow.OnLoss(0, cc.Loss{Payload: 1000})
		return nil
	case "timeout":
		p.flow.OnLoss(0, cc.Loss{Payload: 1000, Timeout: true})
		return nil
	case "line":
		r, err := units.ParseRate(f[1])
		p.flow.SetLineRate(0, r)
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
	p.flow.OnAck(0, &a)
	return nil
}

func (p *player) show(what string) {
	d := p.flow
	ssthresh := "-"
	if d.ssthresh < unlimited {
		ssthresh = fmt.Sprint(int64(d.ssthresh))
	}
	fmt.Fprintf(p.out, "%-22s alpha %.5f F %.3f cwnd %6d ssthresh %6s", what, d.alpha, d.f, d.cwnd, ssthresh)
	if d.cwr {
		fmt.Fprintf(p.out, " cwr until %d", d.highSeq)
	}
	if r := d.Rate(); r > 0 {
		fmt.Fprintf(p.out, " R %.4fG", float64(r)/float64(units.Gbps))
	}
	p.out.WriteString("\n")
}
