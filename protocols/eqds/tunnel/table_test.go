package tunnel

import (
	"net/netip"
	"testing"

	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }

// TestTable uses a table at random and compares it with the simplest one.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := testConfig(NDP)
		clock := pull.Config{Line: testLine, MTU: testMTU, Share: pull.DefaultShare, Credit: 1}
		pacer := pull.New[*Receiver[int]](&clock)
		used := map[Key]units.Time{}
		made := map[Key]*Receiver[int]{}
		limits := Limits{Tunnels: 5, Peer: 2, Idle: 3}
		x := NewTable(limits, func(k Key) *Receiver[int] {
			made[k] = NewReceiver(&c, pacer, k.Sender, 0, func(int) {})
			return made[k]
		}, func(k Key, r *Receiver[int]) {
			if made[k] != r || r.Open() {
				t.Fatalf("%v is taken out, which is not there or open", k)
			}
			delete(made, k)
		})
		now := units.Time(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += units.Time(rapid.Int64Range(0, 3).Draw(t, "time"))
			k := Key{address(rapid.IntRange(0, 3).Draw(t, "peer")), uint8(rapid.IntRange(0, 3).Draw(t, "sender"))}
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				x.RemoveTunnel(k)
				delete(used, k)
				continue
			}
			before := x.RefusedPackets()
			r := x.ReceiverFor(now, k)
			// The simple table: the least recently used that may go.
			want := true
			if _, there := used[k]; !there {
				own, minUsed, all := 0, now+1, len(used)
				for other := range used {
					if other.From == k.From {
						own++
					}
				}
				full := own >= limits.Peer || all >= limits.Tunnels
				for other, at := range used {
					if own < limits.Peer || other.From == k.From {
						minUsed = min(minUsed, at)
					}
				}
				want = !full || now-minUsed >= limits.Idle
			}
			if (r != nil) != want || (x.RefusedPackets() > before) == want || r != nil && made[k] != r {
				t.Fatalf("%v at %v: %v, want one: %v", k, now, r, want)
			}
			if r == nil {
				continue
			}
			h := eqds.Data{Flags: eqds.FlagSYN, Next: eqds.NextIPv4, Sender: k.Sender}
			r.ReceiveData(now, &h, 1, testMTU, false)
			used[k] = now
			for other := range used {
				if made[other] == nil {
					delete(used, other)
				}
			}
			if len(used) != x.Len() || len(made) != x.Len() || x.Len() > limits.Tunnels {
				t.Fatalf("%d tunnels, %d are known", x.Len(), len(used))
			}
		}
	})
}

// TestInventedSenders: a peer that asks for credit under all sender IDs gets no more places
// than others, and in the long run only a negligible part of the link.
func TestInventedSenders(t *testing.T) {
	c := testConfig(RTS)
	clock := pull.Config{Line: testLine, MTU: testMTU, Share: pull.DefaultShare, Credit: 1}
	pacer := pull.New[*Receiver[int]](&clock)
	liar, honest := address(1), address(2)
	x := NewTable(DefaultLimits(), func(k Key) *Receiver[int] {
		return NewReceiver(&c, pacer, k.Sender, 0, func(int) {})
	}, func(Key, *Receiver[int]) {})
	pulls := map[netip.Addr]int{}
	seq := eqds.Epoch(1).First()
	rounds, sent := 0, 0
	for now := units.Time(0); now < 100*units.Millisecond; now += pacer.PullInterval() {
		rounds++
		h := eqds.Data{Flags: eqds.FlagSYN | eqds.FlagRTS, Next: eqds.NextNothing, Seq: seq, Target: 10, Sender: uint8(rounds)}
		if r := x.ReceiverFor(now, Key{liar, h.Sender}); r != nil {
			r.ReceiveData(now, &h, 0, RequestLen, false)
		}
		r := x.ReceiverFor(now, Key{honest, 0})
		if sent <= pulls[honest] { // it has a packet's credit ahead
			d := eqds.Data{Next: eqds.NextIPv4, Seq: seq + uint16(sent), Target: r.entry.PullNumber() + 10}
			if sent == 0 {
				d.Flags = eqds.FlagSYN
			}
			before := r.entry.PullNumber()
			if a := r.ReceiveData(now, &d, sent, testMTU, false); !a.Kept {
				t.Fatalf("packet %d of the honest one is refused: %+v", sent, r.Receipts())
			}
			sent++
			pulls[honest] += int(r.entry.PullNumber() - before)
		}
		if s := pacer.Next(now); s != nil {
			who := liar
			if s.Owner == r {
				who = honest
			}
			pulls[who]++
			s.Owner.TakePull(now)
		}
	}
	if total := pulls[honest] + pulls[liar]; pulls[liar] > total/50 || pulls[honest] < rounds*95/100 {
		t.Errorf("of %d PULLs the liar has %d, the honest one %d of %d", total, pulls[liar], pulls[honest], rounds)
	}
	if x.Len() > 5 || x.RefusedPackets() == 0 {
		t.Errorf("%d tunnels, %d packets refused", x.Len(), x.RefusedPackets())
	}
}
