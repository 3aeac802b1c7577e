package hpcc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/telemetry"
)

// TestTranscripts plays acknowledgements.
func TestTranscripts(t *testing.T) {
	cctest.RunTranscripts(t, "hpcc", func(out *strings.Builder) cctest.Player { return &player{out: out} })
}

// player holds one flow.
type player struct {
	flow *Control
	out  *strings.Builder
}

func (p *player) Start(c cc.Control) {
	p.flow = c.(*Control)
	p.show("start")
}

func (p *player) Verb(_ *testing.T, d *datadriven.TestData) func([]string) error {
	if d.Cmd == "acks" { // lines of INSTANT ACKED/SENT [path=N] [rtt=TIME] [RATE:INSTANT:BYTES:QUEUE of a hop ...], or INSTANT line RATE
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
		p.show(strings.Join(f[:3], " "))
		return err
	}
	var a cc.Ack
	if _, err := fmt.Sscanf(f[1], "%d/%d", &a.Acked, &a.Sent); err != nil {
		return err
	}
	for _, word := range f[2:] {
		if s, ok := strings.CutPrefix(word, "path="); ok {
			n, err := strconv.ParseUint(s, 10, 16)
			if err != nil {
				return err
			}
			a.Path = uint16(n)
			continue
		}
		if s, ok := strings.CutPrefix(word, "rtt="); ok {
			if a.RTT, err = units.ParseTime(s); err != nil {
				return err
			}
			continue
		}
		hop, err := parseHop(word)
		if err != nil {
			return err
		}
		a.Hops = append(a.Hops, hop)
	}
	p.flow.OnAck(now, &a)
	p.show(f[0] + " " + f[1])
	return nil
}

// parseHop reads RATE:INSTANT:BYTES:QUEUE.
func parseHop(word string) (telemetry.Hop, error) {
	f := strings.Split(word, ":")
	if len(f) != 4 {
		return 0, fmt.Errorf("%q is no hop", word)
	}
	rate, err1 := units.ParseRate(f[0])
	at, err2 := units.ParseTime(f[1])
	sent, err3 := units.ParseBytes(f[2])
	queue, err4 := units.ParseBytes(f[3])
	code, _ := telemetry.RateCode(rate) // code 0 if there is none
	return telemetry.NewHop(code, at, sent, queue), errors.Join(err1, err2, err3, err4)
}

func (p *player) show(what string) {
	h := p.flow
	fmt.Fprintf(p.out, "%-22s U %.4f incStage %d W_c %9.2f W %9.2f R %8.4fG window %d lastUpdateSeq %d\n",
		what, h.u, h.incStage, h.wc, h.w, float64(h.Rate())/float64(units.Gbps), h.Window(), h.lastUpdateSeq)
}
