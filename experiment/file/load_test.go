package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cell"
)

// whole is an experiment that uses everything in virtual time.
const whole = `
lab:
  topology: {generate: {star: {hosts: 2, rate: 1Gbps, delay: 1us}}}
  workload:
    - {cbr: {from: h1, to: h2, rate: 10Mbps, size: 1000B, for: 1ms}}
set: {seed: 7}
vary:
  rate: {path: "workload[0].cbr.rate", values: [10Mbps, 20Mbps]}
  queue: {deep: {}, shallow: {topology.kinds.switch.queue.limit: 5KB}}
seeds: [3, 5]
record: {every: 10us, queues: "s1:*"}
measure:
  loss: {of: streams, column: loss_share}
  delay: {of: streams, column: delay_p99_us, stat: p99, by: {delay_mean_us: [0, 10us, inf]}, seeds: median}
  longest: {of: queue-series, column: queue_bytes, stat: max, per: port, over: max, where: {class: "", time_s: ">=10us"}}
  ratio: loss / longest
plot:
  loss: {kind: line, measure: loss, x: rate}
  queue: {kind: time, of: queue-series, column: queue_bytes, split: port}
paper:
  - {measure: loss, at: {queue: deep}, value: 1%, source: Fig. 1, origin: text}
  - {measure: delay, at: {bin: 0s..10us}, value: 5us, source: Fig. 2, origin: remembered}
expect:
  - 'loss({queue: "deep"}) <= loss({queue: "shallow"})'
limit: {time: 10s, memory: 1GB}
quick: {seeds: 1, vary: {queue: shallow}, set: {duration: 1ms}, expect: ['loss() >= 0']}
`

// TestParse_FullAndQuickForm checks the result of parsing a file, in its full and in its quick form.
func TestParse_FullAndQuickForm(t *testing.T) {
	e, err := Parse("x.yaml", []byte(whole), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Cells) != 8 || !slices.Equal(e.Seeds, []uint64{3, 5}) || e.Name != "x" || e.Timeout.Seconds() != 10 || e.Memory != 1e9 || len(e.Measures) != 4 || len(e.Plots) != 2 || len(e.Paper) != 2 || len(e.Expect) != 1 {
		t.Errorf("%+v", e)
	}
	if lab := string(e.Cells[7].Lab); e.Cells[7].Seed != 5 || !strings.Contains(lab, `"rate": "20Mbps"`) || !strings.Contains(lab, `"limit": "5KB"`) || !strings.Contains(lab, `"seed": 7`) {
		t.Errorf("the last cell, seed %d: %s", e.Cells[7].Seed, lab)
	}
	if m := &e.Measures[1]; m.Center != experiment.Median || m.Edges[1] != 10 {
		t.Errorf("%+v", m)
	}
	if p := e.Paper[0]; p.Value != 0.01 || p.Origin != experiment.Printed {
		t.Errorf("%+v", p)
	}
	q, err := Parse("x.yaml", []byte(whole), Options{Quick: true})
	if err != nil || len(q.Cells) != 2 || !strings.Contains(string(q.Cells[0].Lab), `"duration": "1ms"`) || len(q.Paper) != 1 || q.Expect[0].Text != "loss() >= 0" {
		t.Errorf("quick: %v %+v", err, q)
	}
	s, err := Parse("x.yaml", []byte(whole), Options{Seeds: []uint64{9}})
	if err != nil || len(s.Cells) != 4 || s.Cells[0].Seed != 9 {
		t.Errorf("seeds: %v", err)
	}
	zip, err := Parse("x.yaml", []byte(whole+"combine: zip\n"), Options{})
	if err != nil || len(zip.Cells) != 4 {
		t.Errorf("zip: %v", err)
	}
}

// TestFormerColumns_AreReadWithAWarning: the former name of a column means the new one, wherever
// a measure or a plot has it, and the warning says where.
func TestFormerColumns_AreReadWithAWarning(t *testing.T) {
	text := strings.Replace(whole, "  ratio: loss / longest\n", `  ratio: loss / longest
  begun: {of: flows, column: born_s, stat: max, where: {born_s: ">=0"}, by: {born_s: [0, 1]}}
`, 1)
	text = strings.Replace(text, "plot:\n", "plot:\n  begun: {kind: cdf, of: flows, column: born_s}\n", 1)
	e, err := Parse("x.yaml", []byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := e.FindMeasure("begun")
	if m.Column != "created_s" || m.By != "created_s" || m.Where[0].Column != "created_s" || e.Plots[0].Column != "created_s" {
		t.Errorf("%+v\n%+v", m, e.Plots[0])
	}
	if n := len(e.Warnings); n != 4 {
		t.Errorf("%d warnings: %q", n, e.Warnings)
	}
	line := 1 + strings.Count(text[:strings.Index(text, "  begun: {of")], "\n")
	if want := fmt.Sprintf("x.yaml:%d:30: the column born_s is called created_s now", line); len(e.Warnings) > 0 && !strings.HasPrefix(e.Warnings[0], want) {
		t.Errorf("%q, want %q", e.Warnings[0], want)
	}
}

// TestFormerColumns_OfPausesCountFrames: what counted frames still does, under the new name.
func TestFormerColumns_OfPausesCountFrames(t *testing.T) {
	text := strings.Replace(whole, "  ratio: loss / longest\n", `  ratio: loss / longest
  in: {of: classes, column: pause_rx_packets, stat: sum}
  out: {of: classes, column: pause_tx_packets, stat: sum}
`, 1)
	e, err := Parse("x.yaml", []byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if in, out := e.FindMeasure("in").Column, e.FindMeasure("out").Column; in != "pause_rx_frames" || out != "pause_tx_frames" || len(e.Warnings) != 2 {
		t.Errorf("%s, %s, %q", in, out, e.Warnings)
	}
}

// TestMeasures_CountWhatIsInTheWindow: measures and pictures of flows and groups leave out what was
// created outside the lab's window, unless a condition says otherwise; other tables have all rows.
func TestMeasures_CountWhatIsInTheWindow(t *testing.T) {
	e, err := Parse("x.yaml", []byte(`
lab:
  topology: {generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us}}}
  window: {warm-up: 1ms, end: 2ms}
  workload:
    - {arrivals: {load: 50%, sizes: 10KB, by: {udp: {rate: 10Gbps}}}}
    - {requests: {aggregators: h1, every: 100us, response: 1KB, by: udp}}
measure:
  plain: {of: flows, column: slowdown, stat: count}
  new: {of: flows, column: slowdown, stat: count, where: {counted: true}}
  old: {of: flows, column: slowdown, stat: count, where: {counted: 1}}
  outside: {of: flows, column: slowdown, stat: count, where: {counted: false}}
  all: {of: flows, column: slowdown, stat: count, where: {counted: [true, false]}}
  share: {of: flows, column: counted, where: {counted: [true, false]}}
  groups: {of: groups, column: completion_s, stat: count}
  all_groups: {of: groups, column: completion_s, stat: count, where: {counted: [false, true]}}
  ports: {of: ports, column: tx_packets, stat: count}
plot:
  plain: {kind: cdf, of: flows, column: slowdown}
  all: {kind: cdf, of: flows, column: slowdown, where: {counted: [true, false]}}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := cell.Run(t.Context(), &e.ListJobs("")[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := experiment.MeasureAll(e.Measures, b)
	if err != nil {
		t.Fatal(err)
	}
	is := func(name string) float64 { return float64(values[name][0].Value) }
	if is("plain") != is("new") || is("new") != is("old") || is("plain")+is("outside") != is("all") || is("share") != is("plain")/is("all") {
		t.Errorf("%v", values)
	}
	if is("plain") == 0 || is("outside") == 0 || is("groups") == 0 || is("groups") >= is("all_groups") || is("ports") != 8 {
		t.Errorf("%v", values)
	}
	flows := b.Table(cell.Flows)
	for i, want := range []float64{is("plain"), is("all")} {
		if rows, err := e.Plots[i].Where.FilterRows(flows); err != nil || float64(len(rows)) != want {
			t.Errorf("the picture %s has %d flows, not %v: %v", e.Plots[i].Name, len(rows), want, err)
		}
	}
}

// TestConditions_AreCheckedBeforeTheRun: a condition that cannot be read is an error at its place,
// also on columns of series and in pictures, which are read only after the cells have run.
func TestConditions_AreCheckedBeforeTheRun(t *testing.T) {
	for old, c := range map[string]struct{ now, want string }{
		`where: {class: "", time_s: ">=10us"}`:              {`where: {class: "", time_s: ">=10KB"}`, `time_s: "KB" is not a unit of time`},
		`where: {class: "", time_s: ">=10us"`:               {`where: {class: "[", time_s: ">=10us"`, `class: "[" is not a pattern`},
		`queue_bytes, split: port`:                          {`queue_bytes, split: port, where: {queue_bytes: [1KB, 5KB..1KB]}`, `queue_bytes: "5KB..1KB" is empty`},
		`{of: streams, column: loss_share}`:                 {`{of: streams, column: loss_share, where: {delay_mean_us: "<1KB"}}`, `delay_mean_us: "KB" is not a unit of time`},
		`  queue: {kind: time, of: queue-series, column: q`: {"  fct: {kind: cdf, of: flows, column: fct_s, where: {counted: yes}}\n  queue: {kind: time, of: queue-series, column: q", `counted: "yes" is not a number: write true or false`},
	} {
		text := strings.Replace(whole, old, c.now, 1)
		if text == whole {
			t.Fatalf("the experiment has no %s", old)
		}
		_, err := Parse("x.yaml", []byte(text), Options{})
		var all yamlfile.Errors
		if !errors.As(err, &all) || len(all) != 1 || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "x.yaml:") {
			t.Errorf("%s: %v, want %q", c.now, err, c.want)
		}
	}
}

// TestLabFile_ErrorsReferToIt checks that the lab's path is relative to the experiment, and that errors
// in the lab refer to its own file.
func TestLabFile_ErrorsReferToIt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("lab.yaml", "topology: {generate: {star: {hosts: 2}}}\nworkload: [{cbr: {from: h1, to: h2, rate: 1Mbps, size: 100B, for: 1ms}}]\n")
	write("x.yaml", "lab: lab.yaml\nmeasure: {loss: {of: streams, column: loss_share}}\nvary: {rate: {path: \"workload[0].cbr.rate\", values: [1Mbps, 2Mps]}}\n")
	_, err := Load(filepath.Join(dir, "x.yaml"), Options{})
	if err == nil || !strings.Contains(err.Error(), "x.yaml:3:61: rate: ") || !strings.Contains(err.Error(), "this is the lab of rate=2Mps") {
		t.Errorf("a value: %v", err)
	}
	write("lab.yaml", "topology: {generate: {star: {hosts: 2}}}\nworkload: [{cbr: {from: h1, to: h3, rate: 1Mbps, size: 100B, for: 1ms}}]\n")
	_, err = Load(filepath.Join(dir, "x.yaml"), Options{})
	if err == nil || !strings.Contains(err.Error(), "lab.yaml:2:33: ") {
		t.Errorf("the lab: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestErrors_HaveTheirPlace checks that each fault is reported with its place, and that nothing else is.
func TestErrors_HaveTheirPlace(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"values: [10Mbps, 20Mbps]", "values: [10Mbps, 10Mbps]", `rate has the level "10Mbps" twice`},
		{"values: [10Mbps, 20Mbps]", "values: [10Mbps, [1]]", "name the levels"},
		{"values: [10Mbps, 20Mbps]", "values: []", "the factor rate has no levels"},
		{"  rate: {path", "  bin: {path", `"bin" cannot be a factor's name`},
		{"  queue: {deep: {}, ", "  queue: {more: {}, deep: {}, ", ""},
		{"seeds: [3, 5]", "seeds: [3, 3]", "duplicate seed 3"},
		{"seeds: [3, 5]", "seeds: 0", "write the number of seeds"},
		{"seeds: [3, 5]", "seeds: []", "write at least one seed"},
		{`queues: "s1:*"}`, `queues: "s2:*"}`, "no port matches"},
		{`record: {every: 10us, queues: "s1:*"}`, "record: {every: 10us}", "every has no effect without a series"},
		{`record: {every: 10us, queues: "s1:*"}`, "record: {}", "nothing records queues over time"},
		{"of: streams, column: loss_share", "of: stream, column: loss_share", `did you mean "streams"?`},
		{"longest: {of: queue-series, column: queue_bytes", "longest: {of: queue-series, column: queue_byte", `did you mean "queue_bytes"?`},
		{"kind: time, of: queue-series, column: queue_bytes", "kind: time, of: queue-series, column: point_fair_rat_bps", `did you mean "point_fair_rate_bps"?`},
		{"kind: time, of: queue-series, column: queue_bytes", "kind: time, of: queue-series, column: point_fair_rate_bps", ""}, // some labs have it
		{`{class: "", time_s: ">=10us"}`, `{clas: "", time_s: ">=10us"}`, `did you mean "class"?`},
		{"paper:\n  - {measure: loss, at: {queue: deep}, value: 1%, source: Fig. 1, origin: text}\n", "paper:\n", ""},
		{"ratio: loss / longest", "ratio: {of: streams}", "a measure needs of, the table, and column"},
		{"ratio: loss / longest", "ratio: {of: streams, column: from}", "only count applies"},
		{"[0, 10us, inf]", "[0, 10us, 5us]", "5us is not above the one before it"},
		{"[0, 10us, inf]", "[0, 10KB]", "KB"},
		{"[0, 10us, inf]", "[0]", "one edge does not make a bin"},
		{"ratio: loss / longest", "ratio: {of: queue-series, column: queue_bytes, stat: settled, within: 5%, target: 10KB}", ""},
		{"ratio: loss / longest", "ratio: {of: streams, column: loss_share, stat: settled}", "the table streams is not over time"},
		{"ratio: loss / longest", "ratio: {of: queue-series, column: queue_bytes, stat: settled, within: 0%}", "0% is out of range"},
		{"ratio: loss / longest", "ratio: {of: queue-series, column: queue_bytes, stat: settled, within: 5us}", "such as 10%"},
		{"ratio: loss / longest", "ratio: {of: queue-series, column: queue_bytes, stat: settled, target: 0}", "0 is out of range"},
		{"ratio: loss / longest", "ratio: {of: queue-series, column: queue_bytes, stat: mean, within: 5%}", "no effect without stat: settled"},
		{"ratio: loss / longest", "ratio: {expr: loss, within: 5%}", "no effect with expr"},
		{"per: port, over: max", "per: port, over: settled", "over: settled is for the times of a table, but per is port"},
		{"stat: max, per: port, over: max", "stat: jain, per: time_s, over: settled, average: 20us", ""},
		{"stat: max, per: port, over: max", "stat: jain, per: time_s, over: reached, until: '>0.9'", ""},
		{"stat: max, per: port, over: max", "stat: sum, per: time_s, over: reached, until: '>10KB'", ""},
		{"stat: max, per: port, over: max", "stat: jain, per: time_s, over: reached, until: '>10KB'", "KB"},
		{"stat: max, per: port, over: max", "stat: settled, per: time_s, over: settled", "stat is a time already: over cannot be settled"},
		{"stat: max, per: port, over: max", "stat: reached", "reached needs until: the condition that ends the time"},
		{"stat: max, per: port, over: max", "stat: max, until: <1KB", "no effect without stat: reached"},
		{"stat: max, per: port, over: max", "stat: max, average: 0s", "the length of an interval must be above 0"},
		{"ratio: loss / longest", "ratio: {of: streams, column: loss_share, average: 1ms}", "the table streams is not over time: average needs one"},
		{"ratio: loss / longest", "ratio: {expr: loss, average: 1ms}", "no effect with expr"},
		{"ratio: loss / longest", `ratio: mean(bins("delay"))`, ""},
		{"ratio: loss / longest", `ratio: mean(bins("later"))`, "there is no such measure above it"},
		{"ratio: loss / longest", "ratio: mean(bins(loss))", "cannot use"},
		{"per: port, over: max", "per: port", "per has no effect without over"},
		{"per: port, over: max", "over: max", "over has no effect without per"},
		{"ratio: loss / longest", "ratio: loss / later", "the measures above it are loss, delay, longest"},
		{"  ratio: loss / longest", "  max: {of: streams, column: loss_share}", `"max" cannot be a measure's name`},
		{"  ratio: loss / longest", "  ratio: {expr: loss, stat: max}", "no effect with expr"},
		{"kind: line, measure: loss, x: rate", "kind: line, measure: loss", "the picture lacks x"},
		{"kind: line, measure: loss, x: rate", "kind: bins, measure: loss", "loss has no bins"},
		{"kind: line, measure: loss, x: rate", "kind: line, measure: delay, x: rate", "delay has bins"},
		{"kind: line, measure: loss, x: rate", "kind: line, measure: loss, x: rate, of: streams", "of has no effect on a line"},
		{"kind: time, of: queue-series, column: queue_bytes, split: port", "kind: time, of: streams, column: loss_share", "is not over time"},
		{"at: {queue: deep}, value: 1%", "at: {queue: dep}, value: 1%", `did you mean "deep"?`},
		{"at: {queue: deep}, value: 1%", "at: {queue: deep}, value: 1us", "value: "},
		{"bin: 0s..10us", "bin: 0s..9us", `did you mean "0s..10us"?`},
		{"origin: text", "origin: heard", `"heard" must be one of text, figure, computed, remembered`},
		{`loss({queue: "deep"}) <=`, `loss({queue: "depp"}) <=`, `no level "depp"`},
		{`loss({queue: "deep"}) <=`, `delay({bin: "0s..10us"}) < paper("delay", {bin: "0s..10us"}) and loss() <=`, "it cannot be used in an expectation"},
		{"    - {cbr:", "    - {cbr: {from: h1, to: h2, rate: 1Mbps, size: 2000B, for: 1ms}}\n    - {cbr:", "size"},
		{"vary: {queue: shallow}", "vary: {qeue: shallow}", `did you mean "queue"?`},
		{"  - 'loss({", "  - loss({", "put an expression in quotes"},
	} {
		_, err := Parse("x.yaml", []byte(strings.Replace(whole, c.old, c.new, 1)), Options{Quick: strings.Contains(c.new, "qeue")})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.new, err)
			}
			continue
		}
		var all yamlfile.Errors
		if !errors.As(err, &all) || len(all) != 1 || !strings.Contains(err.Error(), c.want) || all[0].Line < 2 {
			t.Errorf("%s: %d errors, want one with %q:\n%v", c.new, len(all), c.want, err)
		}
	}
	if _, err := Parse("x.yaml", []byte(strings.Split(whole, "quick:")[0]), Options{Quick: true}); err == nil || !strings.Contains(err.Error(), "the file has no quick form") {
		t.Errorf("no quick form: %v", err)
	}
	if _, err := Parse("x.yaml", []byte(strings.Replace(whole, "queue: {deep: {}, ", "queue: {", 1)+"combine: zip\n"), Options{}); err == nil || !strings.Contains(err.Error(), "rate has 2 levels, and queue 1") {
		t.Errorf("zip: %v", err)
	}
}

// TestSchema_HasTheKeys checks that all keys of a file are in the schema.
func TestSchema_HasTheKeys(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(whole) {
		if key, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && line[0] != ' ' && !strings.Contains(string(schema), `"`+key+`"`) {
			t.Errorf("the schema has no %s", key)
		}
	}
}
