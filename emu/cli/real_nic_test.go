package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/internal/judge"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/traces/workload"
)

// startWorkload is startLab with the file's modelled traffic.
func startWorkload(t *testing.T, text string, programs ...string) *realLab {
	t.Helper()
	l := newLab(t, needReal(t, programs...), t.TempDir(), text)
	l.must("up", "-d", "--workload", l.file)
	return l
}

// transferred waits until n messages of every transfer have ended.
func (l *realLab) transferred(n uint64) {
	l.t.Helper()
	i, err := netnslab.Find(l.name)
	if err != nil {
		l.t.Fatal(err)
	}
	for range 600 {
		r, err := lab.NewClient(i.Dir).Report(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Transfers, func(x workload.TransferResult) bool { return x.Completed+x.Failed < n }) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	l.t.Fatal("the transfers do not come to an end")
}

// TestNICsBesidePrograms: the NICs of real hosts, a TAP and a TUN, and of a
// modelled one, write, read and send to each other by the ports and addresses by
// which iperf3 and ping do meanwhile. Nothing of the NICs is lost, and what a
// capture has of them is right.
func TestNICsBesidePrograms(t *testing.T) {
	l := startWorkload(t, `
topology:
  kinds:
    host: {nic: {dscp: 26}, sysctls: {net.ipv4.tcp_congestion_control: reno}}
    switch: {classes: {roce: {dscp: 26, priority: 3, weight: 1}, default: {weight: 1}}}
  nodes: {h1: {kind: host}, h2: {kind: host, attach: tun}, h3: {kind: host, attach: none}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps, delay: 10us}
    - {endpoints: ["s1:2", "s2:2"], rate: 100Mbps, delay: 50us}
    - {endpoints: ["h2:eth0", "s2:1"], rate: 100Mbps, delay: 10us}
    - {endpoints: ["h3:eth0", "s2:3"], rate: 100Mbps, delay: 10us}
workload:
  - {write: {name: w, from: h1, to: h2, size: 60001B, for: 1h, every: 50ms}}
  - {read: {name: r, from: h1, to: h2, size: 60KB, for: 1h, every: 50ms, ip: 6}}
  - {send: {name: s, from: h3, to: h1, size: 60KB, for: 1h, every: 50ms}}
`, "iperf3", "ping", "tshark")
	stop := l.capture("s1:1")
	ping := l.command("exec", "-l", l.name, "h2", "--", "ping", "-6", "-c", "20", "-i", "0.1", "h1")
	var said strings.Builder
	ping.Stdout = &said
	if err := ping.Start(); err != nil {
		t.Fatal(err)
	}
	got := l.iperf3("h1", "h2", "h2", "-4", "-t", "2", "-C", "cubic").End.Received.Bits / 1e6
	if err := ping.Wait(); err != nil || !strings.Contains(said.String(), " 0% packet loss") {
		t.Errorf("ping beside NICs: %v\n%s", err, &said)
	}
	// The WRITEs take 10 Mb/s of the same direction.
	if t.Logf("iperf3: %.1f Mb/s", got); got < 10 || got > 90 {
		t.Errorf("iperf3 has %.1f Mb/s beside NICs", got)
	}
	l.transferred(30)
	file := stop()
	r := l.down()

	if a := r.Accounts; !a.Balanced() {
		t.Errorf("accounts: %+v", a)
	}
	late := r.Timing.Lateness
	if late.Count == 0 || late.P50 <= 0 {
		t.Errorf("lateness: %+v", late)
	}
	for _, x := range r.Transfers {
		if x.Posted > x.Completed+1 || x.Failed+x.Retransmitted+x.Timeouts != 0 || x.Received < x.Payload || x.Received > x.Payload+x.MessageSize || x.Goodput == 0 {
			t.Errorf("%+v", x)
		}
	}
	var text strings.Builder
	r.Write(&text)
	if !regexp.MustCompile(`(?m)^w +write +\d+ .*\n(.*\n)*goodput .* messages completed$`).MatchString(text.String()) {
		t.Errorf("the report does not show the transfers:\n%s", &text)
	}

	// SEND, WRITE, READ request and responses, acknowledgements.
	judge.Tshark(t, file, "0", "1", "2", "6", "7", "8", "12", "13", "14", "15", "17")
	judge.CheckICRC(t, judge.RoCE(t, file))
	if v6 := tshark(t, file, "-Y", "udp.dstport == 4791 && ipv6"); len(v6) == 0 {
		t.Error("no READ went by IPv6")
	}
}

// inBothClocks has all that a NIC does: marks and CNPs, pauses, READs, datagrams,
// losses and timeouts, a link that fails and one that changes its rate.
const inBothClocks = `
duration: 700ms
engine: {shards: %d}
topology:
  kinds:
    host: {attach: none, nic: {cc: dcqcn, dscp: 26}}
    switch:
      buffer: {size: 2MB}
      classes:
        cnp: {dscp: 48, priority: 6}
        roce: {dscp: 26, priority: 3, weight: 1, mark: {red: {kmin: 5KB, kmax: 50KB, pmax: 1%%}}, pfc: {xoff: 30KB}}
        default: {weight: 1}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 3, rate: 100Mbps, delay: 200us, loss: 0.1%%}}
events:
  - {at: 50ms, link: "h2:eth0", set: {rate: 50Mbps}}
  - {at: 100ms, link: "h3:eth0", set: {state: down}}
  - {at: 110ms, link: "h3:eth0", set: {state: up}}
workload:
  - {incast: {name: in, to: h1, from: [h2, h3, h4, h5, h6], size: 100KB, count: 5, at: 10ms}}
  - {read: {from: h4, to: h2, size: 50KB, for: 500ms, every: 30ms}}
  - {send: {from: h5, to: h6, size: 500B, count: 100, every: 5ms, service: ud, ip: 6}}
`

// TestNICsInBothClocks: where no program takes part a run in the wall clock is
// that in virtual time: every transfer has the same record and every port the
// same counters, whatever the machine did meanwhile, with one engine and two.
func TestNICsInBothClocks(t *testing.T) {
	weft := needReal(t)
	dir := t.TempDir()
	for _, shards := range []int{1, 2} {
		l := newLab(t, weft, dir, fmt.Sprintf(inBothClocks, shards))
		want := simulate(t, weft, l.file)
		o, e, code := l.run("up", "--workload", "--for", "700ms", "--json", l.file)
		if code != 0 {
			t.Fatalf("weft up: exit code %d\n%s", code, e)
		}
		got := &report.Report{}
		_, body, _ := strings.Cut(o, "{") // behind what says that the lab is up
		if err := json.Unmarshal([]byte("{"+body), got); err != nil {
			t.Fatal(err)
		}
		if got.Timing.Shards != shards || got.Clock != "wall" {
			t.Errorf("%d shards, %s clock", got.Timing.Shards, got.Clock)
		}
		for _, c := range []struct {
			what      string
			want, got any
		}{{"transfers", want.Transfers, got.Transfers}, {"sums", want.TransferSums, got.TransferSums}, {"ports", want.Ports, got.Ports}, {"accounts", want.Accounts, got.Accounts}} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("%d shards, %s (-virtual time +wall clock):\n%s", shards, c.what, diff)
			}
		}
		s, paused := want.TransferSums, pausedTime(portOf(t, want, "h2:eth0"), "roce")
		if s.CNPs == 0 || s.Retransmitted == 0 || want.Accounts.Drops["link-down"] == 0 || paused == 0 || s.Failed != 0 || s.Completed < 100 {
			t.Errorf("too little has happened: %+v, %v, paused for %v", s, want.Accounts, paused)
		}
	}
}

// TestNICsStaySilent: without --workload transfers do not send, and weft says so.
func TestNICsStaySilent(t *testing.T) {
	weft := needReal(t)
	l := newLab(t, weft, t.TempDir(), fmt.Sprintf(inBothClocks, 1))
	o, e, code := l.run("up", "--for", "50ms", "--json", l.file)
	if code != 0 || !strings.Contains(e, "7 modelled flows and transfers") || strings.Contains(o, `"transfer"`) {
		t.Errorf("exit code %d\n%s%s", code, e, o)
	}
	if left := residue(t, l.name); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
