package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

func text(r *Report) string {
	var b strings.Builder
	r.Write(&b)
	return b.String()
}

// squeeze replaces runs of spaces with one. Columns are as wide as they need to
// be; only their contents matter.
func squeeze(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

func TestReport(t *testing.T) {
	r := &Report{
		Lab: "two", Clock: "wall", Seed: 7, Emulated: 1500 * units.Millisecond,
		Accounts: status.Accounts{Entered: 100, Replicated: 3, Delivered: 90, Dropped: 12, Held: 1, Marked: 5, Drops: map[string]uint64{"bad-fcs": 2, "queue-full": 10}},
		Ports: []status.Port{
			{Name: "s1:1", TxPackets: 80, QueueLimit: units.MB},
			{Name: "s1:2", TxPackets: 90, Marked: 5, Dropped: 10, QueueMean: 1234, QueueMax: 64000, QueueLimit: 64 * units.KB},
		},
		Flows: []workload.Result{{Flow: "a", From: "h1", To: "h2", Offered: 1e9, Goodput: 9.5e8, LossShare: 0.05, Marked: 5, DelayP50: 12.3, DelayP99: 4567}},
		Hosts: []Host{
			{Name: "h1:eth0", TxDropped: 4, Classes: []HostClass{{Name: "rest"}, {Name: "lossless", Priority: 3, Holds: 7, Held: 12 * units.Millisecond}}},
			{Name: "h2:eth0", Together: "no BPF"},
		},
		Sockets: []Sockets{{Host: "h1"}, {Host: "h2", Full: 7, Memory: 2, Unopened: 3, Checksum: 1}, {Host: "h3", Error: "it is gone"}},
		Timing: &Timing{
			Lateness: status.Lateness{Count: 90, P50: 5 * units.Microsecond, P99: 80 * units.Microsecond, P999: 2 * units.Millisecond, Max: 3 * units.Millisecond, Limit: units.Millisecond, Beyond: 9, Share: 0.1},
			Realtime: true, CPU: 0.5, Engine: 0.4,
		},
	}
	want := `lab two, wall clock, 1.5s emulated, seed 7
packets  100 in + 3 copies = 90 delivered + 12 dropped + 1 under way
marks    5
drops    queue-full 10, bad-fcs 2
port  sent  marked  dropped  queue mean  max     limit
s1:2  90    5       10       1.23KB      64KB    64KB
flow  from  to  offered  goodput  not arrived  marked  delay p50  p99
a     h1    h2  1Gbps    950Mbps  5%    5       12.3us     4.57ms
host     h1:eth0: its device dropped 4 packets before the fabric (ring full: it sends faster than the emulator reads)
host     h1:eth0: class lossless was held in the host 7 times, 12ms in all
host     h2:eth0: its traffic classes were held only all together: no BPF
host     h2: 7 UDP datagrams that the fabric delivered found the receive buffer of their socket full: the program there reads too slowly, or the buffer is too small (SO_RCVBUF, net.core.rmem_max)
host     h2: 2 UDP datagrams that the fabric delivered found the kernel's limit for all UDP sockets together reached (net.ipv4.udp_mem)
host     h2: 3 UDP datagrams that the fabric delivered went to ports that no program had open
host     h2: 1 UDP datagrams that the fabric delivered had a wrong checksum
host     h3: losses of its sockets are unknown: it is gone
lateness p50 5us, p99 80us, p99.9 2ms, max 3ms over 90 deliveries
cpu      0.50 cores, of which the engine 0.40 (SCHED_FIFO)
fidelity not kept: 9 of 90 deliveries (10%) were later than 1ms
`
	if diff := cmp.Diff(squeeze(want), squeeze(text(r))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestVerdicts: what the fidelity line says, and whether the run is valid.
func TestVerdicts(t *testing.T) {
	late := status.Lateness{Count: 100, Limit: units.Millisecond, Beyond: 1, Share: 0.01}
	for _, c := range []struct {
		timing Timing
		say    string
		failed bool
	}{
		{Timing{Lateness: status.Lateness{Limit: units.Millisecond}, Strict: true}, "nothing was delivered", false},
		{Timing{Lateness: status.Lateness{Count: 5, Limit: units.Millisecond}, Strict: true}, "kept: every delivery within 1ms", false},
		{Timing{Lateness: late}, "not kept: 1 of 100", false},
		{Timing{Lateness: late, Strict: true}, "FAILED (strict): 1 of 100", true},
		{Timing{Lateness: late, Strict: true, Allowed: 0.02}, "2% are allowed", false},
	} {
		r := &Report{Timing: &c.timing}
		if got := text(r); !strings.Contains(got, c.say) || r.Failed() != c.failed {
			t.Errorf("failed %v, want %v, and %q in\n%s", r.Failed(), c.failed, c.say, got)
		}
	}
}

// TestALostPacketIsSaid: accounts that do not add up are a defect, not a
// rounding error.
func TestALostPacketIsSaid(t *testing.T) {
	if got := text(&Report{Accounts: status.Accounts{Entered: 2, Delivered: 1}}); !strings.Contains(got, "do not add up") {
		t.Errorf("a packet is missing and the report says\n%s", got)
	}
}

// TestDilatedReport: the report of a dilated lab says so, and shows how late
// the processor was as well as how late the lab was.
func TestDilatedReport(t *testing.T) {
	r := &Report{
		Lab: "slow", Clock: "wall", Dilation: 100, Seed: 1, Emulated: 15 * units.Millisecond,
		Timing: &Timing{Dilation: 100, Lateness: status.Lateness{Count: 90, P50: 50 * units.Nanosecond, P99: 800 * units.Nanosecond, P999: units.Microsecond, Max: 2 * units.Microsecond, Limit: units.Millisecond}},
	}
	got := text(r)
	for _, want := range []string{
		"lab slow, wall clock, dilation 100, 0.015s emulated, seed 1\n",
		"lateness p50 50ns, p99 800ns, p99.9 1us, max 2us over 90 deliveries\n",
		"         of real time, 100 times that: p50 5us, p99 80us, p99.9 100us, max 200us\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwithout %q", got, want)
		}
	}
}

// TestFlows_SayWhatTheirSendersHoldUp: what a flow sends and its host's link does not carry is in
// the host's own queue, not lost in the network.
func TestFlows_SayWhatTheirSendersHoldUp(t *testing.T) {
	r := &Report{
		Flows: []workload.Result{{Flow: "a", From: "h1", To: "h2", Offered: 2e9, Goodput: 9.38e8, Sent: 2500, Lost: 1330, LossShare: 0.532}, {Flow: "b", From: "h2", To: "h1"}},
		Ports: []status.Port{{Name: "h1:eth0", QueuePackets: 1300, Dropped: 30, Drops: map[string]uint64{"queue-full": 28, "bad-fcs": 2}}, {Name: "h2:eth0", QueuePackets: 5}, {Name: "s1:1", Dropped: 7}},
	}
	got := squeeze(text(r))
	const want = `
flow from to offered goodput not arrived marked delay p50 p99
a h1 h2 2Gbps 938Mbps 53.2% 0 0s 0s
b h2 h1 0bps 0bps 0% 0 0s 0s
sender h1:eth0: its own queue dropped 28 packets and holds 1300 that are not sent yet
`
	if !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}
