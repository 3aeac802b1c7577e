package tcp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays connections over a path on which chosen segments are lost, late or
// marked, and compares everything sent over it with the files of testdata/transcripts. The
// command is
//
//	run size=BYTES [cwnd=SEGMENTS] [delay=TIME] [ecn=classic|dctcp] [plain] [rate=RATE] [burst=SEGMENTS] [single]
//	    [drop=N,…] [dropack=N,…] [late=N:TIME,…] [mark=N,…] [twice=N,…] [every=N] [quick=N]
//
// where N counts the segments of the sender or, for dropack, the receiver, from 0. delay is the
// one-way delay. plain means without timestamps, single without offload. Numbers of the stream
// begin at 0 with the first byte of data. Rewrite with go test ./protocols/tcp -rewrite, and
// check the difference by hand.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "no such command")
			}
			return play(t, d)
		})
	})
}

func play(t *testing.T, d *datadriven.TestData) string {
	c := Default()
	c.AckEvery = cctest.Arg(t, d, "every", c.AckEvery, strconv.Atoi)
	c.QuickAcks = cctest.Arg(t, d, "quick", c.QuickAcks, strconv.Atoi)
	c.Timestamps, c.Offload = !d.HasArg("plain"), !d.HasArg("single")
	c.ECN = cctest.Arg(t, d, "ecn", NoECN, func(s string) (ECN, error) {
		return map[string]ECN{"classic": ClassicECN, "dctcp": DCTCP}[s], nil
	})
	size := units.Bytes(cctest.Arg(t, d, "size", 0, strconv.Atoi))
	delay := cctest.Arg(t, d, "delay", 5*units.Millisecond, units.ParseTime)
	drop, dropAck, mark, twice := numbers(t, d, "drop"), numbers(t, d, "dropack"), numbers(t, d, "mark"), numbers(t, d, "twice")
	late := numbers(t, d, "late")
	control := &fixed{window: c.FullPayload() * units.Bytes(cctest.Arg(t, d, "cwnd", 10, strconv.Atoi)), minWindow: c.FullPayload()}
	control.burst = c.FullPayload() * units.Bytes(cctest.Arg(t, d, "burst", 0, strconv.Atoi))
	control.rate = cctest.Arg(t, d, "rate", 0, units.ParseRate)

	var out strings.Builder
	n := &network{}
	sent, answered := 0, 0
	n.way = func(toReceiver bool, g *Segment) []units.Time {
		if !toReceiver {
			answered++
			if _, gone := dropAck[answered-1]; gone {
				out.WriteString(" lost")
				return nil
			}
			return []units.Time{delay}
		}
		k := sent
		sent++
		if _, gone := drop[k]; gone {
			out.WriteString(" lost")
			return nil
		}
		more, isLate := late[k]
		if isLate {
			fmt.Fprintf(&out, " late %v", more)
		}
		if _, ok := mark[k]; ok && g.ECT {
			g.CE = true
			out.WriteString(" CE")
		}
		// A byte takes a nanosecond, so that segments do not overtake each other.
		at := delay + units.Time(k)*units.Nanosecond + more
		if _, ok := twice[k]; ok {
			out.WriteString(" twice")
			return []units.Time{at, at + units.Microsecond}
		}
		return []units.Time{at}
	}
	n.seen = func(toReceiver bool, g *Segment) {
		out.WriteString("\n")
		n.show(&out, toReceiver, g, sent)
	}
	n.check = func() { checkSender(t, &n.sender) }
	n.start(&c, control, cc.Traits{}, size)
	n.run(1000 * units.Second)
	k := n.sender.Counters()
	fmt.Fprintf(&out, "\n%d segments, %d again, %d recoveries, %d timeouts, %d probes, %d spurious; window %d, RTO %.3fms",
		k.Segments, k.Resent, k.Recoveries, k.Timeouts, k.Probes, k.Spurious, control.window/c.FullPayload(), n.sender.RTO().Seconds()*1e3)
	if n.sender.Failure() != "" {
		out.WriteString("\n" + n.sender.Failure())
	}
	return strings.TrimPrefix(out.String(), "\n") + "\n"
}

// show prints a line for a segment.
func (n *network) show(out *strings.Builder, toReceiver bool, g *Segment, number int) {
	fmt.Fprintf(out, "%9.3fms ", n.now.Seconds()*1e3)
	if toReceiver {
		fmt.Fprintf(out, "%3d > ", number)
	} else {
		out.WriteString("      < ")
	}
	fmt.Fprintf(out, "%-8v", g.Flags)
	stream := func(seq uint32) int32 { return int32(seq - n.sender.iss - 1) }
	switch {
	case g.Flags&SYN != 0:
		fmt.Fprintf(out, " mss %d scale %d", g.MSS, g.Scale)
	case toReceiver && g.Payload > 0:
		fmt.Fprintf(out, " %d:%d", stream(g.Seq), stream(g.Seq)+int32(g.Payload))
	case !toReceiver:
		fmt.Fprintf(out, " ack %d", stream(g.Ack))
		for _, b := range g.SACK() {
			fmt.Fprintf(out, " sack %d:%d", stream(b.From), stream(b.To))
		}
	}
}

// numbers returns an argument that is a list of numbers, each optionally with a time.
func numbers(t *testing.T, d *datadriven.TestData, key string) map[int]units.Time {
	m := map[int]units.Time{}
	for _, a := range d.CmdArgs {
		if a.Key != key {
			continue
		}
		for _, v := range a.Vals {
			number, span, timed := strings.Cut(v, ":")
			k, err := strconv.Atoi(number)
			if err == nil && timed {
				m[k], err = units.ParseTime(span)
			} else {
				m[k] = 0
			}
			if err != nil {
				d.Fatalf(t, "%s: %v", key, err)
			}
		}
	}
	return m
}
