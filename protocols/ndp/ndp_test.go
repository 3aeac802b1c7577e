package ndp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
)

const us = units.Microsecond

// transcript runs a flow of packets of 9000 B over a network of 5 us each way, and records what
// leaves. fates has the fates of data packets, in the order in which they leave; a PULL that is
// in lost does not arrive.
func transcript(t *testing.T, packets int64, window int, fates []fate, lost map[uint32]bool) (string, *network) {
	t.Helper()
	c := Default()
	c.MTU, c.Paths = 9000, 1
	sent := 0
	n := newNetwork(&c, Start{Size: units.Bytes(packets) * c.FullPayload(), Window: window, RTT: 10 * us}, nil)
	n.way = func(toReceiver bool, h *Header) []fate {
		f := fate{delay: 5 * us}
		if toReceiver {
			if sent++; sent <= len(fates) {
				f = fates[sent-1]
				if f.delay == 0 {
					return nil
				}
			}
		} else if h.Flags == FlagPULL && lost[h.Pull] {
			return nil
		}
		return []fate{f}
	}
	var b strings.Builder
	n.seen = func(toReceiver bool, h *Header, _ units.Bytes) {
		who, number := "receiver", h.Seq
		if toReceiver {
			who = "sender"
		} else if h.Flags == FlagPULL {
			number = h.Pull
		}
		fmt.Fprintf(&b, "%.1f %s %v %d\n", float64(n.now)/float64(us), who, h.Flags, number)
	}
	n.run(units.Second)
	if n.sender.Phase() != Done || n.arrived != 1 {
		t.Errorf("the sender is in phase %d, all has come %d times", n.sender.Phase(), n.arrived)
	}
	return strings.TrimSpace(b.String()), n
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Fates of packets.
var (
	cut     = fate{delay: 5 * us, trimmed: true}
	bounced = fate{delay: 5 * us, returned: true}
	gone    = fate{}
)

// TestZeroRTT: the first window leaves at line rate with SYN, each packet is acknowledged and
// pulls another one, and when the last has arrived nothing more is pulled.
func TestZeroRTT(t *testing.T) {
	got, _ := transcript(t, 4, 2, nil, nil)
	compare(t, got, `
		0.0 sender SYN 0
		5.0 receiver ACK 0
		5.0 receiver PULL 1
		7.2 sender SYN 1
		12.2 receiver ACK 1
		12.3 receiver PULL 2
		14.5 sender data 2
		19.5 receiver ACK 2
		19.6 receiver PULL 3
		21.7 sender LAST 3
		26.7 receiver ACK 3`)
}

// TestTrimmed: a header is answered by a NACK, and the packet is sent again, before new data,
// when it is pulled.
func TestTrimmed(t *testing.T) {
	got, n := transcript(t, 4, 2, []fate{cut}, nil)
	compare(t, got, `
		0.0 sender SYN 0
		5.0 receiver NACK 0
		5.0 receiver PULL 1
		7.2 sender SYN 1
		12.2 receiver ACK 1
		12.3 receiver PULL 2
		14.5 sender SYN 0
		19.5 receiver ACK 0
		19.6 receiver PULL 3
		21.7 sender data 2
		26.7 receiver ACK 2
		26.9 receiver PULL 4
		28.9 sender LAST 3
		33.9 receiver ACK 3`)
	if c := n.sender.Counters(); c != (Counters{Packets: 5, Resent: 1, ACKs: 4, NACKs: 1, Pulls: 4}) {
		t.Errorf("%+v", c)
	}
}

// TestReturned: a packet whose header comes back while PULLs are expected waits for one; an
// only packet is sent again at once.
func TestReturned(t *testing.T) {
	got, _ := transcript(t, 2, 2, []fate{{delay: 10 * us, returned: true}}, nil)
	compare(t, got, `
		0.0 sender SYN 0
		7.2 sender SYN+LAST 1
		12.2 receiver ACK 1
		12.2 receiver PULL 1
		17.2 sender SYN 0
		22.2 receiver ACK 0`)
	got, _ = transcript(t, 1, 2, []fate{bounced, bounced}, nil)
	compare(t, got, `
		0.0 sender SYN+LAST 0
		7.2 sender SYN+LAST 0
		14.5 sender SYN+LAST 0
		19.5 receiver ACK 0`)
}

// TestLostPull: the next PULL makes up for one that was lost, as its number says.
func TestLostPull(t *testing.T) {
	got, n := transcript(t, 6, 3, nil, map[uint32]bool{1: true})
	compare(t, got, `
		0.0 sender SYN 0
		5.0 receiver ACK 0
		5.0 receiver PULL 1
		7.2 sender SYN 1
		12.2 receiver ACK 1
		12.3 receiver PULL 2
		14.5 sender SYN 2
		19.5 receiver ACK 2
		19.6 receiver PULL 3
		21.7 sender data 3
		26.7 receiver ACK 3
		26.9 receiver PULL 4
		28.9 sender data 4
		33.9 receiver ACK 4
		34.2 receiver PULL 5
		36.2 sender LAST 5
		41.2 receiver ACK 5`)
	if c := n.sender.Counters(); c.Timeouts > 0 || c.Pulls != 4 {
		t.Errorf("%+v", c)
	}
}

// TestTimeouts: a lost packet is sent again after the RTO, without a PULL; so is one when the
// only PULL was lost. The timeout doubles while nothing is heard.
func TestTimeouts(t *testing.T) {
	got, n := transcript(t, 1, 1, []fate{gone, gone, gone}, nil)
	compare(t, got, `
		0.0 sender SYN+LAST 0
		1000.0 sender SYN+LAST 0
		3000.0 sender SYN+LAST 0
		7000.0 sender SYN+LAST 0
		7005.0 receiver ACK 0`)
	if c := n.sender.Counters(); c.Timeouts != 3 || c.Resent != 3 {
		t.Errorf("%+v", c)
	}
	got, n = transcript(t, 2, 1, []fate{cut}, map[uint32]bool{1: true})
	compare(t, got, `
		0.0 sender SYN 0
		5.0 receiver NACK 0
		5.0 receiver PULL 1
		1010.0 sender SYN 0
		1015.0 receiver ACK 0
		1015.0 receiver PULL 2
		1020.0 sender LAST 1
		1025.0 receiver ACK 1`)
	if c := n.sender.Counters(); c.Timeouts != 1 {
		t.Errorf("%+v", c)
	}
}

// TestGivesUp: a flow that hears nothing fails after its retries, and says so.
func TestGivesUp(t *testing.T) {
	c := Default()
	c.Retries = 4
	n := newNetwork(&c, Start{Size: 100_000, Window: 10}, func(bool, *Header) []fate { return nil })
	n.run(units.Second)
	if n.sender.Phase() != Failed || !strings.Contains(n.sender.Failure(), "5 timeouts") || n.sender.NextTimer() != units.Never {
		t.Errorf("phase %d %s at %v", n.sender.Phase(), n.sender.Failure(), n.now)
	}
}

// TestLyingReceiver: pull numbers beyond what was sent give no more than that, and answers
// about packets that never left change nothing.
func TestLyingReceiver(t *testing.T) {
	c := Default()
	var s Sender
	s.Reset(0, &c, Start{Size: 10_000_000, Window: 5, Rand: rand.New(rand.NewPCG(1, 1))})
	sent := func() (n int) {
		var h Header
		for s.CanSend() {
			s.Next(0, &h)
			n++
		}
		return n
	}
	if n := sent(); n != 5 {
		t.Fatalf("%d packets without a PULL", n)
	}
	for range 10 { // each gives as many as were sent since the previous one
		before := s.sent
		s.Receive(us, &Header{Flags: FlagPULL, Pull: s.pulled + 1<<30})
		if n := sent(); n > int(before) {
			t.Fatalf("%d packets for a PULL, %d had been sent", n, before)
		}
	}
	state, acked := s.flies, s.acked
	for _, f := range []Flags{FlagACK, FlagNACK} {
		s.Receive(us, &Header{Flags: f, Seq: uint32(s.nxt) + 7, Pull: s.pulled})
		s.Receive(us, &Header{Flags: f, Seq: 0xffff_0000, Pull: s.pulled - 9})
	}
	s.Receive(us, &Header{Seq: 1, Pull: 1 << 20}) // data
	s.ReceiveReturned(us, &Header{Seq: 1, Path: 4000})
	if s.flies != state || s.acked != acked || s.CanSend() {
		t.Errorf("%d packets fly, %v acknowledged", s.flies, s.acked)
	}
	checkSender(t, &s)
}

// newReceivers returns receivers of one host, with new connections.
func newReceivers(t *testing.T, priorities ...int) (*Pacer, []*Receiver) {
	t.Helper()
	var all []*Receiver
	var p *Pacer
	for i, priority := range priorities {
		c := Default()
		c.Priority = priority
		if p == nil {
			p = pull.New[*Receiver](&pull.Config{Line: 10 * units.Gbps, MTU: 1514, Share: 1, Credit: 1, Policy: pull.Strict{}})
		}
		r := new(Receiver)
		r.Reset(&c, p, &Header{Connection: uint32(i)})
		all = append(all, r)
	}
	return p, all
}

// pulled returns the connections of the PULLs that leave by a time.
func pulled(p *Pacer, end units.Time) (order []uint32) {
	for p.NextPull() <= end {
		h := p.Next(max(0, p.NextPull())).Owner.MakePull()
		order = append(order, h.Connection)
	}
	return order
}

// TestLyingSender: a sender that sends headers, or the same packet again and again, has its
// turns and no more; an impossible sequence number is not answered.
func TestLyingSender(t *testing.T) {
	p, r := newReceivers(t, 0, 0)
	for range 100_000 {
		r[0].Receive(&Header{Seq: 0}, 0, true)
	}
	for i := range 10 {
		r[1].Receive(&Header{Seq: uint32(i)}, 1456, false)
	}
	order := pulled(p, 25*us)
	if got := fmt.Sprint(order[:20]); got != "[0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1]" {
		t.Errorf("pulled are %v", got)
	}
	if d := r[0].WantedMTUs(); d > maxPulls {
		t.Errorf("%d PULLs wait", d)
	}
	for _, h := range []Header{{Seq: span + 10}, {Seq: 0xffff_ffff}, {Seq: 3, Flags: FlagLast}} {
		if a, ok := r[1].Receive(&h, 1456, false); ok {
			t.Errorf("%+v is answered by %+v", h, a)
		}
	}
	r[1].Receive(&Header{Seq: 11, Flags: FlagLast}, 1, false)
	for _, h := range []Header{{Seq: 12}, {Seq: 11}, {Seq: 10, Flags: FlagLast}} {
		if a, ok := r[1].Receive(&h, 1456, false); ok {
			t.Errorf("behind the end %+v is answered by %+v", h, a)
		}
	}
	if got := r[1].ReceivedBytes(); got != 10*1456+1 || r[1].IsComplete() {
		t.Errorf("%v have come", got)
	}
}

// TestPriority: PULLs of a higher priority go first; a packet that arrives again pulls nothing.
func TestPriority(t *testing.T) {
	p, r := newReceivers(t, 0, 5)
	for i := range 3 {
		r[0].Receive(&Header{Seq: uint32(i)}, 1456, false)
		r[1].Receive(&Header{Seq: uint32(i)}, 1456, false)
		r[1].Receive(&Header{Seq: uint32(i)}, 1456, false)
	}
	if got := fmt.Sprint(pulled(p, units.Millisecond)); got != "[1 1 1 0 0 0]" {
		t.Errorf("pulled are %v", got)
	}
}

// TestPeer: a Peer records which connections are over, in whatever order they end.
func TestPeer(t *testing.T) {
	p := Peer{next: 0xffff_fffe}
	for _, n := range []uint32{0, 1, 0xffff_ffff} {
		p.RecordEnd(n)
	}
	if p.IsOver(0xffff_fffe) || !p.IsOver(0xffff_ffff) || !p.IsOver(0) || !p.IsOver(1) || p.IsOver(2) || len(p.over) != 3 {
		t.Errorf("%+v", p)
	}
	p.RecordEnd(0xffff_fffe)
	p.RecordEnd(0xffff_fffe)
	if p.next != 2 || len(p.over) != 0 || !p.IsOver(0xffff_fffe) || p.IsOver(2) {
		t.Errorf("%+v", p)
	}
}

// TestPaths: a turn has each path once, in a new order; with penalties a path that is much
// worse than the others is left out for some turns, and comes back.
func TestPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, penalty := range []bool{false, true} {
		var p paths
		p.resetPaths(8, penalty)
		turns := map[uint32][]uint16{}
		for range 8 * 40 {
			x := p.nextPath(r)
			p.recordPacket(x, x == 3)
			turns[p.turn] = append(turns[p.turn], x)
		}
		delete(turns, p.turn) // it is not complete
		orders := map[string]bool{}
		without := 0
		for _, order := range turns {
			orders[fmt.Sprint(order)] = true
			seen := map[uint16]int{}
			for _, x := range order {
				seen[x]++
			}
			if seen[3] == 0 {
				without++
			}
			for x := range uint16(8) {
				if seen[x] > 1 || seen[x] == 0 && x != 3 {
					t.Fatalf("path %d has %d of the turn %v", x, seen[x], order)
				}
			}
		}
		// Eight turns until it is compared, then four without it, and so on.
		if len(orders) < 35 || penalty != (without > 8) || penalty && without > 20 || !penalty && without > 0 {
			t.Errorf("penalty %v: %d orders, %d turns without the bad path", penalty, len(orders), without)
		}
	}
}

// TestChecks: each setting has its range.
func TestChecks(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"mtu": func(c *Config) { c.MTU = 100 }, "window": func(c *Config) { c.Window = maxWindow + 1 }, "paths": func(c *Config) { c.Paths = 0 },
		"rto": func(c *Config) { c.RTO = 0 }, "max-rto": func(c *Config) { c.MaxRTO = us }, "retries": func(c *Config) { c.Retries = 31 },
		"pull-share": func(c *Config) { c.PullShare = 1.5 }, "priority": func(c *Config) { c.Priority = 256 },
	} {
		c := Default()
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if change(&c); c.Check() == nil || !strings.Contains(c.Check().Error(), key) {
			t.Errorf("%s: %v", key, c.Check())
		}
	}
	c := Default()
	if n := c.WindowFor(100_000, 1538); n != 66+Allowance {
		t.Errorf("a window of %d packets", n)
	}
	if n := c.WindowFor(1000, 1538); n != 1+Allowance {
		t.Errorf("a window of %d packets", n)
	}
	if c.Window = 3; c.WindowFor(100_000, 1538) != 3 {
		t.Error("a window that is given is not taken")
	}
}

// TestDoesNotAllocate: nothing allocates once rings have grown.
func TestDoesNotAllocate(t *testing.T) {
	c := Default()
	random := rand.New(rand.NewPCG(1, 1))
	p := pull.New[*Receiver](&pull.Config{Line: 10 * units.Gbps, MTU: 1514, Share: 1, Credit: 1, Policy: pull.Strict{}})
	var s Sender
	var r Receiver
	flow := func() {
		s.Reset(0, &c, Start{Size: 1_000_000, Window: 30, Rand: random})
		r.Reset(&c, p, &Header{})
		var h Header
		for now := units.Time(0); s.Phase() == Active; now += us {
			for s.CanSend() {
				payload, _ := s.Next(now, &h)
				a, _ := r.Receive(&h, payload, random.IntN(5) == 0)
				s.Receive(now, &a)
			}
			if x := p.Next(now); x != nil {
				h = x.Owner.MakePull()
				s.Receive(now, &h)
			}
		}
	}
	flow()
	if n := testing.AllocsPerRun(20, flow); n > 0 {
		t.Errorf("%v allocations a flow", n)
	}
}

func BenchmarkPackets(b *testing.B) {
	c := Default()
	p := pull.New[*Receiver](&pull.Config{Line: 10 * units.Gbps, MTU: 1514, Share: 1, Credit: 1, Policy: pull.Strict{}})
	var s Sender
	var r Receiver
	s.Reset(0, &c, Start{Size: 1 << 40, Window: 30, Rand: rand.New(rand.NewPCG(1, 1))})
	r.Reset(&c, p, &Header{})
	b.ReportAllocs()
	for now := units.Time(0); b.Loop(); now += 2 * us {
		var h Header
		s.NextTimer()
		if payload, ok := s.Next(now, &h); ok {
			a, _ := r.Receive(&h, payload, false)
			s.Receive(now, &a)
		}
		if x := p.Next(now); x != nil {
			h = x.Owner.MakePull()
			s.Receive(now, &h)
		}
	}
}
