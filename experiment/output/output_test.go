package output

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
)

// The files in testdata are the output of the programs in a lab of two hosts with links
// of 100 Mb/s and a delay of 200 us, some of them with a loss of 2% (Debian 12: iperf
// 3.12, iputils 20221126, perftest 6.06, wrk 4.1.0, memcaslap of libmemcached 1.1.4).

func read(t *testing.T, format experiment.Format, file string) (table.Bundle, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return Read(&experiment.Program{Name: "p", Host: "h1", Read: experiment.Reading{Format: format}}, text)
}

// column returns the numbers of a column, and checks that each row names its program.
func column(t *testing.T, b table.Bundle, name, column string) []float64 {
	t.Helper()
	of := b.Table(name)
	if of == nil {
		t.Fatalf("there is no table %s", name)
	}
	if err := of.Check(); err != nil {
		t.Fatal(err)
	}
	if p := of.FindColumn("program").Texts; slices.ContainsFunc(p, func(s string) bool { return s != "p" }) || len(p) != of.Len() {
		t.Errorf("the programs are %v", p)
	}
	c := of.FindColumn(column)
	if c == nil {
		t.Fatalf("%s has no column %s", name, column)
	}
	return c.Numbers
}

// near compares numbers to seven digits; NaN equals NaN.
func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= 1e-7*math.Abs(y)
	})
}

// TestOutput_NumbersAreInTheColumnsUnits checks that the programs' output is in the tables, in the columns' units.
func TestOutput_NumbersAreInTheColumnsUnits(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		file, table, column string
		want                []float64
	}{
		// A UDP client: the receiver's numbers come from the server.
		{"iperf3-udp.json", Iperf3, "sent_bytes", []float64{1250928}},
		{"iperf3-udp.json", Iperf3, "sent_bps", []float64{5003336.74974377}},
		{"iperf3-udp.json", Iperf3, "received_bytes", []float64{1222368}},
		{"iperf3-udp.json", Iperf3, "goodput_bps", []float64{4886752.522221384}},
		{"iperf3-udp.json", Iperf3, "lost_packets", []float64{20}},
		{"iperf3-udp.json", Iperf3, "lost_share", []float64{20. / 876}},
		{"iperf3-udp.json", Iperf3, "jitter_ms", []float64{0.21126281532514066}},
		{"iperf3-udp.json", Iperf3, "retransmits", []float64{nan}},
		{"iperf3-udp.json", Iperf3Intervals, "packets", []float64{410, 466}},
		{"iperf3-server-udp.json", Iperf3, "goodput_bps", []float64{4886752.522221384}},
		{"iperf3-server-udp.json", Iperf3, "sent_bytes", []float64{nan}},
		// TCP: two streams, and both ends of them.
		{"iperf3-tcp.json", Iperf3, "duration_s", []float64{2.001198, 2.001198}},
		{"iperf3-tcp.json", Iperf3, "retransmits", []float64{169, 167}},
		{"iperf3-tcp.json", Iperf3, "goodput_bps", []float64{42361625.160067, 45286255.8292778}},
		{"iperf3-tcp.json", Iperf3, "rtt_mean_us", []float64{5670, 5804}},
		{"iperf3-tcp.json", Iperf3, "cwnd_max_bytes", []float64{71400, 79968}},
		{"iperf3-tcp.json", Iperf3, "lost_packets", []float64{nan, nan}},
		{"iperf3-tcp.json", Iperf3Intervals, "rtt_us", []float64{5473, 5311, 5867, 6298}},
		{"iperf3-server-tcp.json", Iperf3, "received_bytes", []float64{10631460, 11365452}},
		{"iperf3-server-tcp.json", Iperf3, "sent_bps", []float64{nan, nan}},
		{"iperf3-reverse.json", Iperf3, "goodput_bps", []float64{83744102.9235182}},
		{"iperf3-reverse.json", Iperf3, "sent_bytes", []float64{11285440}},
		{"iperf3-reverse.json", Iperf3, "rtt_min_us", []float64{nan}},
		{"iperf3-bidir.json", Iperf3, "received_bytes", []float64{10345228, 9837188}},

		{"ping-d.txt", Ping, "rtt_ms", []float64{0.629, 0.821, 0.627}},
		{"ping-lost.txt", Ping, "rtt_ms", []float64{nan, nan, nan}},
		{"ping-lost.txt", Ping, "lost", []float64{1, 1, 1}},

		{"ib_write_bw.txt", Perftest, "goodput_bps", []float64{4.65 * 8 * (1 << 20)}},
		{"ib_write_bw.txt", Perftest, "message_rate", []float64{74}},
		{"ib_write_bw.txt", Perftest, "latency_mean_us", []float64{nan}},
		{"ib_write_bw_gbits.txt", Perftest, "goodput_bps", []float64{0.092098e9}},
		{"ib_write_bw_gbits.txt", Perftest, "bw_peak_bps", []float64{0.092098e9}},
		{"ib_write_bw_d.txt", Perftest, "bw_peak_bps", []float64{nan}},
		{"ib_write_bw_d.txt", Perftest, "size_bytes", []float64{1000}},
		{"ib_write_bw_b.txt", Perftest, "iterations", []float64{10}},
		{"ib_read_bw_q.txt", Perftest, "iterations", []float64{20}},
		{"ib_send_lat.txt", Perftest, "latency_typical_us", []float64{636.92}},
		{"ib_send_lat.txt", Perftest, "latency_p99_us", []float64{23561.43}},
		{"ib_send_lat.txt", Perftest, "latency_p999_us", []float64{29923.94}},
		{"ib_send_lat.txt", Perftest, "goodput_bps", []float64{nan}},
		{"ib_write_lat_d.txt", Perftest, "latency_mean_us", []float64{2450.37}},
		{"ib_write_lat_d.txt", Perftest, "transaction_rate", []float64{204.05}},

		{"wrk.txt", Wrk, "latency_mean_us", []float64{3620}},
		{"wrk.txt", Wrk, "latency_max_us", []float64{62020}},
		{"wrk.txt", Wrk, "latency_p50_us", []float64{2480}},
		{"wrk.txt", Wrk, "latency_p99_us", []float64{28980}},
		{"wrk.txt", Wrk, "request_rate", []float64{493.54}},
		{"wrk.txt", Wrk, "requests", []float64{1000}},
		{"wrk.txt", Wrk, "duration_s", []float64{2.03}},
		{"wrk.txt", Wrk, "read_bytes", []float64{2.61 * (1 << 20)}},
		{"wrk.txt", Wrk, "goodput_bps", []float64{1.29 * 8 * (1 << 20)}},
		{"wrk.txt", Wrk, "status_errors", []float64{0}},
		{"wrk-missing.txt", Wrk, "status_errors", []float64{527}},
		{"memaslap.txt", Memaslap, "operations", []float64{207242}},
		{"memaslap.txt", Memaslap, "operation_rate", []float64{103609}},
		{"memaslap.txt", Memaslap, "gets", []float64{186514}},
		{"memaslap.txt", Memaslap, "sets", []float64{20728}},
		{"memaslap.txt", Memaslap, "goodput_bps", []float64{207189688 * 4}},
		{"memaslap.txt", Memaslap, "latency_mean_us", []float64{nan}},
		{"memaslap-statistics.txt", Memaslap, "latency_mean_us", []float64{94}},
		{"memaslap-statistics.txt", Memaslap, "latency_max_us", []float64{9823}},
		{"memaslap-statistics.txt", Memaslap, "latency_stddev_us", []float64{96.5}},
		{"memaslap-statistics.txt", Memaslap, "operations", []float64{169136}},
		{"wrk-missing.txt", Wrk, "latency_p50_us", []float64{nan}},
	} {
		format := experiment.Format(strings.TrimSuffix(c.table, "-intervals"))
		b, err := read(t, format, c.file)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if got := column(t, b, c.table, c.column); !near(got, c.want) {
			t.Errorf("%s: %s of %s is %v, want %v", c.file, c.column, c.table, got, c.want)
		}
		empty, err := EmptyTables([]experiment.Program{{Read: experiment.Reading{Format: format}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := Add(empty, b); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
	}
}

// TestPing_CountsRepliesBySequence checks replies by their sequence numbers, with one lost in the middle.
func TestPing_CountsRepliesBySequence(t *testing.T) {
	b, err := read(t, experiment.Ping, "ping.txt")
	if err != nil {
		t.Fatal(err)
	}
	lost, rtt := column(t, b, Ping, "lost"), column(t, b, Ping, "rtt_ms")
	if len(lost) != 40 || lost[23] != 1 || !math.IsNaN(rtt[23]) || rtt[24] != 0.818 {
		t.Errorf("%d requests, the 24th: %v, the 25th: %v ms", len(lost), lost[23], rtt[24])
	}
	sum := 0.0
	for _, x := range lost {
		sum += x
	}
	if sum != 1 {
		t.Errorf("%v are lost, and one was", sum)
	}
	// Sequence numbers of 16 bits wrap; replies may be duplicated and out of order.
	long := &strings.Builder{}
	for _, n := range []string{"65535", "1", "0", "0", "2"} {
		long.WriteString("64 bytes from h2: icmp_seq=" + n + " ttl=64 time=1.5 ms\n")
	}
	if b, err = readPing(source{"p", "h1"}, []byte(long.String())); err != nil {
		t.Fatal(err)
	}
	if n := b.Table(Ping).Len(); n != 1<<16+2 {
		t.Errorf("%d requests", n)
	}
}

// TestOutput_WithoutNumbersIsAnError checks that output without numbers is an error that says why.
func TestOutput_WithoutNumbersIsAnError(t *testing.T) {
	for file, c := range map[string]struct {
		format experiment.Format
		want   string
	}{
		"iperf3-refused.json": {experiment.Iperf3, "Connection refused"},
		"ping.txt":            {experiment.Iperf3, "-J"},
		"ping-quiet.txt":      {experiment.Ping, "-q"},
		"wrk.txt":             {experiment.Ping, "nothing"},
		"ping-d.txt":          {experiment.Perftest, "nothing"},
		"ping-lost.txt":       {experiment.Wrk, "nothing"},
	} {
		if b, err := read(t, c.format, file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s: %v, %v, want %q", file, c.format, b, err, c.want)
		}
	}
}

// TestRegexp_MakesRowsAndColumns checks that there is a row for each match and a column for each group.
func TestRegexp_MakesRowsAndColumns(t *testing.T) {
	text := []byte("size 10 took 1.5 ms\nnoise\nsize 20 took 3e2 ms, 7 lost\n")
	p := experiment.Program{Name: "p", Host: "h1", Read: experiment.Reading{
		Format: experiment.Regexp, Table: "custom", Expr: `^size (?P<size_bytes>\d+) took (?P<time_ms>\S+) ms(?:, (?P<lost>\d+) lost)?$`,
	}}
	b, err := Read(&p, text)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"size_bytes": {10, 20}, "time_ms": {1.5, 300}, "lost": {math.NaN(), 7}} {
		if got := column(t, b, "custom", name); !near(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	other := p
	other.Name, other.Read.Expr = "q", `(?P<time_ms>\d+)`
	for _, c := range []struct {
		programs []experiment.Program
		want     string
	}{
		{[]experiment.Program{p, other}, "program q: the table custom has other columns"},
		{[]experiment.Program{{Name: "r", Read: experiment.Reading{Format: experiment.Regexp, Expr: `(\d+)`}}}, "no named group"},
		{[]experiment.Program{{Name: "r", Read: experiment.Reading{Format: experiment.Regexp, Expr: `(?P<host>\d+)`}}}, "cannot be named host"},
		{[]experiment.Program{{Name: "r", Read: experiment.Reading{Format: experiment.Regexp, Expr: `(?P<a>\d+`}}}, "missing closing )"},
	} {
		if _, err := EmptyTables(c.programs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	p.Read.Expr = `took (?P<time_ms>\S+ ms)`
	if _, err := Read(&p, text); err == nil || !strings.Contains(err.Error(), `time_ms is "1.5 ms"`) {
		t.Errorf("a text in a column of numbers: %v", err)
	}
	p.Read.Expr = `never (?P<time_ms>\d+)`
	if _, err := Read(&p, text); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("no match: %v", err)
	}
}
