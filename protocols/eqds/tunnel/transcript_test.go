package tunnel

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays tunnels over a path of 5 us on which chosen packets are lost, trimmed,
// late or copied, and compares all traffic with the files of testdata/transcripts. A file is
// one tunnel; its commands are
//
//	tunnel [backend=ndp|rts] [window=PACKETS] [credit=PACKETS] [epoch=N]
//	    begins it; the sender draws the epoch
//	play [drop=N,…] [trim=N,…] [late=N:TIME,…] [twice=N,…] [dropback=N,…] [for=TIME]
//	    ACTION
//	    …
//	    takes actions, one after the other at the same time, and lets 10 ms pass
//
// N counts what the sender or, for dropback, the receiver has sent since the command began,
// from 0. Actions are: push PACKETS; sender or receiver, followed by forgets or closes; epoch
// N, the next that the sender draws; data FLAGS EPOCH:NUMBER TARGET and control FLAGS
// EPOCH:NUMBER PULL, which the network injects. A packet is shown as EPOCH:NUMBER, and is 1514
// bytes long. Rewrite with go test ./protocols/eqds/tunnel -rewrite, and check the difference
// by hand.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		x := &transcript{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.out.Reset()
			switch d.Cmd {
			case "tunnel":
				x.begin(d)
			case "play":
				x.play(d)
			default:
				d.Fatalf(t, "no such command")
			}
			return x.out.String()
		})
	})
}

// transcript is a tunnel and its log.
type transcript struct {
	t     *testing.T
	out   strings.Builder
	w     *world
	s     *source
	start units.Time
	sent  int
	back  int
	came  int
	gone  int
}

func (x *transcript) begin(d *datadriven.TestData) {
	credit := cctest.Arg(x.t, d, "credit", 1, strconv.Atoi)
	c := creditConfig(cctest.Arg(x.t, d, "backend", NDP, func(s string) (b Backend, err error) { return b, b.UnmarshalText([]byte(s)) }), credit)
	c.Window = testMTU * units.Bytes(cctest.Arg(x.t, d, "window", 3, strconv.Atoi))
	x.w = newCreditWorld(x.t, c, nil, 1, credit)
	x.s = x.w.senders[0]
	x.draw(cctest.Arg(x.t, d, "epoch", 5, strconv.Atoi))
	x.s.seen = func(_ *source, what string) { fmt.Fprintf(&x.out, "%8.2fus %s\n", (x.w.now - x.start).Micros(), what) }
}

// draw makes the sender draw the given epoch next.
func (x *transcript) draw(epoch int) {
	x.s.sender.known, x.s.sender.epoch = true, eqds.Epoch(epoch+63)%64
}

func (x *transcript) play(d *datadriven.TestData) {
	drop, trim, twice, late, back := list(x.t, d, "drop"), list(x.t, d, "trim"), list(x.t, d, "twice"), list(x.t, d, "late"), list(x.t, d, "dropback")
	x.start, x.sent, x.back, x.came, x.gone = x.w.now, 0, 0, len(x.s.delivered), len(x.s.gone)
	x.w.data = func(*source, *eqds.Data, units.Bytes) []trip {
		n := x.sent
		x.sent++
		if _, gone := drop[n]; gone {
			return nil
		}
		_, cut := trim[n]
		trips := []trip{{delay: 5*us + late[n], trim: cut}}
		if _, copied := twice[n]; copied {
			trips = append(trips, trip{delay: 6 * us})
		}
		return trips
	}
	x.w.control = func(*source, *eqds.Control) []trip {
		n := x.back
		x.back++
		if _, gone := back[n]; gone {
			return nil
		}
		return []trip{{delay: 5 * us}}
	}
	for _, line := range strings.Split(d.Input, "\n") {
		if err := x.act(strings.Fields(line)); err != nil {
			d.Fatalf(x.t, "%s: %v", line, err)
		}
	}
	x.w.run(x.w.now + cctest.Arg(x.t, d, "for", 10*units.Millisecond, units.ParseTime))
	s := x.s
	fmt.Fprintf(&x.out, "sender %v, epoch %d, credit %d; receiver ", s.sender.Phase(), s.sender.Epoch(), s.sender.Credit())
	if s.receiver.Open() {
		fmt.Fprintf(&x.out, "open, epoch %d", s.receiver.Epoch())
	} else {
		x.out.WriteString("closed")
	}
	fmt.Fprintf(&x.out, "\ndelivered %v", s.delivered[x.came:])
	if left, _ := s.receiver.ReorderQueue(); left > 0 {
		fmt.Fprintf(&x.out, ", %d in the reorder queue", left)
	}
	packets, _ := s.sender.Queue()
	fmt.Fprintf(&x.out, "; %d wait, %d are under way, the sender is rid of %d\n", packets, s.sender.Unacknowledged(), len(s.gone)-x.gone)
}

func (x *transcript) act(f []string) error {
	if len(f) == 2 {
		switch s := x.s; f[0] + " " + f[1] {
		case "sender forgets":
			s.sender.DropState()
			s.send()
			return nil
		case "receiver forgets":
			s.receiver.DropState()
			return nil
		case "sender closes":
			if h, ok := s.sender.Close(); ok {
				s.fly(h, load{}, RequestLen)
			}
			return nil
		case "receiver closes":
			if c, ok := s.receiver.Close(); ok {
				s.reply(c)
			}
			return nil
		}
		n, err := strconv.Atoi(f[1])
		switch f[0] {
		case "push":
			x.s.push(n, testMTU)
			return err
		case "epoch":
			x.draw(n)
			return err
		}
	}
	if len(f) != 4 {
		return fmt.Errorf("no such action")
	}
	var epoch, number, last int
	if _, err := fmt.Sscanf(f[2]+" "+f[3], "%d:%d %d", &epoch, &number, &last); err != nil {
		return err
	}
	seq := eqds.Epoch(epoch).First() + uint16(number)
	switch f[0] {
	case "data":
		h := eqds.Data{Flags: flagsOf(f[1], false), Next: eqds.NextIPv4, Seq: seq, Target: uint16(last)}
		if h.IsRTS() {
			h.Next = eqds.NextNothing
		}
		x.s.fly(h, load{0, 0}, testMTU)
	case "control":
		x.s.reply(eqds.Control{Flags: flagsOf(f[1], true), Ack: seq, Pull: uint16(last)})
	default:
		return fmt.Errorf("no such action")
	}
	return nil
}

// flagsOf reads flags as they are written.
func flagsOf(s string, control bool) (f eqds.Flags) {
	of := []eqds.Flags{eqds.FlagSYN, eqds.FlagRST, eqds.FlagRTS}
	if control {
		f = eqds.FlagControl
		of = []eqds.Flags{eqds.FlagSYN, eqds.FlagRST, eqds.FlagACK, eqds.FlagNACK, eqds.FlagSACK, eqds.FlagPULL}
	}
	for _, name := range strings.Split(s, "+") {
		for _, bit := range of {
			if (f&eqds.FlagControl | bit).String() == name {
				f |= bit
			}
		}
	}
	return f
}

// list returns an argument that is a list of numbers, each perhaps with a time.
func list(t *testing.T, d *datadriven.TestData, key string) map[int]units.Time {
	m := map[int]units.Time{}
	for _, a := range d.CmdArgs {
		if a.Key != key {
			continue
		}
		for _, v := range a.Vals {
			number, span, timed := strings.Cut(v, ":")
			k, err := strconv.Atoi(number)
			if m[k] = 0; err == nil && timed {
				m[k], err = units.ParseTime(span)
			}
			if err != nil {
				d.Fatalf(t, "%s: %v", key, err)
			}
		}
	}
	return m
}
