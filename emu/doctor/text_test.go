package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func text(r *Result) string {
	var b strings.Builder
	r.Write(&b)
	return b.String()
}

func TestText_ShowsAllFindings(t *testing.T) {
	r := full()
	r.Checks[1].Verdict, r.Checks[1].Means, r.Checks[1].Fix = Warn, "it is slow", "buy a faster one"
	r.Checks = append(r.Checks, Check{Group: groupKernel, Name: "congestion control", Verdict: Warn, Found: "bbr by default", Means: "a timer for every packet, in the time of the engine", Fix: "sysctl -w net.ipv4.tcp_congestion_control=cubic"})
	r.LeftOut = []LeftOut{{"sleep, SCHED_FIFO", "operation not permitted (grant CAP_SYS_NICE or an rtprio limit)"}}
	r.setVerdict()
	want := `machine
  ok    kernel              Linux 6.8.0-45-generic
  warn  processor           2 cores, AMD EPYC: it is slow
                            > buy a faster one
  ok    hypervisor          none
kernel
  warn  congestion control  bbr by default: a timer for every packet, in the
                            time of the engine
                            > sysctl -w net.ipv4.tcp_congestion_control=cubic
measured
  reading the clock         37.4ns
  sleep of 100us            late by 50us (p50), 120us (p99), 3.16ms (max)
  the same, SCHED_FIFO      late by 30us (p50), 70us (p99), 90us (max)
  wake-up of a thread       30us
  UDP, 64 bytes             200,000 packets/s through two TAPs, bare loop
  UDP, 1472 bytes           190,000 packets/s through two TAPs, bare loop
  TCP, MTU 1500             2Gbps through two TAPs, bare loop
  TCP, MTU 9000             6Gbps through two TAPs, bare loop
  TCP, 1500, offload        20Gbps through two TAPs, bare loop
  virtual time              2.5 million packet-hops/s, fat-tree of 128 hosts
  left out                  sleep, SCHED_FIFO: operation not permitted (grant
                            CAP_SYS_NICE or an rtprio limit)
prediction
  one engine moves          170,000 packets/s
  a TCP stream              1.7Gbps at MTU 1500
                            5.1Gbps at MTU 9000
                            14Gbps at MTU 1500 with segmentation offload
  round trip, idle          73.4us more than over a wire with one switch; 800ns
                            for each further switch
  lateness                  70us (p99), while the engine has time to sleep
  real hosts                246, limited by open files
  virtual time              2.5 million packet-hops/s
warn
  Labs can run here, of up to 246 hosts, as long as all of them together send
  less than about 170,000 packets a second through the engine, or 1.7Gbps in
  large packets at MTU 1500. 2 warnings above say what could be better.
`
	if diff := cmp.Diff(want, text(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestText_ShowsWhatIsMissing: without measurements the table has no figures, and says why.
func TestText_ShowsWhatIsMissing(t *testing.T) {
	r := &Result{LeftOut: []LeftOut{{"everything", "no time"}}}
	r.Predict.HostsLimit = "open files"
	r.Predict.LeftOut = []LeftOut{{"packets", "not measured: everything"}}
	r.setVerdict()
	want := `measured
  reading the clock         0s
  left out                  everything: no time
prediction
  real hosts                0, limited by open files
  left out                  packets: not measured: everything
ok
  Labs can run here.
`
	if diff := cmp.Diff(want, text(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestJSON_HasAllValues: they survive a round trip, under the names in docs/commands.md.
func TestJSON_HasAllValues(t *testing.T) {
	r := full()
	r.LeftOut = []LeftOut{{"a", "b"}}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*r, back); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"quick", "verdict", "summary", "checks", "measured", "left_out", "prediction", "sleep_fifo", "wake_up", "packets_per_second_64", "tcp_1500_offload", "round_trip_per_switch", "hosts_limit", "packet_hops_per_second"} {
		if !strings.Contains(string(b), `"`+name+`":`) {
			t.Errorf("no field %s in %s", name, b)
		}
	}
}

// TestJSON_LeavesOutWhatIsUnknown: a figure that was not measured is absent, not 0.
func TestJSON_LeavesOutWhatIsUnknown(t *testing.T) {
	r := &Result{Measured: Measured{Devices: &Devices{Large: 1}}}
	r.Predict = predictRates(&r.Measured, room{})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"packets_per_second_64", "tcp_1500", "packets_per_second", "round_trip", "lateness_p99", "virtual_packet_hops_per_second"} {
		if strings.Contains(string(b), `"`+name+`":`) {
			t.Errorf("%s is in %s", name, b)
		}
	}
}

func TestWrap_FitsTheColumns(t *testing.T) {
	long := strings.Repeat("word ", 60)
	for line := range strings.Lines(strings.Repeat(" ", 28) + wrapText(long, 28)) {
		if n := len(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if got := strings.Join(strings.Fields(wrapText(long, 28)), " "); got != strings.TrimSpace(long) {
		t.Error("words were lost")
	}
}

func TestCount_HasThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{12: "12", 999: "999", 1000: "1,000", 81_005: "81,005", 1.5e6: "1.5 million"} {
		if got := formatCount(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
