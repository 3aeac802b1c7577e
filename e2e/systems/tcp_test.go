package systems

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// TestTCP_FlowsAloneTakeTheIdealTime: flows of any size, alone on their path, take little more
// than the ideal time as long as slow start does not matter, over both versions of IP.
func TestTCP_FlowsAloneTakeTheIdealTime(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, timestamps := range []bool{false, true} {
			p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}")
			h := fabrictest.Hosts(p)
			l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for i, size := range []units.Bytes{1, 0, 1448, 1449, 14_000, 2_000_000} {
				l.Flows[h[i%2]] = append(l.Flows[h[i%2]], pattern.Flow{Tag: uint32(i), From: h[i%2], To: h[1-i%2], Size: size, At: units.Time(i) * 5 * units.Millisecond})
			}
			c := fabrictest.TCP(t, "cubic")
			c.IPv6, c.Timestamps = v6, timestamps
			p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: c}}
			_, all, _ := carry(t, p, 1)
			fabrictest.CheckOnce(t, l, all, false)
			for _, r := range all {
				if s := r.Slowdown(); r.State != records.Done || s < 0.99 || s > 1.2 || r.Retransmitted > 0 {
					t.Errorf("IPv6 %v, timestamps %v: slowdown %.3f of %v: %+v", v6, timestamps, s, r.Size, r)
				}
			}
		}
	}
}

// tcpLab is 8 hosts at 4 leaves under 2 spines, with short queues.
const tcpLab = `
topology:
  kinds:
    host: {attach: none}
    switch: {forwarding: %s, queue: {limit: 60KB, mark: {step: {k: 30KB}}}}
    link: {loss: %s, duplicate: %s, reorder: %s, reorder-by: 30us}
  generate: {leaf-spine: {leaves: 4, spines: 2, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
`

// TestTCP_IsTheSameWithAnyNumberOfWorkers: records have the same bytes and the run the same
// trace with 1, 2 and 4 workers, whatever happens, and every flow is done.
func TestTCP_IsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	for _, c := range []struct{ name, lab string }{
		{"short queues", fmt.Sprintf(tcpLab, "ecmp", "0", "0", "0")},
		{"spraying", fmt.Sprintf(tcpLab, "random", "0", "0", "0")},
		{"loss, copies and disorder", fmt.Sprintf(tcpLab, "ecmp", "1%", "2%", "3%")},
	} {
		for _, control := range []string{"reno", "cubic", "dctcp", "bbr", "swift"} {
			t.Run(c.name+" "+control, func(t *testing.T) {
				var first string
				var trace uint64
				for _, workers := range []int{1, 2, 4} {
					p := fabrictest.Parse(t, c.lab)
					h := fabrictest.Hosts(p)
					l := fabrictest.Draw(h, 1, 40, 20*units.Microsecond, 100_000, false)
					p.Traffic = []plan.Traffic{
						{Name: "drawn", Pattern: l, TCP: fabrictest.TCP(t, control)},
						{Name: "loop", Pattern: &fabrictest.Loop{Clients: h[:3], Servers: h[3:], Rounds: 20}, TCP: fabrictest.TCP(t, "cubic")},
					}
					f, all, text := carry(t, p, workers)
					if workers > 1 {
						if text != first || f.Trace() != trace {
							t.Errorf("%d workers: trace %x, with one %x; %s", workers, f.Trace(), trace, fabrictest.FirstDifference(first, text))
						}
						continue
					}
					first, trace = text, f.Trace()
					n, again := states(all)
					if n[records.Done] != 320+120 {
						t.Errorf("%v", n)
					}
					t.Logf("%d of %d packets were sent again", again, f.Accounts().Entered)
				}
			})
		}
	}
}

// TestTCP_IncastLosesNothingWithPFCOrMarks: with PFC nothing is lost and nothing is sent
// again; without it, losses occur; with DCTCP's marks at a buffer that is large enough nothing
// is lost either.
func TestTCP_IncastLosesNothingWithPFCOrMarks(t *testing.T) {
	for _, c := range []struct {
		name, control, depth string
		lossless             bool
	}{
		{"short queues that drop", "reno", "queue: {limit: 40KB}", false},
		{"PFC at every port", "reno", "buffer: {size: 400KB}, classes: {default: {pfc: {}}}", true},
		{"short queues that trim", "cubic", "buffer: {size: 400KB}, classes: {default: {limit: 40KB, trim: {dscp: 46}}, trimmed: {priority: 7, dscp: 46}}", false},
		{"long queues that mark", "dctcp", "queue: {limit: 2MB, mark: {step: {k: 60KB}}}", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}, switch: {"+c.depth+"}}, generate: {star: {hosts: 17, rate: 10Gbps, delay: 1us}}}")
			h := fabrictest.Hosts(p)
			l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for _, from := range h[:16] {
				l.Flows[from] = []pattern.Flow{{From: from, To: h[16], Size: 300_000}}
			}
			p.Traffic = []plan.Traffic{{Name: "incast", Pattern: l, TCP: fabrictest.TCP(t, c.control)}}
			_, all, _ := carry(t, p, 1)
			fabrictest.CheckOnce(t, l, all, false)
			n, again := states(all)
			t.Logf("%d packets were sent again", again)
			if n[records.Done] != 16 || (again == 0) != c.lossless {
				t.Errorf("%v, %d packets were sent again", n, again)
			}
		})
	}
}

// TestTCP_FlowWithoutAPathFails: a flow whose path is gone fails after its retries, and says
// why. A flow in progress at the end of the run is unfinished, with what was acknowledged.
func TestTCP_FlowWithoutAPathFails(t *testing.T) {
	p := fabrictest.Parse(t, `
topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}
events: [{at: 1ms, link: "h2:eth0", set: {state: down}}]
`)
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{
		h[0]: {{From: h[0], To: h[1], Size: 100_000_000}, {Tag: 1, From: h[0], To: h[2], Size: 100_000_000}},
	}}
	c := fabrictest.TCP(t, "cubic")
	c.Retries = 3
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: c}}
	f := fabric.New(p)
	var all fabrictest.Records
	f.SetFlowSink(&all, false)
	runTo(t, f, 40*units.Millisecond)
	if err := f.EndFlows(); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d records", len(all))
	}
	for _, r := range all {
		if want := []records.State{records.Failed, records.Unfinished}[r.Tag]; r.State != want || r.Acked == 0 || (r.Failure != "") != (want == records.Failed) {
			t.Errorf("%+v", r)
		}
	}
}

// TestTCP_IsReadByTshark: tshark finds no errors in the checksums, sequence numbers and
// options of a flow, and sees its handshake and its FINs.
func TestTCP_IsReadByTshark(t *testing.T) {
	for _, ip := range []int{4, 6} {
		p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}}")
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[1], Size: 50_000}}}}
		c := fabrictest.TCP(t, "dctcp")
		c.IPv6 = ip == 6
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: c}}
		f := fabric.New(p)
		frames := captured(t, f, []fabric.Watched{{Node: h[0], In: true}, {Node: h[1], In: true}}, func() { runTo(t, f, units.Never) })
		lua := filepath.Join(t.TempDir(), "none.lua")
		if err := os.WriteFile(lua, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		syn, fin, data := 0, 0, 0
		for _, row := range oracle.Tshark(t, lua, frames, "tcp.checksum.status", "tcp.flags.syn", "tcp.flags.fin", "tcp.len", "tcp.analysis.flags", "_ws.malformed", "_ws.expert.message") {
			if row[0] == "0" || row[4] != "" || row[5] != "" {
				t.Errorf("tshark: %q", row)
			}
			count := func(what string, n *int) {
				if what == "1" || what == "True" {
					*n++
				}
			}
			count(row[1], &syn)
			count(row[2], &fin)
			if row[3] != "0" {
				data++
			}
		}
		if syn != 2 || fin != 2 || data != (50_000+int(c.FullPayload())-1)/int(c.FullPayload()) {
			t.Errorf("IPv%d: tshark sees %d SYNs, %d FINs, %d segments with data", ip, syn, fin, data)
		}
	}
}

// BenchmarkTCP runs 128 flows over TCP, from each host of a fat-tree to another, and
// reports the processor time of a packet's hop: go test -bench TCP -benchtime 3x
// ./e2e/systems.
func BenchmarkTCP(b *testing.B) {
	for _, control := range []string{"reno", "cubic", "dctcp", "bbr"} {
		b.Run(control, func(b *testing.B) {
			p := fabrictest.Parse(b, "topology: {kinds: {host: {attach: none}, switch: {forwarding: random, queue: {limit: 200KB, mark: {step: {k: 65KB}}}}}, generate: {fat-tree: {k: 8, rate: 10Gbps, delay: 1us}}}")
			h := fabrictest.Hosts(p)
			l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for i, from := range h {
				l.Flows[from] = []pattern.Flow{{From: from, To: h[(i+len(h)/2+1)%len(h)], Size: 1 << 40}}
			}
			p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: fabrictest.TCP(b, control)}}
			f, err := fabric.NewParallel(p, 1)
			if err != nil {
				b.Fatal(err)
			}
			end := 2 * units.Millisecond
			if err := f.Run(context.Background(), end); err != nil {
				b.Fatal(err)
			}
			before, cpu := packetHops(f), fabrictest.ProcessorTime()
			b.ResetTimer()
			for range b.N {
				end += 2 * units.Millisecond
				if err := f.Run(context.Background(), end); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(packetHops(f)-before)/float64(fabrictest.ProcessorTime()-cpu)*1e3, "Mhops/s")
		})
	}
}
