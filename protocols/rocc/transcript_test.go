package rocc

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays messages to a reaction point.
func TestTranscripts(t *testing.T) {
	cctest.RunTranscripts(t, "rocc", func(out *strings.Builder) cctest.Player { return &player{out: out} })
}

func TestPresets(t *testing.T) {
	cctest.CheckPresets(t, "rocc", 100*units.Mbps, units.Gbps, 10*units.Gbps, 40*units.Gbps, 100*units.Gbps, 400*units.Gbps)
}

// player holds one flow.
type player struct {
	rp  *Control
	out *strings.Builder
}

func (p *player) Start(c cc.Control) {
	p.rp = c.(*Control)
	p.show(0, "start")
}

func (p *player) Verb(_ *testing.T, d *datadriven.TestData) func([]string) error {
	if d.Cmd == "reaction" { // lines of INSTANT [CP RATE | line RATE], CP a letter
		return p.input
	}
	return nil
}

// input lets the flow's timer run until the instant, showing the effects, and then
// executes the line.
func (p *player) input(f []string) error {
	now, err := units.ParseTime(f[0])
	if err != nil {
		return err
	}
	for p.rp.NextTimer() <= now {
		at := p.rp.NextTimer()
		what := "rises"
		if len(p.rp.waiting) > 0 && p.rp.waiting[0].at == at {
			what = "takes effect"
		}
		p.rp.OnTimer(at)
		p.show(at, what)
	}
	if len(f) == 1 {
		return nil
	}
	if len(f) != 3 {
		return errors.New("an input has three words")
	}
	r, err := units.ParseRate(f[2])
	if f[1] == "line" {
		p.rp.SetLineRate(now, r)
	} else {
		p.rp.OnMessage(now, from(f[1], r))
	}
	p.show(now, strings.Join(f[1:], " "))
	return err
}

// from returns a message from the congestion point that a letter names.
func from(cp string, r units.Rate) *Feedback {
	return &Feedback{CP: CP{Agent: netip.AddrFrom4([4]byte{198, 18, 0, cp[0]})}, Rate: uint32(r / (10 * units.Mbps)), DeltaF: 10 * units.Mbps}
}

func (p *player) show(now units.Time, what string) {
	r := p.rp
	fmt.Fprintf(p.out, "%7v %-12s rate %v", now, what, r.Rate())
	if r.limited {
		fmt.Fprintf(p.out, " by %c, rises at %v", r.cp.Agent.As4()[3], r.riseAt)
	}
	fmt.Fprintf(p.out, " (%d accepted, %d refused)\n", r.accepted, r.refused)
}
