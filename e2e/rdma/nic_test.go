package rdma

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// startWorkload is testlab.Start with the file's modelled traffic.
func startWorkload(t *testing.T, text string, programs ...string) *testlab.Lab {
	t.Helper()
	l := testlab.New(t, testlab.Need(t, programs...), t.TempDir(), text)
	l.Must("up", "-d", "--workload", l.File)
	return l
}

// reportSoFar returns the report of the running lab.
func reportSoFar(l *testlab.Lab) *report.Report {
	l.T.Helper()
	r, err := l.Client().Report(l.T.Context())
	if err != nil {
		l.T.Fatal(err)
	}
	return r
}

// transferred waits until n more messages of every transfer have ended.
func transferred(l *testlab.Lab, n uint64) {
	l.T.Helper()
	before := map[string]uint64{}
	ended := func(x workload.TransferResult) uint64 { return x.Completed + x.Failed }
	for _, x := range reportSoFar(l).Transfers {
		before[x.Transfer] = ended(x)
	}
	l.WaitFor(fmt.Sprintf("%d more messages of each transfer", n), func() bool {
		return !slices.ContainsFunc(reportSoFar(l).Transfers, func(x workload.TransferResult) bool { return ended(x) < before[x.Transfer]+n })
	})
}

// TestNICs_ShareTheirPortsWithPrograms: the NICs of real hosts, a TAP and a TUN, and of a
// modelled one, write, read and send to each other through the ports and
// addresses that iperf3 and ping use at the same time. No packet of the NICs is
// lost, and they are correct in a capture.
func TestNICs_ShareTheirPortsWithPrograms(t *testing.T) {
	t.Parallel()
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
	stop := l.Capture("s1:1", "-f", "udp port 4791")
	transferred(l, 5)
	file := stop()
	ping := l.StartProgram("h2", testlab.PingCommand(20, "-6", "h1")...)
	t.Logf("iperf3: %.1f Mb/s", l.Iperf3("h1", "h2", "h2", "-4", "-n", "3M", "-C", "cubic").End.Received.Bits/1e6)
	if err := ping.WaitEnd(t); err != nil {
		t.Errorf("ping beside NICs: %v\n%s", err, &ping.Out)
	}
	r := l.Down()

	if a := r.Accounts; !a.Balanced() {
		t.Errorf("accounts: %+v", a)
	}
	late := r.Timing.Lateness
	if late.Count == 0 || late.P50 <= 0 {
		t.Errorf("lateness: %+v", late)
	}
	for _, x := range r.Transfers {
		if x.Completed < 5+2 || x.Posted > x.Completed+1 || x.Failed+x.Retransmitted+x.Timeouts != 0 || x.Received < x.Payload || x.Received > x.Payload+x.MessageSize || x.Goodput == 0 {
			t.Errorf("%+v", x)
		}
	}
	var text strings.Builder
	r.Write(&text)
	if !regexp.MustCompile(`(?m)^w +write +\d+ .*\n(.*\n)*goodput .* messages completed$`).MatchString(text.String()) {
		t.Errorf("the report does not show the transfers:\n%s", &text)
	}

	// SEND, WRITE, READ request and responses, acknowledgements.
	oracle.CheckTshark(t, file, "0", "1", "2", "6", "7", "8", "12", "13", "14", "15", "17")
	oracle.CheckICRC(t, oracle.RoCE(t, file))
	if v6 := testlab.Tshark(t, file, "-Y", "udp.dstport == 4791 && ipv6"); len(v6) == 0 {
		t.Error("no READ went by IPv6")
	}
}

// inBothClocks has all that a NIC does: marks and CNPs, pauses, READs, datagrams,
// losses and timeouts, a link that fails and one that changes its rate. Pauses are
// short, because links also lose the frames that would end them.
const inBothClocks = `
clock: real
duration: 700ms
topology:
  kinds:
    host: {attach: none, nic: {cc: dcqcn, dscp: 26, ask-every: 8, timeout: 33ms}}
    switch:
      buffer: {size: 2MB}
      classes:
        cnp: {dscp: 48, priority: 6}
        roce: {dscp: 26, priority: 3, weight: 1, mark: {red: {kmin: 5KB, kmax: 50KB, pmax: 1%}}, pfc: {xoff: 30KB, quanta: 2000}}
        default: {weight: 1}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 3, rate: 100Mbps, delay: 200us, loss: 0.1%}}
events:
  - {at: 50ms, link: "h2:eth0", set: {rate: 50Mbps}}
  - {at: 100ms, link: "h3:eth0", set: {state: down}}
  - {at: 110ms, link: "h3:eth0", set: {state: up}}
workload:
  - {incast: {name: in, to: h1, from: [h2, h3, h4, h5, h6], size: 100KB, count: 5, at: 10ms}}
  - {read: {from: h4, to: h2, size: 50KB, for: 500ms, every: 30ms}}
  - {send: {from: h5, to: h6, size: 500B, count: 100, every: 5ms, service: ud, ip: 6}}
`

// TestNICs_DoTheSameInBothClocks: without programs a run in wall-clock time equals the
// run in virtual time: every transfer has the same record and every port the
// same counters, however the machine behaved, with one engine and with two.
func TestNICs_DoTheSameInBothClocks(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	dir := t.TempDir()
	for _, workers := range []int{1, 2} {
		l := testlab.New(t, weft, dir, inBothClocks)
		l.Workers = strconv.Itoa(workers)
		want := testlab.Simulate(t, weft, l.File)
		o, e, code := l.Run("up", "--workload", "--for", "700ms", "--json", l.File)
		if code != 0 {
			t.Fatalf("weft up: exit code %d\n%s", code, e)
		}
		got := &report.Report{}
		_, body, _ := strings.Cut(o, "{") // after the message that the lab is up
		if err := json.Unmarshal([]byte("{"+body), got); err != nil {
			t.Fatal(err)
		}
		if got.Timing.Workers != workers || got.Clock != "wall" {
			t.Errorf("%d workers, %s clock", got.Timing.Workers, got.Clock)
		}
		for _, c := range []struct {
			what      string
			want, got any
		}{{"transfers", want.Transfers, got.Transfers}, {"sums", want.TransferSums, got.TransferSums}, {"ports", want.Ports, got.Ports}, {"NICs", want.NICs, got.NICs}, {"accounts", want.Accounts, got.Accounts}} {
			if diff := cmp.Diff(c.want, c.got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("%d workers, %s (-virtual time +wall clock):\n%s", workers, c.what, diff)
			}
		}
		s, paused := want.TransferSums, testlab.PausedTime(testlab.PortOf(t, want, "h2:eth0"), "roce")
		if s.CNPs == 0 || s.Retransmitted == 0 || want.Accounts.Drops["link-down"] == 0 || paused == 0 || s.Timeouts == 0 || s.Completed < 100 {
			t.Errorf("too little has happened: %+v, %v, paused for %v", s, want.Accounts, paused)
		}
	}
}

// TestNICs_AreSilentWithoutWorkload: without --workload transfers do not send, and weft says so.
func TestNICs_AreSilentWithoutWorkload(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	l := testlab.New(t, weft, t.TempDir(), inBothClocks)
	o, e, code := l.Run("up", "--for", "50ms", "--json", l.File)
	if code != 0 || !strings.Contains(e, "7 modelled flows, transfers and patterns") || strings.Contains(o, `"transfer"`) {
		t.Errorf("exit code %d\n%s%s", code, e, o)
	}
	testlab.CheckNothingLeft(t, l.Name)
}

// incastOfNICs is three NICs of real hosts that write to a fourth without end. It is dilated, so
// that a program always has something to send.
const incastOfNICs = `
dilation: 10
topology:
  kinds:
    host: {nic: {dscp: 26, timeout: 1s}, sysctls: {net.ipv4.tcp_congestion_control: reno}}
    switch:
      buffer: {size: 4MB}
      classes:
        roce: {dscp: 26, priority: 3, weight: 2, pfc: {xoff: 60KB}, mark: {step: {k: 20KB}}}
        default: {weight: 1}
  generate: {star: {hosts: 4, rate: 100Mbps, delay: 10us}}
  nodes: {h1: {nic: {cc: dcqcn}}, h4: {nic: {cc: dcqcn}}}
workload:
  - {incast: {name: in, to: h1, from: [h2, h3, h4], size: 100KB, for: 1h}}
`

// TestPFC_PausesNICsAndLeavesOtherClassesAlone: an incast of the NICs of real hosts, two of which
// have no rate control, is paused and loses nothing. A program in another class of the same
// hosts is not affected and gets its share of the link; one in the same class is
// paused with the NICs, and then continues.
func TestPFC_PausesNICsAndLeavesOtherClassesAlone(t *testing.T) {
	t.Parallel()
	l := startWorkload(t, incastOfNICs, "iperf3")
	transferred(l, 1)
	top := l.Must("top", "--once", "--interval", "500ms", l.Name)
	header := strings.Fields(top[strings.Index(top, "PORT"):])
	// A star marks what is true at this moment.
	cell := func(port, column string) float64 {
		return testlab.PortField(strings.ReplaceAll(top, "*", ""), port, slices.Index(header, column))
	}
	if p, n := cell("h2:eth0/roce", "PAUSED"), cell("s1:h2", "XOFF_out/s"); p < 20 || n < 1 {
		t.Errorf("top shows that h2 was paused for %v%% of the time, by %v frames a second:\n%s", p, n, top)
	}

	program := func(port string, more ...string) *testlab.Program {
		l.StartServer("h1", "iperf3", "-s", "-1", "-p", port)
		l.WaitListening("h1", port)
		return l.StartProgram("h2", append([]string{"iperf3", "-4", "-c", "h1", "-p", port, "-C", "cubic"}, more...)...)
	}
	// sent returns what the port to h1 has sent of a class, on the wire, and how much waits there.
	sent := func(s *report.Sample, class string) (bytes, queue float64) {
		c := testlab.ClassOf(t, portOf(t, s, "s1:h1"), class)
		return float64(c.TxBytes + 24*c.TxPackets), float64(c.QueueBytes)
	}
	other := program("5201", "-t", "3600")
	// With a queue at the port, both classes always have something to send, and DWRR is exact.
	other.WaitFor(l, "its packets wait at the port", func() bool {
		_, queue := sent(sample(l), "default")
		return queue > 50e3
	})
	before := sample(l)
	after := before
	other.WaitFor(l, "200 ms of the lab", func() bool { after = sample(l); return after.Emulated > before.Emulated+200*units.Millisecond })
	grown := func(class string) float64 {
		a, _ := sent(after, class)
		b, _ := sent(before, class)
		return a - b
	}
	share := grown("roce") / (grown("roce") + grown("default"))
	if t.Logf("the NICs' share of the link is %.3f", share); math.Abs(share-2./3) > 0.02 {
		t.Errorf("the NICs' share of the link is %.3f, want 2/3 within 0.02", share)
	}
	other.KillAndRead()

	// In the class of the NICs.
	received := transfer(l, "in-h2-h1").Received
	if c := program("5202", "-n", "200K", "-S", "104"); c.WaitEnd(t) != nil {
		t.Errorf("a program in the class of the NICs does not go on: %v\n%s", c.Err, &c.Out)
	}
	l.WaitFor("the NIC of h2 goes on beside a program in its class", func() bool { return transfer(l, "in-h2-h1").Received > received+100_000 })

	r := l.Down()
	for _, p := range r.Ports {
		for _, c := range p.Classes {
			if c.Name == "roce" && c.Dropped > 0 {
				t.Errorf("%s has dropped %d packets of the lossless class: %v", p.Name, c.Dropped, p.Drops)
			}
		}
	}
	if s := r.TransferSums; s.Retransmitted+s.Timeouts+s.Failed != 0 || s.CNPs == 0 {
		t.Errorf("%+v", s)
	}
	if a := r.Accounts; !a.Balanced() || a.Marked == 0 {
		t.Errorf("accounts: %+v", a)
	}
	var text strings.Builder
	r.Write(&text)
	if !regexp.MustCompile(`(?m)^h2:eth0 +roce +\S+ +\S+% +\d+ +\d+ +s1:h2 +s1:h1$`).MatchString(text.String()) {
		t.Errorf("the report does not show the pauses:\n%s", &text)
	}
}

// transfer returns the record of a transfer so far.
func transfer(l *testlab.Lab, name string) workload.TransferResult {
	l.T.Helper()
	r := reportSoFar(l)
	i := slices.IndexFunc(r.Transfers, func(x workload.TransferResult) bool { return x.Transfer == name })
	if i < 0 {
		l.T.Fatalf("no transfer %s", name)
	}
	return r.Transfers[i]
}
