package pull

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

func config(p Policy) *Config {
	return &Config{Line: 10 * units.Gbps, MTU: 1514, Share: DefaultShare, Credit: 1, Policy: p}
}

// TestInterval: at 10 Gb/s a frame of 1514 bytes takes 1538 bytes of the line, 1.2304 us, and
// 0.99 of the line asks for one each 1.2428 us.
func TestInterval(t *testing.T) {
	if got, want := config(nil).PullInterval(), 1242828*units.Picosecond; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCheck(t *testing.T) {
	if err := config(nil).Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{
		{MTU: 1514, Share: 0.99, Credit: 1}, {Line: 1, Share: 0.99, Credit: 1}, {Line: 1, MTU: 1514, Credit: 1}, {Line: 1, MTU: 1514, Share: 1.01, Credit: 1},
		{Line: 1, MTU: 1514, Share: 0.99}, {Line: 1, MTU: 1514, Share: 0.99, Credit: -1}, {Line: 1, MTU: 1514, Share: 0.99, Credit: MaxCredit + 1},
	} {
		if c.Check() == nil {
			t.Errorf("%+v passes", c)
		}
	}
}

// served asks a pacer for n PULLs as they are due, and returns their senders.
func served(t testing.TB, p *Pacer[int], n int) (who []int) {
	now := max(0, p.next)
	for range n {
		if p.NextPull() == units.Never {
			break
		}
		now = max(now, p.NextPull())
		if early := p.NextPull() - 1; early >= 0 && p.next > 0 && p.Next(early) != nil {
			t.Fatal("a PULL left early")
		}
		who = append(who, p.Next(now).Owner)
	}
	return who
}

// list returns a pacer with senders of the given classes that want that much each.
func list(policy Policy, classes []uint8, want uint16) (*Pacer[int], []*Sender[int]) {
	p := New[int](config(policy))
	all := make([]*Sender[int], len(classes))
	for i, c := range classes {
		all[i] = new(Sender[int])
		p.JoinSender(all[i], i, c, 1000)
		p.RaiseTarget(all[i], want)
	}
	return p, all
}

func TestFairIsFIFO(t *testing.T) {
	for _, policy := range []Policy{nil, Fair{}} {
		p, all := list(policy, make([]uint8, 3), 3)
		p.RaiseTarget(all[1], 5)
		if got, want := p.BusyTime(), 11*p.PullInterval(); got != want {
			t.Errorf("busy for %v, want %v", got, want)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 1}, served(t, p, 100)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if p.Len() != 0 || p.BusyTime() != 0 || p.NextPull() != units.Never || all[1].PullNumber() != 5 || all[1].IsActive() {
			t.Errorf("when all is granted: %d, %v, %+v", p.Len(), p.BusyTime(), all[1])
		}
	}
}

func TestStrict(t *testing.T) {
	p, _ := list(Strict{}, []uint8{0, 7, 3, 7}, 2)
	if diff := cmp.Diff([]int{1, 3, 1, 3, 2, 2, 0, 0}, served(t, p, 100)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWeighted: shares follow the weights, from the beginning and for a sender that joins late.
func TestWeighted(t *testing.T) {
	p, all := list(&Weighted{0: 1, 1: 2, 2: 5}, []uint8{0, 1, 2}, 1000)
	count := map[int]int{}
	for _, w := range served(t, p, 800) {
		count[w]++
	}
	if diff := cmp.Diff(map[int]int{0: 100, 1: 200, 2: 500}, count); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	late := new(Sender[int])
	p.JoinSender(late, 3, 2, 1000)
	p.RaiseTarget(late, 1000)
	p.RaiseTarget(all[2], 1500)
	count = map[int]int{}
	for _, w := range served(t, p, 130) {
		count[w]++
	}
	if diff := cmp.Diff(map[int]int{0: 10, 1: 20, 2: 50, 3: 50}, count); diff != "" {
		t.Errorf("with a late one (-want +got):\n%s", diff)
	}
}

// TestTargets: older targets change nothing, greedy ones are cut, and all wrap around.
func TestTargets(t *testing.T) {
	p := New[int](config(nil))
	var s Sender[int]
	p.JoinSender(&s, 0, 0, 20)
	now := units.Time(0)
	for lap := range 5000 {
		from := s.PullNumber()
		p.RaiseTarget(&s, from+10)
		p.RaiseTarget(&s, from+4)
		p.RaiseTarget(&s, from-30)
		if s.WantedMTUs() != 10 {
			t.Fatalf("lap %d: wants %d", lap, s.WantedMTUs())
		}
		p.RaiseTarget(&s, from+500)
		if s.WantedMTUs() != 20 || p.BusyTime() != 20*p.PullInterval() {
			t.Fatalf("lap %d: a greedy one wants %d, busy for %v", lap, s.WantedMTUs(), p.BusyTime())
		}
		for p.NextPull() != units.Never {
			now = max(now, p.NextPull())
			p.Next(now)
		}
	}
}

// TestPaced: a caller that asks late does not get more later.
func TestPaced(t *testing.T) {
	p, _ := list(nil, make([]uint8, 1), 100)
	late := units.Millisecond
	p.Next(late)
	if p.NextPull() != late+p.PullInterval() || p.Next(late) != nil {
		t.Errorf("after a late PULL the next is due at %v", p.NextPull())
	}
}

// TestCredit: a PULL gives what is wanted, up to Credit, and is paced by what it gives. If no
// sender wants more, the next PULL waits as long as after a full one, or after one with half of
// all that a sender may want.
func TestCredit(t *testing.T) {
	const every = 1242828 * units.Picosecond
	type pull struct{ at, who, given int } // at is in MTU-times
	for _, c := range []struct {
		name      string
		credit    int
		maxDemand uint16
		want      []uint16 // of each, at 0
		more      uint16   // what 0 wants when the list is empty
		pulls     []pull
	}{
		{"one, as in the paper", 1, 50, []uint16{3, 1}, 1, []pull{{0, 0, 1}, {1, 1, 1}, {2, 0, 1}, {3, 0, 1}, {4, 0, 1}}},
		{"four", 4, 50, []uint16{10, 3, 4}, 9, []pull{{0, 0, 4}, {4, 1, 3}, {7, 2, 4}, {11, 0, 4}, {15, 0, 2}, {19, 0, 4}, {23, 0, 4}, {27, 0, 1}}},
		{"little is wanted", 8, 50, []uint16{1}, 2, []pull{{0, 0, 1}, {8, 0, 2}}},
		{"small window", 8, 6, []uint16{6}, 1, []pull{{0, 0, 6}, {6, 0, 1}}},
		{"smallest window", 8, 2, []uint16{1}, 2, []pull{{0, 0, 1}, {1, 0, 2}}},
		{"most of a small window", 8, 10, []uint16{1}, 10, []pull{{0, 0, 1}, {5, 0, 8}, {13, 0, 2}}},
	} {
		k := config(nil)
		k.Credit = c.credit
		p := New[int](k)
		all := make([]*Sender[int], len(c.want))
		for i, n := range c.want {
			all[i] = new(Sender[int])
			p.JoinSender(all[i], i, 0, c.maxDemand)
			p.RaiseTarget(all[i], n)
		}
		var got []pull
		asked := false
		for {
			if p.NextPull() == units.Never {
				if asked {
					break
				}
				asked = true
				p.RaiseTarget(all[0], all[0].PullNumber()+c.more)
			}
			at := p.NextPull()
			if at > 0 && p.Next(at-1) != nil {
				t.Fatalf("%s: a PULL left early", c.name)
			}
			before := make([]uint16, len(all))
			for i, s := range all {
				before[i] = s.PullNumber()
			}
			s := p.Next(at)
			if s.PullNumber()-before[s.Owner] != uint16(s.LastGrant()) || at%every != 0 {
				t.Fatalf("%s: at %v the number is %d after %d, and %d are given", c.name, at, s.PullNumber(), before[s.Owner], s.LastGrant())
			}
			got = append(got, pull{int(at / every), s.Owner, s.LastGrant()})
		}
		if diff := cmp.Diff(c.pulls, got, cmp.AllowUnexported(pull{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestWeightedCredit: weights apply to the credit given, and not to PULLs.
func TestWeightedCredit(t *testing.T) {
	k := config(&Weighted{0: 1, 1: 3})
	k.Credit = 8
	p := New[int](k)
	var all [3]Sender[int]
	given := map[int]int{}
	now := units.Time(0)
	for i := range all {
		p.JoinSender(&all[i], i, uint8(i/2), 100) // two of class 0, one of class 1
	}
	for range 1500 {
		for i, want := range []uint16{2, 50, 50} { // the first never wants a full PULL
			p.RaiseTarget(&all[i], all[i].PullNumber()+want)
		}
		now = p.NextPull()
		s := p.Next(now)
		given[s.Owner] += s.LastGrant()
	}
	for i, weight := range []int{1, 1, 3} {
		if want := (given[0] + given[1] + given[2]) * weight / 5; given[i] < want-20 || given[i] > want+20 {
			t.Errorf("%v is given, of weights 1, 1 and 3", given)
		}
	}
}

// TestLine: PULLs follow the rate of the link.
func TestLine(t *testing.T) {
	p, _ := list(nil, make([]uint8, 1), 100)
	slow := config(nil)
	slow.Line /= 10
	p.SetLineRate(slow)
	p.Next(0)
	if p.NextPull() != slow.PullInterval() || p.BusyTime() != 99*slow.PullInterval() {
		t.Errorf("the next PULL is due at %v, busy for %v", p.NextPull(), p.BusyTime())
	}
}

// TestHold: a held sender gets nothing, and keeps its demand.
func TestHold(t *testing.T) {
	p, all := list(nil, make([]uint8, 2), 3)
	p.HoldSender(all[0])
	p.RaiseTarget(all[0], 4)
	if p.BusyTime() != 3*p.PullInterval() || !all[0].IsHeld() {
		t.Errorf("busy for %v", p.BusyTime())
	}
	if diff := cmp.Diff([]int{1, 1, 1}, served(t, p, 100)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.ReleaseSender(all[0])
	if diff := cmp.Diff([]int{0, 0, 0, 0}, served(t, p, 100)); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
}

// TestModel does random things to a list and compares it with the simplest one.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := config(nil)
		k.Credit = rapid.IntRange(1, 10).Draw(t, "credit")
		p := New[int](k)
		all := make([]*Sender[int], 6)
		for i := range all {
			all[i] = new(Sender[int])
			p.JoinSender(all[i], i, 0, 30)
		}
		var fifo []int
		now := units.Time(0)
		pick := func(t *rapid.T) *Sender[int] { return all[rapid.IntRange(0, 5).Draw(t, "who")] }
		drop := func(who int) {
			for i, w := range fifo {
				if w == who {
					fifo = append(fifo[:i:i], fifo[i+1:]...)
					return
				}
			}
		}
		enter := func(s *Sender[int]) {
			for _, w := range fifo {
				if w == s.Owner {
					return
				}
			}
			if s.WantedMTUs() > 0 && !s.IsHeld() {
				fifo = append(fifo, s.Owner)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"want": func(t *rapid.T) {
				s := pick(t)
				p.RaiseTarget(s, s.PullNumber()+rapid.Uint16Range(0, 60).Draw(t, "more"))
				enter(s)
			},
			"pull": func(t *rapid.T) {
				now = max(now, p.next)
				var wanted [6]int
				for i, s := range all {
					wanted[i] = s.WantedMTUs()
				}
				s := p.Next(now)
				if s == nil {
					if len(fifo) > 0 {
						t.Fatalf("nobody is due of %v", fifo)
					}
					return
				}
				if s.Owner != fifo[0] {
					t.Fatalf("%d is served, want %d", s.Owner, fifo[0])
				}
				if maxGrant := min(k.Credit, wanted[s.Owner]); s.LastGrant() != maxGrant || s.WantedMTUs() != wanted[s.Owner]-maxGrant {
					t.Fatalf("%d wanted %d, is given %d and wants %d", s.Owner, wanted[s.Owner], s.LastGrant(), s.WantedMTUs())
				}
				fifo = fifo[1:]
				enter(s)
				if wait := p.next - now; wait < units.Time(s.LastGrant())*p.PullInterval() || wait > units.Time(k.Credit)*p.PullInterval() || len(fifo) > 0 && wait != units.Time(s.LastGrant())*p.PullInterval() {
					t.Fatalf("after %d MTUs the next PULL has to wait for %v", s.LastGrant(), wait)
				}
			},
			"hold":    func(t *rapid.T) { s := pick(t); p.HoldSender(s); drop(s.Owner) },
			"release": func(t *rapid.T) { s := pick(t); p.ReleaseSender(s); enter(s) },
			"leave":   func(t *rapid.T) { s := pick(t); p.RemoveSender(s); drop(s.Owner) },
			"join": func(t *rapid.T) {
				s := pick(t)
				drop(s.Owner)
				p.JoinSender(s, s.Owner, 0, 30)
			},
			"": func(t *rapid.T) {
				demand := 0
				for _, w := range fifo {
					demand += all[w].WantedMTUs()
				}
				if p.Len() != len(fifo) || p.BusyTime() != units.Time(demand)*p.PullInterval() {
					t.Fatalf("%d senders, busy for %v; want %d, %d MTUs", p.Len(), p.BusyTime(), len(fifo), demand)
				}
				for _, s := range all {
					if s.WantedMTUs() < 0 || s.WantedMTUs() > 30 {
						t.Fatalf("%d wants %d", s.Owner, s.WantedMTUs())
					}
				}
			},
		})
	})
}

// BenchmarkPull measures one PULL among 850 active senders.
func BenchmarkPull(b *testing.B) {
	for _, c := range []struct {
		name   string
		policy Policy
	}{{"FIFO", nil}, {"weighted", &Weighted{}}} {
		b.Run(c.name, func(b *testing.B) {
			p, _ := list(c.policy, make([]uint8, 850), 1)
			now := units.Time(0)
			b.ReportAllocs()
			for b.Loop() {
				now += p.PullInterval()
				s := p.Next(now)
				p.RaiseTarget(s, s.PullNumber()+1)
			}
		})
	}
}

// TestSpend: frames that were not asked for delay the next PULL by their time on the link, and
// an idle link saves nothing up.
func TestSpend(t *testing.T) {
	c := Config{Line: 10 * units.Gbps, MTU: 1514, Share: 1, Credit: 1}
	p := New[int](&c)
	var s Sender[int]
	p.JoinSender(&s, 1, 0, 100)
	p.RaiseTarget(&s, 50)
	now := units.Time(0)
	p.Next(now)
	due := p.NextPull()
	p.ChargeFrame(now, 60)
	p.ChargeFrame(now, 1514)
	if more := p.NextPull() - due; more != c.Line.TimeOf(84+1538) {
		t.Errorf("the next PULL is %v later", more)
	}
	now = units.Millisecond
	p.ChargeFrame(now, 60)
	if due := p.NextPull(); due != now+c.Line.TimeOf(84) {
		t.Errorf("after a rest the next PULL is due at %v", due)
	}
}
