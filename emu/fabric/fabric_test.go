package fabric

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// parse returns the plan of a lab file's text.
var parse = fabrictest.Parse

func run(t testing.TB, p *plan.Plan) *Fabric {
	t.Helper()
	f := New(p)
	f.Failed = func(err error) { t.Errorf("event: %v", err) }
	if err := f.Run(context.Background(), p.Duration); err != nil {
		t.Fatal(err)
	}
	return f
}

func runTo(t testing.TB, f *Fabric, until units.Time) {
	t.Helper()
	if err := f.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
}

// TestRun_IsAFunctionOfFileAndSeed: the same file and seed give the same trace, packet by
// packet and picosecond by picosecond; another seed, loss rate or microsecond of delay gives a
// different one.
func TestRun_IsAFunctionOfFileAndSeed(t *testing.T) {
	text := func(seed int, delay, loss string) string {
		return fmt.Sprintf(`
seed: %d
duration: 5ms
topology:
  kinds: {switch: {queue: {limit: 50KB, mark: {red: {kmin: 5KB, kmax: 40KB, pmax: 0.5}}}}}
  generate: {fat-tree: {k: 4, rate: 1Gbps, delay: %s, loss: %s, jitter: 1us, jitter-reorder: true, duplicate: 0.1%%}}
events:
  - {at: 2ms, link: "agg1:core1", set: {state: down}}
  - {at: 3ms, link: "agg1:core1", set: {state: up}}
workload:
  - {poisson: {from: [h1, h2, h3, h5, h9], to: [h16, h12], rate: 300Mbps, size: 1000B, ect: true}}
  - {on-off: {from: h4, to: h13, rate: 900Mbps, size: 500B, on: 100us, off: 50us, phases: exponential}}
`, seed, delay, loss)
	}
	trace := func(seed int, delay, loss string) uint64 {
		f := run(t, parse(t, text(seed, delay, loss)))
		if f.Events() < 10_000 {
			t.Fatalf("only %d events: the test tests nothing", f.Events())
		}
		return f.Trace()
	}
	first := trace(7, "1us", "0.1%")
	if again := trace(7, "1us", "0.1%"); again != first {
		t.Errorf("the same run gave traces %x and %x", first, again)
	}
	for name, other := range map[string]uint64{
		"seed": trace(8, "1us", "0.1%"), "delay": trace(7, "1.000001us", "0.1%"), "loss": trace(7, "1us", "0.2%"),
	} {
		if other == first {
			t.Errorf("another %s gave the same trace", name)
		}
	}
}

// TestRun_AccountsForEveryPacket: whatever the topology, the links and the traffic, at any
// moment every packet has been delivered, dropped for a reason, or is counted as held; and the
// pool agrees.
func TestRun_AccountsForEveryPacket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := fabrictest.DrawLab(rt)
		p, err := resolve.Parse("lab.yaml", []byte(text))
		if err != nil {
			if strings.Contains(err.Error(), "no node") || strings.Contains(err.Error(), "itself") {
				rt.Skip("a generator with too few hosts")
			}
			rt.Fatalf("%v\n%s", err, text)
		}
		f := New(p)
		for _, until := range []units.Time{300 * units.Microsecond, 600 * units.Microsecond, 2 * units.Millisecond} {
			if err := f.Run(context.Background(), until); err != nil {
				rt.Fatal(err)
			}
			a := f.Accounts()
			if !a.Balanced() {
				rt.Fatalf("at %v: %+v\n%s", until, a, text)
			}
			if a.Held != uint64(f.Shards[0].Pool.LivePackets()) {
				rt.Fatalf("at %v: %d packets held, %d out of the pool\n%s", until, a.Held, f.Shards[0].Pool.LivePackets(), text)
			}
		}
		if f.Accounts().Entered == 0 {
			rt.Fatal("nothing was sent")
		}
	})
}

// sink is a real host that keeps what is delivered to it.
type sink struct {
	pool *packet.Pool
	got  []string
}

func (s *sink) DeliverPacket(_ units.Time, p *packet.Packet) {
	s.got = append(s.got, string(p.Frame))
	s.pool.Free(p)
}

// broadcast makes the first host send a frame to all, and checks that every other host
// gets it exactly once.
func (f *Fabric) broadcast(t *testing.T) {
	t.Helper()
	sinks := make([]*sink, len(f.Interfaces))
	for i, iface := range f.Interfaces {
		sinks[i] = &sink{pool: f.Shards[0].Pool}
		iface.Attach(sinks[i])
	}
	frame := append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6}, make([]byte, 46)...)
	p := f.Shards[0].Pool.NewFrame(len(frame))
	copy(p.Frame, frame)
	p.Parse()
	f.Interfaces[0].Enter(f.Now(), p)
	f.advance(t, units.Never)
	for i, s := range sinks {
		if want := min(i, 1); len(s.got) != want {
			t.Errorf("host %d got %d copies, want %d", i+1, len(s.got), want)
		}
	}
	// No copy went to a port without a host.
	if a := f.Accounts(); !a.Balanced() || a.Held != 0 || a.Dropped != 0 {
		t.Errorf("%+v", a)
	}
}

// TestBroadcast_ReachesEveryHostOnce: on a topology full of loops, a broadcast reaches every
// other host exactly once and dies out.
func TestBroadcast_ReachesEveryHostOnce(t *testing.T) {
	for _, g := range []string{"star: {hosts: 5}", "leaf-spine: {spines: 3, leaves: 3, hosts-per-leaf: 2}", "fat-tree: {k: 4}", "parking-lot: {hops: 3}"} {
		t.Run(g, func(t *testing.T) { New(parse(t, "topology: {generate: {"+g+"}}\n")).broadcast(t) })
	}
}

// TestModelledPacket_HashesLikeItsBytes: the encoder's bytes of a modelled packet parse to the
// same fields and the same flow hash.
func TestModelledPacket_HashesLikeItsBytes(t *testing.T) {
	f := New(parse(t, `
duration: 1s
topology: {generate: {star: {hosts: 3}}}
workload:
  - {cbr: {from: h1, to: h3, rate: 1Mbps, size: 300B, dscp: 26, ect: true}}
  - {cbr: {from: h2, to: h3, rate: 1Mbps, size: 1B, ip: 6}}
`))
	e := &encoder{fabric: f}
	seen := map[int32]bool{}
	check := func(p *packet.Packet) {
		seen[p.Flow] = true
		if (p.Label != 0) != (p.Version == 6) {
			t.Errorf("IPv%d with flow label %d", p.Version, p.Label)
		}
		real := packet.Packet{Frame: append([]byte(nil), e.frame(p)...)}
		if !real.Parse() {
			t.Fatal("a modelled packet is encoded as no frame")
		}
		real.Dest = f.topology.Directory.Resolve(real.Frame, &real, p.Origin, f.Interfaces[p.Origin].MAC)
		got := [...]any{real.Size, real.Dest, real.Hash, real.SrcPort, real.DstPort, real.IPID, real.Ether, real.Version, real.Proto, real.TOS, real.TTL, real.Label}
		want := [...]any{p.Size, p.Dest, p.Hash, p.SrcPort, p.DstPort, p.IPID, p.Ether, p.Version, p.Proto, p.TOS, p.TTL, p.Label}
		if p.Version == 6 {
			want[5] = uint16(0) // IPv6 has no identification
		}
		if got != want {
			t.Errorf("flow %d: encoded and parsed %v, modelled %v", p.Flow, got, want)
		}
	}
	s1, _ := f.Plan.Node("s1")
	f.Port(s1, 2).SetObserver(0, observe(check))
	if err := f.Run(context.Background(), 20*units.Millisecond); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 {
		t.Errorf("saw %d flows, want 2", len(seen))
	}
}

type observe func(p *packet.Packet)

func (o observe) Observe(_ units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, _ packet.Fate, _ units.Bytes) {
	if dir == port.Out {
		o(p)
	}
}

// TestEvents_ChangeALinksStateAndLoss follows one link through its events.
func TestEvents_ChangeALinksStateAndLoss(t *testing.T) {
	f := New(parse(t, `
duration: 40ms
topology: {generate: {star: {hosts: 2, rate: 1Gbps}}}
events:
  - {at: 10ms, link: "h2:eth0", set: {state: down}}
  - {at: 20ms, link: "h2:eth0", set: {state: up}}
  - {at: 30ms, from: "s1:h2", set: {loss: 100%}}
workload: [{cbr: {from: h1, to: h2, rate: 8Mbps, size: 1000B}}]
`))
	changed := 0
	f.LinkChanged = func(int, int) { changed++ }
	var got []uint64
	for ms := units.Time(10); ms <= 40; ms += 10 {
		if err := f.Run(context.Background(), ms*units.Millisecond-units.Nanosecond); err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Interfaces[1].Delivered)
	}
	if want := []uint64{10, 10, 20, 20}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("delivered by 10, 20, 30, 40 ms: %v, want %v", got, want)
	}
	if changed != 5 { // two directions twice, one once
		t.Errorf("%d directions changed, want 5", changed)
	}
	a := f.Accounts()
	if a.Drops["link-down"] != 10 || a.Drops["link-loss"] != 10 {
		t.Errorf("drops %v, want 10 for the link that was down and 10 by loss", a.Drops)
	}
}

// TestHop_DoesNotAllocate: a million packet-hops through a running fabric make no garbage.
func TestHop_DoesNotAllocate(t *testing.T) {
	if fabrictest.Race {
		t.Skip("SKIPPED: the race detector allocates; counted without it")
	}
	p := parse(t, `
duration: 1h
topology:
  kinds: {switch: {queue: {limit: 100KB, mark: {red: {kmin: 5KB, kmax: 50KB, pmax: 0.1}}}}}
  generate: {fat-tree: {k: 4, rate: 10Gbps, delay: 1us, loss: 0.01%}}
workload: [{poisson: {from: [h1, h2, h3, h4], to: [h13, h14, h15, h16], rate: 2Gbps, size: 1000B, ect: true}}]
`)
	for workers := range 2 {
		f := withWorkers(t, p, workers)
		at := 10 * units.Millisecond
		step := func() {
			at += units.Millisecond
			if err := f.Run(context.Background(), at); err != nil {
				t.Fatal(err)
			}
		}
		step() // pools, heaps and inboxes have grown to their size
		before := f.Events()
		if n := testing.AllocsPerRun(20, step); n > 0 {
			t.Errorf("%d workers: %.1f allocations in a millisecond of some %d events", workers, n, (f.Events()-before)/20)
		}
	}
}

// measure runs a fabric for b.N times 10 us of emulated time, after a start in
// which queues reach their length.
func measure(b *testing.B, f *Fabric) {
	hops := func() (n uint64) {
		for _, node := range f.ports {
			for _, p := range node {
				n += p.Counters(f.Now()).TxPackets
			}
		}
		return n
	}
	ctx := context.Background()
	until := 100 * units.Microsecond
	if err := f.Run(ctx, until); err != nil {
		b.Fatal(err)
	}
	start := hops()
	b.ReportAllocs()
	b.ResetTimer()
	if err := f.Run(ctx, until+units.Time(b.N)*10*units.Microsecond); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(hops()-start)/b.Elapsed().Seconds()/1e6, "Mhops/s")
}

// BenchmarkFabric measures the cost of packet-hops in fat-trees with a
// permutation of constant-rate flows, at loads that leave the queues short and
// at loads that fill those where flows meet.
func BenchmarkFabric(b *testing.B) {
	for _, c := range []struct{ k, gbps int }{{4, 20}, {8, 20}, {8, 40}, {8, 100}, {16, 20}} {
		b.Run(fmt.Sprintf("k=%d/load=%dGbps", c.k, c.gbps), func(b *testing.B) { measure(b, withWorkers(b, fabrictest.Permutation(b, c.k, c.gbps), 1)) })
	}
}
