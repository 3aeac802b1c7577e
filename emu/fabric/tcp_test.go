package fabric

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/internal/judge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/carrier"
	"github.com/weftlab/weft/traces/pattern"
	"github.com/weftlab/weft/traces/records"
)

// byTCP returns a TCP carrier with a rate control, with a timeout that suits a lab of
// microseconds.
func byTCP(t testing.TB, control string) *carrier.TCP {
	m, err := cc.Methods.Find(control)
	if err != nil {
		t.Fatal(err)
	}
	c := &carrier.TCP{Config: tcp.Default(), Control: cc.Choice{Name: control, Settings: m.Preset(m.Presets[0], 10*units.Gbps)}}
	c.ECN = carrier.ECNOf(c.Control)
	c.MinRTO, c.InitialRTO, c.DelayedAck = units.Millisecond, 10*units.Millisecond, 100*units.Microsecond
	return c
}

// states counts records by state, and retransmissions.
func states(all []records.Record) (n map[records.State]int, again uint64) {
	n = map[records.State]int{}
	for _, r := range all {
		n[r.State]++
		again += r.Retransmitted
	}
	return n, again
}

// TestFlowsByTCP: flows of any size, alone on their path, take little more than the ideal
// time as long as slow start does not matter, over both versions of IP.
func TestFlowsByTCP(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, timestamps := range []bool{false, true} {
			p := parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}")
			h := hostsOf(p)
			l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
			for i, size := range []units.Bytes{1, 0, 1448, 1449, 14_000, 2_000_000} {
				l.flows[h[i%2]] = append(l.flows[h[i%2]], pattern.Flow{Tag: uint32(i), From: h[i%2], To: h[1-i%2], Size: size, At: units.Time(i) * 5 * units.Millisecond})
			}
			c := byTCP(t, "cubic")
			c.IPv6, c.Timestamps = v6, timestamps
			p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: c}}
			_, all, _ := carry(t, p, 1)
			onceEach(t, l, all, false)
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

// TestTCPDoesNotDependOnWorkers: records have the same bytes and the run the same trace
// with 1, 2 and 4 workers, whatever happens, and every flow is done.
func TestTCPDoesNotDependOnWorkers(t *testing.T) {
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
					p := parse(t, c.lab)
					h := hostsOf(p)
					l := drawn(h, 1, 40, 20*units.Microsecond, 100_000, false)
					p.Traffic = []plan.Traffic{
						{Name: "drawn", Pattern: l, TCP: byTCP(t, control)},
						{Name: "loop", Pattern: &loop{h[:3], h[3:], 20}, TCP: byTCP(t, "cubic")},
					}
					f, all, text := carry(t, p, workers)
					if workers > 1 {
						if text != first || f.Trace() != trace {
							t.Errorf("%d workers: trace %x, with one %x; %s", workers, f.Trace(), trace, firstDifference(first, text))
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

// TestTCPIncast: with PFC nothing is lost and nothing is sent again; without it, losses
// occur; with DCTCP's marks at a buffer that is large enough nothing is lost either.
func TestTCPIncast(t *testing.T) {
	for _, c := range []struct {
		name, control, depth string
		lossless             bool
	}{
		{"drop-tail", "reno", "queue: {limit: 40KB}", false},
		{"pfc", "reno", "buffer: {size: 400KB}, classes: {default: {pfc: {}}}", true},
		{"trimming", "cubic", "buffer: {size: 400KB}, classes: {default: {limit: 40KB, trim: {dscp: 46}}, trimmed: {priority: 7, dscp: 46}}", false},
		{"marks", "dctcp", "queue: {limit: 2MB, mark: {step: {k: 60KB}}}", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, "topology: {kinds: {host: {attach: none}, switch: {"+c.depth+"}}, generate: {star: {hosts: 17, rate: 10Gbps, delay: 1us}}}")
			h := hostsOf(p)
			l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
			for _, from := range h[:16] {
				l.flows[from] = []pattern.Flow{{From: from, To: h[16], Size: 300_000}}
			}
			p.Traffic = []plan.Traffic{{Name: "incast", Pattern: l, TCP: byTCP(t, c.control)}}
			_, all, _ := carry(t, p, 1)
			onceEach(t, l, all, false)
			n, again := states(all)
			t.Logf("%d packets were sent again", again)
			if n[records.Done] != 16 || (again == 0) != c.lossless {
				t.Errorf("%v, %d packets were sent again", n, again)
			}
		})
	}
}

// TestTCPFails: a flow whose path is gone fails after its retries, and says why. A flow in
// progress at the end of the run is unfinished, with what was acknowledged.
func TestTCPFails(t *testing.T) {
	p := parse(t, `
topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}
events: [{at: 1ms, link: "h2:eth0", set: {state: down}}]
`)
	h := hostsOf(p)
	l := &listed{hosts: h, flows: map[int][]pattern.Flow{
		h[0]: {{From: h[0], To: h[1], Size: 100_000_000}, {Tag: 1, From: h[0], To: h[2], Size: 100_000_000}},
	}}
	c := byTCP(t, "cubic")
	c.Retries = 3
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: c}}
	f := New(p)
	var all kept
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

// TestTCPOnTheWire: tshark finds no errors in the checksums, sequence numbers and options
// of a flow, and sees its handshake and its FINs.
func TestTCPOnTheWire(t *testing.T) {
	for _, ip := range []int{4, 6} {
		p := parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}}")
		h := hostsOf(p)
		l := &listed{hosts: h, flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[1], Size: 50_000}}}}
		c := byTCP(t, "dctcp")
		c.IPv6 = ip == 6
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: c}}
		f := New(p)
		var frames [][]byte
		var r renderer
		s := f.stations[h[1]][0]
		for _, end := range []*Station{s, f.stations[h[0]][0]} {
			before := end.takers[carrier.SegmentProtocol()]
			end.Take(carrier.SegmentProtocol(), func(now units.Time, k *packet.Packet) {
				frames = append(frames, bytes.Clone(r.render(k, nil)))
				before(now, k)
			})
		}
		if err := f.Run(context.Background(), units.Never); err != nil {
			t.Fatal(err)
		}
		lua := filepath.Join(t.TempDir(), "none.lua")
		if err := os.WriteFile(lua, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		syn, fin, data := 0, 0, 0
		for _, row := range judge.Tshark(t, lua, frames, "tcp.checksum.status", "tcp.flags.syn", "tcp.flags.fin", "tcp.len", "tcp.analysis.flags", "_ws.malformed", "_ws.expert.message") {
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
		if syn != 2 || fin != 2 || data != (50_000+int(c.Full())-1)/int(c.Full()) {
			t.Errorf("IPv%d: tshark sees %d SYNs, %d FINs, %d segments with data", ip, syn, fin, data)
		}
	}
}

// BenchmarkTCP runs 128 flows over TCP, from each host of a fat-tree to another, and
// reports the processor time of a packet's hop: go test -bench TCP -benchtime 3x
// ./emu/fabric.
func BenchmarkTCP(b *testing.B) {
	for _, control := range []string{"reno", "cubic", "dctcp", "bbr"} {
		b.Run(control, func(b *testing.B) {
			p := parse(b, "topology: {kinds: {host: {attach: none}, switch: {forwarding: random, queue: {limit: 200KB, mark: {step: {k: 65KB}}}}}, generate: {fat-tree: {k: 8, rate: 10Gbps, delay: 1us}}}")
			h := hostsOf(p)
			l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
			for i, from := range h {
				l.flows[from] = []pattern.Flow{{From: from, To: h[(i+len(h)/2+1)%len(h)], Size: 1 << 40}}
			}
			p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, TCP: byTCP(b, control)}}
			f, err := NewParallel(p, 1)
			if err != nil {
				b.Fatal(err)
			}
			sent := func() (n uint64) {
				for _, ports := range f.ports {
					for _, port := range ports {
						n += port.Counters(f.Now()).TxPackets
					}
				}
				return n
			}
			end := 2 * units.Millisecond
			if err := f.Run(context.Background(), end); err != nil {
				b.Fatal(err)
			}
			before, cpu := sent(), processorTime()
			b.ResetTimer()
			for range b.N {
				end += 2 * units.Millisecond
				if err := f.Run(context.Background(), end); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(sent()-before)/float64(processorTime()-cpu)*1e3, "Mhops/s")
		})
	}
}
