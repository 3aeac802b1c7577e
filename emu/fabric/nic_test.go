package fabric

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// leaves records when data packets of one length begin to leave a port.
type leaves struct {
	size units.Bytes
	at   []units.Time
}

func (l *leaves) Observe(now units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, _ packet.Fate, _ units.Bytes) {
	if dir == port.Out && p.Size == l.size {
		l.at = append(l.at, now)
	}
}

// between returns the gaps between the packets that left in a span of time.
func (l *leaves) between(from, to units.Time) (gaps []units.Time) {
	for i := 1; i < len(l.at); i++ {
		if l.at[i-1] >= from && l.at[i] <= to {
			gaps = append(gaps, l.at[i]-l.at[i-1])
		}
	}
	return gaps
}

// TestNICLineRate_FollowsItsLink: when the link that leaves a host gets another rate, by an
// event or by hand, the NIC's rate control uses it as its line rate, and paces by it from the
// next packet on.
func TestNICLineRate_FollowsItsLink(t *testing.T) {
	const ms = units.Millisecond
	for _, byHand := range []bool{false, true} {
		lab := `
duration: 4ms
topology:
  kinds: {host: {nic: {cc: dcqcn, mtu: 1024}}}
  generate: {star: {hosts: 2, rate: 100Gbps}}
`
		rates := []units.Rate{100 * units.Gbps, 10 * units.Gbps, 5 * units.Gbps, 40 * units.Gbps}
		if !byHand {
			lab += `
events:
  - {at: 1ms, link: "h1:eth0", set: {rate: 10Gbps}}
  - {at: 2ms, from: "h1:eth0", set: {rate: 5Gbps}}
  - {at: 3ms, from: "h1:eth0", set: {rate: 40Gbps}}
  - {at: 3.2ms, from: "s1:h1", set: {rate: 1Gbps}}
  - {at: 3.4ms, link: "h1:eth0", set: {delay: 1ns}}
`
		}
		f := New(parse(t, lab))
		a, _ := f.DeviceOf("h1")
		b, _ := f.DeviceOf("h2")
		const size = 80 * units.MB
		q, from, to := fabrictest.Connect(t, a, b, size)
		if err := q.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{from.SGE(0, size)}, RemoteVA: to.Addr(0), RKey: to.RKey()}); err != nil {
			t.Fatal(err)
		}
		// Middle packets: Ethernet, IPv4, UDP, BTH, payload, ICRC.
		watch := &leaves{size: 14 + 20 + 8 + 12 + 1024 + 4}
		f.Interfaces[0].Port.SetObserver(0, watch)
		for i, rate := range rates {
			at := units.Time(i) * ms
			if byHand && i > 0 {
				if err := f.Set(f.linkAt(t, "h1:eth0"), [2]bool{true, true}, change.LinkPatch{Rate: &rate}); err != nil {
					t.Fatal(err)
				}
			}
			f.advance(t, at+ms-1)
			if got, _ := q.Rate(); got != rate {
				t.Errorf("by hand %v, at %v: the queue pair may send at %v, the line is of %v", byHand, f.Now(), got, rate)
			}
			// The packet that was leaving at the change still does at the old rate.
			gaps, want := watch.between(at+10*units.Microsecond, at+ms), rate.TimeOf(packet.OnWire(watch.size))
			slices.Sort(gaps)
			if len(gaps) < 500 || gaps[0] != want || gaps[len(gaps)-1] != want {
				t.Errorf("by hand %v, at %v: %d gaps of %v to %v, want %v", byHand, rate, len(gaps), gaps[0], gaps[len(gaps)-1], want)
			}
		}
	}
}

// TestNICLineRate_CapsASlowedFlow: a flow that DCQCN has slowed down keeps its rate when the
// line becomes slower but stays above it, and is capped when the line falls below it.
func TestNICLineRate_CapsASlowedFlow(t *testing.T) {
	f := New(parse(t, `
duration: 2ms
topology:
  kinds: {host: {nic: {cc: {dcqcn: {rpg_min_rate: 2Gbps, rpg_time_reset: 1s, rpg_byte_reset: 0B}}}}}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    s1: {kind: switch, queue: {mark: {step: {k: 20KB}}}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 10Gbps}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 4Gbps}
`))
	a, _ := f.DeviceOf("h1")
	b, _ := f.DeviceOf("h2")
	q, from, to := fabrictest.Connect(t, a, b, units.GB)
	if err := q.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{from.SGE(0, units.GB)}, RemoteVA: to.Addr(0), RKey: to.RKey()}); err != nil {
		t.Fatal(err)
	}
	f.advance(t, 2*units.Millisecond)
	if slow, _ := q.Rate(); slow != 2*units.Gbps {
		t.Fatalf("marks have slowed the flow down to %v, want the least, 2Gbps", slow)
	}
	for _, c := range []struct{ line, want units.Rate }{
		{8 * units.Gbps, 2 * units.Gbps}, {units.Gbps / 2, units.Gbps / 2}, {0, units.Gbps / 2}, {10 * units.Gbps, units.Gbps / 2},
	} {
		if err := f.Set(f.linkAt(t, "h1:eth0"), [2]bool{true, true}, change.LinkPatch{Rate: &c.line}); err != nil {
			t.Fatal(err)
		}
		if got, _ := q.Rate(); got != c.want {
			t.Errorf("with a line of %v the flow has %v, want %v", c.line, got, c.want)
		}
	}
}

// TestQueuePairs_RecoverFromALinkFailureWithinTheirRetries: while a link on their path is down
// queue pairs time out and try again. They recover when it comes up in time, and fail when
// their retries are used up.
func TestQueuePairs_RecoverFromALinkFailureWithinTheirRetries(t *testing.T) {
	const timeout, retries = 4096 * units.Nanosecond << 8, 3
	for _, verb := range []string{"write", "read", "send"} {
		for _, where := range []string{`link: "h1:eth0"`, `from: "h1:eth0"`, `from: "s1:h1"`, `link: "s1:h2"`} {
			for _, up := range []string{"4ms", "never"} {
				t.Run(fmt.Sprintf("%s, %s down until %s", verb, where, up), func(t *testing.T) {
					lab := fmt.Sprintf(`
topology:
  kinds: {host: {nic: {timeout: 1ms, retries: %d}}}
  generate: {star: {hosts: 2, rate: 1Gbps, delay: 1us}}
workload:
  - %s: {from: h1, to: h2, size: 100KB, count: 20, depth: 2}
events:
  - {at: 1ms, %s, set: {state: down}}
`, retries, verb, where)
					if up != "never" {
						lab += fmt.Sprintf("  - {at: %s, %s, set: {state: up}}\n", up, where)
					}
					f := New(parse(t, lab))
					if err := f.Run(context.Background(), units.Never); err != nil {
						t.Fatal(err)
					}
					a, r := f.Accounts(), f.Transfers()[0]
					if !a.Balanced() || a.Held != 0 || a.Drops["link-down"] == 0 {
						t.Errorf("accounts: %+v", a)
					}
					if up != "never" {
						if r.Completed != 20 || r.Failed != 0 || r.Received != 2_000_000 || r.Timeouts == 0 || r.Timeouts > retries {
							t.Errorf("not recovered: %+v", r)
						}
						return
					}
					// A message uses up its retries, and the one behind it is flushed.
					if r.Completed == 0 || r.Failed == 0 || r.Completed+r.Failed != r.Posted || r.FirstFailure != "IBV_WC_RETRY_EXC_ERR" || r.Timeouts != retries+1 {
						t.Errorf("not failed: %+v", r)
					}
					// The first timeout begins with the last progress: what was asked for still
					// arrives in a direction that is up.
					if took := f.Now() - units.Millisecond; took < retries*timeout || took > (retries+1)*timeout+2*units.Millisecond {
						t.Errorf("gave up after %v, with %d retries of %v", took, retries, timeout)
					}
				})
			}
		}
	}
}
