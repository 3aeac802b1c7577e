package capture

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
)

// TestSeries_AgreesWithProgramsAndReport: with real programs, with one worker and with two, a
// series agrees with the rates of iperf3 and the counters of the report, and nothing is missing.
// Samples are at exact multiples of emulated time, however late the engine was.
func TestSeries_AgreesWithProgramsAndReport(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string]string{"OneWorker": "1", "TwoWorkers": "2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			weft := testlab.Need(t, "iperf3")
			dir := t.TempDir()
			l := testlab.New(t, weft, dir, `
topology:
  generate: {dumbbell: {left: 1, right: 1, rate: 200Mbps, delay: 10us, bottleneck: {rate: 50Mbps, delay: 500us}}}
series: {ports: "s1:s2"}
`)
			l.Workers = workers
			file := filepath.Join(dir, "x.csv")
			l.Must("up", "-d", "--series", file, "--every", "2ms", "--series-port", "s[12]:*", l.File)
			sent := l.Iperf3("h1", "h2", "h2", "-n", "5M", "-4")
			l.WaitQuiet()
			r := l.Down()
			if r.Series == nil || r.Series.Overruns != 0 || r.Series.Error != "" || r.Series.Queues != 4 {
				t.Fatalf("series %+v", r.Series)
			}
			rows := testlab.ReadSeries(t, file)
			if uint64(len(rows)) != r.Series.Rows || len(rows) < 4*300 { // 5 MB take at least 0.8 s
				t.Errorf("%d rows, the report says %d", len(rows), r.Series.Rows)
			}
			s, irregular := series.NewStatistician(series.Rate, 500*units.Millisecond), 0
			for i := range rows {
				s.AddRow(&rows[i])
				if rows[i].At%(2*units.Millisecond) != 0 {
					irregular++
				}
			}
			if irregular > 4 {
				t.Errorf("%d rows beside the multiples of 2ms; one of each port at the end may be", irregular)
			}
			for _, x := range s.Statistics() {
				p := testlab.PortOf(t, r, x.Port)
				if x.TxBytes != p.TxBytes || x.RxBytes != p.RxBytes || x.Dropped != p.Dropped || x.QueueMax != p.QueueMax {
					t.Errorf("%s: rows add up to %+v, the report says %+v", x.Port, x, p)
				}
				if x.Port != "s1:s2" {
					continue
				}
				// iperf3 counts payload; frames have a few percent more.
				t.Logf("peak over 500ms %.1f Mb/s, %d bytes, iperf3 %.0f bytes, queue max %v", x.Peak/1e6, x.TxBytes, sent.End.Received.Bytes, x.QueueMax)
				if float64(x.TxBytes) < sent.End.Received.Bytes || sent.End.Received.Bytes < 1e6 || x.Peak > 51e6 {
					t.Errorf("the series says %d bytes, at most at %.1f Mb/s, iperf3 %.0f bytes", x.TxBytes, x.Peak/1e6, sent.End.Received.Bytes)
				}
				if x.QueueMax == 0 {
					t.Error("a bottleneck without a queue")
				}
			}
			if _, _, code := testlab.RunWeft(t, weft, "report", file, "-o", filepath.Join(dir, "x.png")); code != 0 {
				t.Error("weft report does not read it")
			}
		})
	}
}

// TestSeries_InterruptedHasCompleteRows: an ordinary user's lab in the foreground, ended by
// Ctrl-C, leaves a file of complete rows under the given relative name.
func TestSeries_InterruptedHasCompleteRows(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, "topology: {generate: {star: {hosts: 2, rate: 100Mbps}}}\n")
	c := l.Command("up", "--series", "x.csv", l.File)
	p := testlab.Launch(t, c)
	file := filepath.Join(filepath.Dir(l.File), "x.csv")
	p.Await(t, "its series grows", func() bool {
		s, err := os.Stat(file)
		return err == nil && s.Size() > 5000
	})
	_ = c.Process.Signal(os.Interrupt)
	if err := p.WaitEnd(t); err != nil {
		t.Fatalf("%v\n%s", err, &p.Out)
	}
	rows := testlab.ReadSeries(t, file)
	if len(rows) < 50 || len(rows)%2 != 0 || !strings.Contains(p.Out.String(), "series   x.csv: ") {
		t.Errorf("%d rows\n%s", len(rows), &p.Out)
	}
}

// TestFlowSeries_AddsUpToTheTransfers: in wall-clock time, with one worker and with two, the rows
// of modelled transfers are at multiples of the time between samples and add up to what the
// transfers carry.
func TestFlowSeries_AddsUpToTheTransfers(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string]string{"OneWorker": "1", "TwoWorkers": "2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			weft := testlab.Need(t)
			dir := t.TempDir()
			l := testlab.New(t, weft, dir, `
topology:
  generate: {dumbbell: {left: 2, right: 1, rate: 200Mbps, delay: 10us, bottleneck: {rate: 50Mbps, delay: 500us}}}
  # The queue grows to 60 ms before DCQCN has its way: a shorter timeout would end in too
  # many retries.
  kinds: {host: {nic: {cc: dcqcn, timeout: 1s}}, switch: {queue: {mark: {step: {k: 20KB}}}}}
workload:
  - {write: {name: a, from: h1, to: h3, size: 1MB, count: 1, at: 200ms}}
  - {write: {name: b, from: h2, to: h3, size: 500KB, count: 1, at: 300ms}}
`)
			l.Workers = workers
			file := filepath.Join(dir, "f.csv")
			l.Must("up", "-d", "--workload", "--flow-series", file, "--every", "2ms", "--flow", "[ab]", l.File)
			l.WaitFor("an end of the transfers", func() bool {
				return strings.Count(l.Must("qp", "-l", l.Name, "--json"), `"sends": 0`) == 4 && strings.Contains(l.Must("nic", "-l", l.Name, "--json"), `"received_payload": 1500000`)
			})
			r := l.Down()
			if s := r.FlowSeries; s == nil || s.Overruns != 0 || s.Error != "" || s.Flows != 2 || s.Rows < 100 {
				t.Fatalf("series %+v", s)
			}
			in, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			x, err := series.NewFlowReader(in)
			if err != nil {
				t.Fatal(err)
			}
			goodput, err := x.FindQuantity("goodput")
			if err != nil {
				t.Fatal(err)
			}
			sent, irregular := map[string]float64{}, 0
			if err := x.EachRow(func(row *series.FlowRow) error {
				sent[row.Transfer] += row.Values[goodput] * row.Interval.Seconds() / 8
				if row.At%(2*units.Millisecond) != 0 {
					irregular++
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			// Rates are in whole bits per second.
			if math.Abs(sent["a"]-1e6) > 100 || math.Abs(sent["b"]-5e5) > 100 || irregular > 2 {
				t.Errorf("the rows add up to %v bytes; %d rows beside the multiples of 2ms", sent, irregular)
			}
			if _, _, code := testlab.RunWeft(t, weft, "report", file, "--what", "goodput", "--average", "20ms", "-o", filepath.Join(dir, "f.png")); code != 0 {
				t.Error("weft report does not draw it")
			}
		})
	}
}
