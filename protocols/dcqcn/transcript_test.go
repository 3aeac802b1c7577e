package dcqcn

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

// TestTranscripts plays CNPs to a reaction point, and packets to a notification point.
func TestTranscripts(t *testing.T) {
	cctest.RunTranscripts(t, "dcqcn", func(out *strings.Builder) cctest.Player { return &player{out: out} })
}

// player holds one flow.
type player struct {
	rp  *Control
	np  cc.Notification
	out *strings.Builder
}

func (p *player) Start(c cc.Control) {
	p.rp, p.np = c.(*Control), cc.Notification{}
	p.show(0, "start")
}

func (p *player) Verb(_ *testing.T, d *datadriven.TestData) func([]string) error {
	switch d.Cmd {
	case "reaction": // lines of INSTANT [cnp | sent BYTES | line RATE]
		return p.input
	case "packets": // lines of INSTANT [CE]: which are answered by a CNP
		return p.packet
	}
	return nil
}

func (p *player) packet(f []string) error {
	now, err := units.ParseTime(f[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%-8s", strings.Join(f, " "))
	if p.np.NeedsCNP(now, len(f) > 1 && f[1] == "CE", p.rp.config.NPMinTimeBetweenCNPs) {
		p.out.WriteString(" CNP")
	}
	p.out.WriteString("\n")
	return nil
}

// input lets the flow's timers fire until the instant, showing each, and then
// does what the line says.
func (p *player) input(f []string) error {
	now, err := units.ParseTime(f[0])
	if err != nil {
		return err
	}
	for p.rp.NextTimer() <= now {
		at := p.rp.NextTimer()
		p.rp.OnTimer(at)
		p.show(at, "timer")
	}
	p.rp.OnTimer(now)
	switch {
	case len(f) == 1:
	case f[1] == "cnp":
		p.rp.OnCNP(now)
	case f[1] == "sent":
		n, err := units.ParseBytes(f[2])
		if err != nil {
			return err
		}
		p.rp.OnPacketSent(now, n)
	case f[1] == "line":
		r, err := units.ParseRate(f[2])
		if err != nil {
			return err
		}
		p.rp.SetLineRate(now, r)
	default:
		return errors.New("no such input")
	}
	p.show(now, strings.Join(f[1:], " "))
	return nil
}

func (p *player) show(now units.Time, what string) {
	s := p.rp.State(now)
	gbps := func(r units.Rate) string { return fmt.Sprintf("%.9f", float64(r)/float64(units.Gbps)) }
	fmt.Fprintf(p.out, "%7v %-15s rate %13s", now, what, gbps(s.Rate))
	if s.Limited {
		fmt.Fprintf(p.out, " target %13s alpha %.6f stages %d %d", gbps(s.Target), float64(s.Alpha), s.TimeStage, s.ByteStage)
	}
	fmt.Fprintf(p.out, " timer %v\n", p.rp.NextTimer())
}
