package qcn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays messages to a reaction point, and frames to a congestion point.
func TestTranscripts(t *testing.T) {
	cctest.RunTranscripts(t, "qcn", func(out *strings.Builder) cctest.Player { return &player{out: out} })
}

// player holds one flow and one congestion point.
type player struct {
	rp  *Control
	cp  *CP
	out *strings.Builder
}

// middle is a source whose random numbers are all in the middle of the range.
type middle struct{}

func (middle) Uint64() uint64 { return 1 << 52 }

func (p *player) Start(c cc.Control) {
	p.rp = c.(*Control)
	p.show(0, "start")
}

func (p *player) Verb(t *testing.T, d *datadriven.TestData) func([]string) error {
	switch d.Cmd {
	case "reaction": // lines of INSTANT [cnm FB | sent BYTES | line RATE]
		return p.input
	case "point": // q-sp=BYTES, then lines of BYTES QUEUE: frames and the queue that they join
		c := StandardCP()
		c.QSp = cctest.Arg(t, d, "q-sp", c.QSp, units.ParseBytes)
		p.cp = NewCP(c, rand.New(middle{}))
		return p.frame
	case "frames": // continue with the same point
		return p.frame
	}
	return nil
}

// input lets the flow's timer run until the instant, showing each increase, and then
// executes the line.
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
	if len(f) == 1 {
		return nil
	}
	switch f[1] {
	case "cnm":
		var fb int
		fb, err = strconv.Atoi(f[2])
		p.rp.OnMessage(now, &CNM{Fb: uint8(fb)})
	case "sent":
		var n units.Bytes
		n, err = units.ParseBytes(f[2])
		p.rp.OnPacketSent(now, n)
	case "line":
		var r units.Rate
		r, err = units.ParseRate(f[2])
		p.rp.SetLineRate(now, r)
	default:
		err = errors.New("no such input")
	}
	p.show(now, strings.Join(f[1:], " "))
	return err
}

func (p *player) show(now units.Time, what string) {
	r := p.rp
	fmt.Fprintf(p.out, "%7v %-12s rate %10.6f", now, what, float64(r.Rate())/float64(units.Gbps))
	if r.enabled {
		fmt.Fprintf(p.out, " target %10.6f stages %d %d timer %v", float64(r.target)/float64(units.Gbps), r.timeStage, r.byteStage, r.NextTimer())
	}
	p.out.WriteString("\n")
}

func (p *player) frame(f []string) error {
	n, err := units.ParseBytes(f[0])
	queue, wrong := units.ParseBytes(f[1])
	s, sent := p.cp.CountFrame(n, queue)
	fmt.Fprintf(p.out, "%-12s", strings.Join(f, " "))
	switch {
	case sent:
		fmt.Fprintf(p.out, " CNM: Fb %d, offset %v, delta %v", s.Fb, s.QOffset, s.QDelta)
	case s != Sample{}:
		fmt.Fprintf(p.out, " no CNM: Fb %d, offset %v, delta %v", s.Fb, s.QOffset, s.QDelta)
	}
	fmt.Fprintf(p.out, " (next sample after %v)\n", p.cp.enqueued)
	return errors.Join(err, wrong)
}
