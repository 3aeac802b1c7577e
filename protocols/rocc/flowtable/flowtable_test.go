package flowtable

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// of returns a packet of a modelled flow.
func of(flow int) *packet.Packet {
	return &packet.Packet{Flow: int32(flow), Version: 4, Proto: wire.ProtoUDP, DstPort: roce.Port, Origin: packet.Endpoint(flow % 16)}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// told returns the flows that EachFlow passes.
func told(t Table, now units.Time) []int {
	var flows []int
	t.EachFlow(now, func(f *Flow) { flows = append(flows, int(f.Key.Flow)) })
	return flows
}

// play plays a script: +3 is a packet of flow 3 that arrives, -3 one that departs, @40 advances
// to 40 us, and =1,3 is a feedback for 1 and 3 in this order.
func play(t *testing.T, table Table, script string) {
	t.Helper()
	var now units.Time
	for i, step := range strings.Fields(script) {
		what := step[1:]
		n, _ := strconv.Atoi(what)
		switch step[0] {
		case '+':
			table.OnArrival(now, of(n))
		case '-':
			table.OnDeparture(now, of(n))
		case '@':
			now = units.Time(n) * units.Microsecond
		case '=':
			known := table.Len(now)
			flows := told(table, now)
			got := strings.Trim(strings.ReplaceAll(fmt.Sprint(flows), " ", ","), "[]")
			if got != what {
				t.Fatalf("step %d: told %q, want %q, in %s", i, got, what, script)
			}
			if known != len(flows) {
				t.Fatalf("step %d: Len was %d and %d are told, in %s", i, known, len(flows), script)
			}
		default:
			t.Fatalf("step %q", step)
		}
	}
}

func TestTables(t *testing.T) {
	us := units.Microsecond
	for _, c := range []struct {
		name   string
		config Config
		script string
	}{
		{"in the queue", Config{Kind: Queued}, "= +2 +1 +2 =2,1 =2,1 -2 =2,1 -2 =1 +2 =1,2 -1 -2 ="},
		{"the default is queued", Config{}, "+2 +1 -2 =1"},
		{"an unknown departure", Config{Kind: Queued}, "-1 +1 -1 -1 ="},
		{"since the last feedback", Config{Kind: Recent}, "+2 +1 -2 -1 =2,1 ="},
		{"and in the queue", Config{Kind: Recent}, "+2 +1 -2 =2,1 =1 -1 = +1 +1 -1 =1 =1 -1 ="},
		{"comes anew", Config{Kind: Recent}, "+1 +2 =1,2 -1 +1 =2,1 -1 -2 ="},
		{"age", Config{Kind: Bounded, Size: 9, Age: 100 * us}, "+1 @50 +2 =1,2 @99 =1,2 @100 =2 @149 +2 @150 =2 @248 =2 @249 ="},
		{"departures are nothing", Config{Kind: Bounded, Size: 9, Age: 100 * us}, "+1 -1 =1"},
		{"full", Config{Kind: Bounded, Size: 2, Age: 100 * us}, "+1 @1 +2 @2 +1 @3 +3 =1,3 @4 +2 =3,2"},
		{"full in an instant", Config{Kind: Bounded, Size: 2, Age: 100 * us}, "+1 +2 +3 =2,3"},
		{"old ones first", Config{Kind: Bounded, Size: 2, Age: 100 * us}, "+1 @60 +2 @100 +3 =2,3"},
		{"one sample proves nothing", Config{Kind: AFD, Size: 8, Sample: 1}, "+1 +2 = +2 =2 +1 =2,1 @900000 =2,1"},
		{"the whole buffer", Config{Kind: AFD, Size: 4, Sample: 1}, "+1 +1 +1 +1 +1 +1 =1"},
		{"a trap", Config{Kind: ElephantTrap, Size: 2, Sample: 1}, "+1 +2 = +2 +1 =2,1 @900000 =2,1"},
		// The pointer passes 1 (2 to 1) and takes 2, then passes 1 (1 to 0) and takes 3.
		{"halved and taken", Config{Kind: ElephantTrap, Size: 2, Sample: 1}, "+1 +1 +1 +2 =1 +3 =1 +4 = +4 =4 +1 +1 =4,1"},
		{"all halved", Config{Kind: ElephantTrap, Size: 2, Sample: 1}, "+1 +1 +2 +2 =1,2 +3 = +3 =3"},
		{"a bubble", Config{Kind: BubbleCache, Size: 8, Age: 100 * us, Sample: 1}, "= +1 +2 = +2 =2 +1 =2,1 @99 =2,1 @100 ="},
		{"sinks", Config{Kind: BubbleCache, Size: 8, Age: 100 * us, Sample: 1}, "= +1 +1 +1 +1 @90 +1 @100 =1 @189 +1 @200 =1 @210 ="},
		// The flow at the bottom, 3 and then 4, makes room.
		{"the bottom", Config{Kind: BubbleCache, Size: 3, Age: 100 * us, Sample: 1}, "= +1 +2 +3 +4 +5 +1 +2 +5 =1,2,5 +3 +4 +3 =1,2"},
		{"rises", Config{Kind: BubbleCache, Size: 2, Age: 100 * us, Sample: 1}, "= +1 +2 +2 +3 +3 +4 =2"},
	} {
		t.Run(string(c.config.Kind)+" "+c.name, func(t *testing.T) {
			if err := c.config.Validate(); err != nil {
				t.Fatal(err)
			}
			play(t, New(c.config, newRand(1)), c.script)
		})
	}
}

// TestBubbleRate: the sampling rate falls while flows do not fit, and rises when they leave the
// cache empty.
func TestBubbleRate(t *testing.T) {
	b := New(Config{Kind: BubbleCache, Size: 8, Age: units.Microsecond, Sample: 4}, newRand(1)).(*bubble)
	var now units.Time
	step := func(flows int) {
		for i := range 1000 {
			b.OnArrival(now, of(i%flows))
		}
		now += units.Microsecond
		told(b, now)
	}
	told(b, now)
	was := b.each
	for range 4 {
		step(500)
		if b.each != 2*was {
			t.Fatalf("one in %d after one in %d, with too many flows", b.each, was)
		}
		was = b.each
	}
	for range 20 {
		step(1)
	}
	if b.each != 1 {
		t.Errorf("one in %d with a flow alone, not every packet", b.each)
	}
}

// TestFlow checks that EachFlow passes what messages need.
func TestFlow(t *testing.T) {
	from, to := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	p := &packet.Packet{Kind: packet.NIC, Version: 6, Origin: 7, RoCE: &packet.RoCE{Addresses: packet.NewAddresses(from, to)}}
	p.RoCE.BTH.DestQP = 18
	for _, k := range Kinds {
		c := Config{Kind: k}
		if k.Defaults().Sample != 0 {
			c.Sample = 1
		}
		table := New(c, newRand(1))
		for range 3 {
			table.OnArrival(0, p)
		}
		calls := 0
		table.EachFlow(0, func(f *Flow) {
			calls++
			if want := (Flow{Key: p.FlowKey(roce.Port), Version: 6, Origin: 7}); *f != want {
				t.Errorf("%s: %+v, not %+v", k, *f, want)
			}
		})
		if calls != 1 {
			t.Errorf("%s: told %d flows", k, calls)
		}
	}
}

// frame returns a packet of a real program with an opcode after UDP, of which
// at most cut bytes are present.
func frame(version uint8, opcode roce.Opcode, cut int) *packet.Packet {
	b := make([]byte, wire.EthernetHeader+wire.IPv6Header+wire.UDPHeader+roce.BTHLen)
	at := wire.EthernetHeader + wire.IPv6Header + wire.UDPHeader
	if version == 4 {
		b[wire.EthernetHeader] = 0x45
		at -= wire.IPv6Header - wire.IPv4Header
	}
	b[at] = byte(opcode)
	p := &packet.Packet{Kind: packet.Real, Version: version, Proto: wire.ProtoUDP, DstPort: roce.Port, L3: wire.EthernetHeader}
	p.Frame = b[:min(len(b), at+cut)]
	return p
}

func TestCounts(t *testing.T) {
	nic := func(o roce.Opcode) *packet.Packet {
		r := &packet.RoCE{}
		r.BTH.Opcode = o
		return &packet.Packet{Kind: packet.NIC, Version: 4, RoCE: r}
	}
	returned := of(1)
	returned.Returned = true
	arp := of(1)
	arp.Kind, arp.Version = packet.Real, 0
	other := frame(4, roce.RC.WithOperation(roce.Ack), 99)
	other.DstPort++
	for name, c := range map[string]struct {
		p    *packet.Packet
		want bool
	}{
		"modelled":              {of(1), true},
		"no IP":                 {arp, false},
		"a message":             {&packet.Packet{Kind: packet.Protocol, Version: 4, Message: &packet.Message{}}, false},
		"returned headers":      {returned, false},
		"WRITE":                 {nic(roce.RC.WithOperation(roce.WriteMiddle)), true},
		"READ response":         {nic(roce.RC.WithOperation(roce.ReadMiddle)), true},
		"UD SEND":               {nic(roce.UD.WithOperation(roce.SendOnly)), true},
		"acknowledgement":       {nic(roce.RC.WithOperation(roce.Ack)), false},
		"atomic acknowledge":    {nic(roce.RC.WithOperation(roce.AtomicAck)), false},
		"XRC WRITE":             {nic(roce.XRC.WithOperation(roce.WriteMiddle)), true},
		"XRC acknowledgement":   {nic(roce.XRC.WithOperation(roce.Ack)), false},
		"CNP":                   {nic(roce.NotifyCongestion), false},
		"a guest's WRITE":       {frame(4, roce.RC.WithOperation(roce.WriteOnly), 99), true},
		"a guest's ack, IPv4":   {frame(4, roce.RC.WithOperation(roce.Ack), 99), false},
		"a guest's ack, IPv6":   {frame(6, roce.RC.WithOperation(roce.Ack), 99), false},
		"a guest's CNP":         {frame(6, roce.NotifyCongestion, 99), false},
		"no room for an opcode": {frame(4, roce.RC.WithOperation(roce.Ack), 0), true},
		"no IP header":          {frame(4, roce.RC.WithOperation(roce.Ack), -28), true},
		"another port":          {other, true},
	} {
		if got := CountsPacket(c.p); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if c.want {
			continue
		}
		for _, k := range Kinds {
			config := k.Defaults()
			config.Sample = min(config.Sample, 1)
			table := New(config, newRand(1))
			for range 3 {
				table.OnArrival(0, c.p)
			}
			if n := table.Len(0); n != 0 {
				t.Errorf("%s: %s knows %d flows", name, k, n)
			}
			table.OnDeparture(0, c.p)
		}
	}
}

// TestNoAllocation: once a table has grown, packets and feedback do not allocate.
func TestNoAllocation(t *testing.T) {
	packets := make([]*packet.Packet, 3000)
	for i := range packets {
		packets[i] = of(i)
	}
	for _, k := range Kinds {
		for _, flows := range []int{1, 100, len(packets)} {
			table := New(Config{Kind: k}, newRand(1))
			var now units.Time
			n := 0
			count := func(*Flow) { n++ }
			round := func() {
				for _, p := range packets[:flows] {
					table.OnArrival(now, p)
					table.OnArrival(now, p)
					now += 100 * units.Nanosecond
				}
				table.EachFlow(now, count)
				for _, p := range packets[:flows] {
					table.OnDeparture(now, p)
					table.OnDeparture(now, p)
				}
				now += 40 * units.Microsecond
				table.EachFlow(now, count)
			}
			for range 20 {
				round()
			}
			if a := testing.AllocsPerRun(20, round); a > 0 {
				t.Errorf("%s with %d flows: %v allocations a round", k, flows, a)
			}
		}
	}
}

// TestShrink: after a burst of flows a table frees memory, and keeps its flows in order.
func TestShrink(t *testing.T) {
	for _, k := range []Kind{Queued, Recent, Bounded} {
		table := New(Config{Kind: k}, newRand(1))
		var s *store
		switch x := table.(type) {
		case *queued:
			s = &x.store
		case *bounded:
			s = &x.store
		}
		for i := range 1000 {
			table.OnArrival(0, of(i))
		}
		now := units.Millisecond
		for i := range 1000 {
			table.OnDeparture(now, of(i))
		}
		made := s.made
		for i := range 2 * shrinkAfter {
			now += 40 * units.Microsecond
			table.OnArrival(now, of(9))
			table.OnArrival(now, of(5))
			table.OnDeparture(now, of(9))
			if got := told(table, now); i > 0 && k != Queued && !slices.Equal(got, []int{9, 5}) && !slices.Equal(got, []int{5, 9}) {
				t.Fatalf("%s: told %v after %d intervals", k, got, i)
			}
		}
		if made != 1000 || s.made > 4 {
			t.Errorf("%s: %d entries after a burst with %d", k, s.made, made)
		}
		table.OnArrival(now, of(7))
		if got := told(table, now); got[len(got)-1] != 7 {
			t.Errorf("%s: told %v", k, got)
		}
	}
}

func TestWeights(t *testing.T) {
	for _, n := range []int{1, 2, 5, 8, 9} {
		w := newWeights(n)
		var row []int
		for i := range n {
			w.addWeight(i, i%3)
			row = append(row, slices.Repeat([]int{i}, i%3)...)
		}
		for x, want := range row {
			if got := w.findItem(x); got != want {
				t.Errorf("%d of %d is %d, not %d", x, n, got, want)
			}
		}
	}
}

func BenchmarkPacket(b *testing.B) {
	// Packets of a NIC, because their key is the most expensive of those without wire bytes.
	packets := make([]*packet.Packet, 200)
	for i := range packets {
		r := &packet.RoCE{Addresses: packet.NewAddresses(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), netip.AddrFrom4([4]byte{10, 0, 1, 0}))}
		r.BTH.DestQP = uint32(i)
		packets[i] = &packet.Packet{Kind: packet.NIC, Version: 4, Proto: wire.ProtoUDP, DstPort: roce.Port, RoCE: r}
	}
	for _, k := range Kinds {
		b.Run(string(k), func(b *testing.B) {
			table := New(Config{Kind: k}, newRand(1))
			var now units.Time
			n, at := 0, 0
			count := func(*Flow) { n++ }
			b.ReportAllocs()
			for b.Loop() {
				// A packet joins and the one 100 packets earlier leaves; 333 are an interval.
				table.OnArrival(now, packets[at*7%len(packets)])
				if at >= 100 {
					table.OnDeparture(now, packets[(at-100)*7%len(packets)])
				}
				now += 120 * units.Nanosecond
				if at++; at%333 == 0 {
					table.EachFlow(now, count)
				}
			}
		})
	}
}
