package packet

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestPool takes, clones and frees packets at random. Every live packet is stamped
// with a unique number, in its fields and over its whole frame; if the pool handed
// out a live packet or its memory, a stamp would be gone.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pool Pool
		var live []*Packet
		var stamps []uint64 // of live
		var count uint64
		stamp := func(p *Packet, want Packet) {
			fields := *p
			fields.Frame, want.Frame = nil, nil
			if (p.RoCE != nil) != (p.Kind == NIC) {
				t.Fatalf("a packet of kind %d has %v", p.Kind, p.RoCE)
			}
			fields.RoCE, want.RoCE = nil, nil
			if diff := cmp.Diff(want, fields, cmpopts.IgnoreUnexported(Packet{})); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			count++
			p.ID = count
			for i := range p.Frame {
				p.Frame[i] = byte(p.ID)
			}
			if r := p.RoCE; r != nil {
				r.BTH.PSN = uint32(p.ID)
				r.Payload = append(r.Payload[:0], bytes.Repeat([]byte{byte(p.ID)}, int(p.ID%50))...)
			}
			live = append(live, p)
			stamps = append(stamps, p.ID)
		}
		free := func(i int) {
			p, id := live[i], stamps[i]
			if p.ID != id || bytes.Count(p.Frame, []byte{byte(id)}) != len(p.Frame) {
				t.Fatalf("packet %d was handed out again while live", id)
			}
			if r := p.RoCE; r != nil && (r.BTH.PSN != uint32(id) || bytes.Count(r.Payload, []byte{byte(id)}) != int(id%50)) {
				t.Fatalf("what packet %d carries was handed out again while live", id)
			}
			pool.Free(p)
			live, stamps = slices.Delete(live, i, i+1), slices.Delete(stamps, i, i+1)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 5).Draw(t, "op"); {
			case op == 0:
				p := pool.New()
				if p.Frame != nil {
					t.Fatal("a packet without bytes has some")
				}
				stamp(p, Packet{Kind: Real})
			case op == 1:
				n := rapid.SampledFrom([]int{0, 1, 60, 1514, smallFrame, smallFrame + 1, MaxFrame}).Draw(t, "length")
				p := pool.NewFrame(n)
				if len(p.Frame) != n || p.Frame == nil {
					t.Fatalf("a frame of %d bytes, want %d", len(p.Frame), n)
				}
				stamp(p, Packet{Kind: Real})
			case op == 2:
				p := pool.NewRoCE()
				if len(p.RoCE.Payload) != 0 || p.RoCE.Length != 0 {
					t.Fatalf("a new packet carries %+v", p.RoCE)
				}
				p.RoCE.Length = 9
				stamp(p, Packet{Kind: NIC})
			case len(live) == 0:
			case op == 3:
				p := live[rapid.IntRange(0, len(live)-1).Draw(t, "which")]
				c := pool.ClonePacket(p)
				if !bytes.Equal(c.Frame, p.Frame) {
					t.Fatal("a clone has other bytes")
				}
				if p.RoCE != nil && (c.RoCE == p.RoCE || c.RoCE.BTH != p.RoCE.BTH || !bytes.Equal(c.RoCE.Payload, p.RoCE.Payload)) {
					t.Fatalf("a clone of %+v carries %+v", p.RoCE, c.RoCE)
				}
				stamp(c, *p)
			default:
				free(rapid.IntRange(0, len(live)-1).Draw(t, "which"))
			}
			if pool.LivePackets() != len(live) {
				t.Fatalf("%d packets are live, the pool counts %d", len(live), pool.LivePackets())
			}
		}
		for len(live) > 0 {
			free(0)
		}
		if pool.LivePackets() != 0 {
			t.Fatalf("all are freed, the pool counts %d", pool.LivePackets())
		}
	})
}

// TestClone: a clone is in no list and has its own bytes, even when the frame has
// lost bytes at the front or all of them.
func TestClone(t *testing.T) {
	for name, change := range map[string]func(p *Packet){
		"whole":           func(*Packet) {},
		"without its tag": func(p *Packet) { p.Frame = p.Frame[4:] },
		"trimmed":         func(p *Packet) { p.Frame = p.Frame[:64] },
		"without bytes":   func(p *Packet) { p.Frame = nil },
	} {
		var pool Pool
		p := pool.NewFrame(1514)
		p.ID, p.Next, p.L3 = 7, pool.New(), wire.EthernetHeader
		change(p)
		c := pool.ClonePacket(p)
		if c.ID != 7 || c.Next != nil || c.L3 != p.L3 || !bytes.Equal(c.Frame, p.Frame) || (c.Frame == nil) != (p.Frame == nil) {
			t.Errorf("%s: the clone of %+v is %+v", name, p, c)
		}
		// After both are freed they are handed out again, with separate memory.
		pool.Free(p)
		pool.Free(c)
		a, b := pool.NewFrame(100), pool.NewFrame(100)
		a.Frame[0], b.Frame[0] = 1, 2
		if a == b || a.Frame[0] != 1 {
			t.Errorf("%s: a packet and its clone share bytes", name)
		}
	}
}

func TestFates(t *testing.T) {
	names := map[string]Fate{}
	for f := range Fate(FateCount) {
		if other, twice := names[f.String()]; twice || f.String() == "" {
			t.Errorf("fates %d and %d are both called %q", f, other, f)
		}
		names[f.String()] = f
		if (f.Description() == "") != (f == Fine) {
			t.Errorf("%v is explained as %q", f, f.Description())
		}
		if want := f >= QueueFull && f != Credit; f.IsDrop() != want {
			t.Errorf("%v dropped: %v", f, f.IsDrop())
		}
	}
}

func TestOnWire(t *testing.T) {
	for n, want := range map[int]int{1: 84, 59: 84, 60: 84, 61: 85, 1514: 1538} {
		if got := OnWire(units.Bytes(n)); got != units.Bytes(want) {
			t.Errorf("a frame of %d bytes takes %d on the wire, want %d", n, got, want)
		}
	}
	if p := (Packet{Size: 1514}); p.Layer3() != 1500 {
		t.Errorf("a modelled frame of 1514 bytes carries %d", p.Layer3())
	}
}

// TestForeignPackets: a packet freed by another pool returns to its own, with the
// super-packet that it is a piece of, and is not reused before.
func TestForeignPackets(t *testing.T) {
	pools := NewPools(2)
	home, away := pools[0], pools[1]
	s := home.NewSuper()
	piece := home.CutPiece(s, 0, 0, 100)
	home.ReleaseSuper(s)
	frame, bare, nic := home.NewFrame(60), home.New(), home.NewRoCE()
	for _, p := range []*Packet{piece, frame, bare, nic} {
		away.Free(p)
	}
	if home.LivePackets() != 4 || home.LiveSupers() != 1 || away.LivePackets() != 0 {
		t.Fatalf("%d live, %d supers; %d live away", home.LivePackets(), home.LiveSupers(), away.LivePackets())
	}
	if l := home.TakeForeign(away); !l.Empty() {
		t.Error("the home pool has foreign packets")
	}
	l := away.TakeForeign(home)
	for p := l.Pop(); p != nil; p = l.Pop() {
		home.Free(p)
	}
	if home.LivePackets() != 0 || home.LiveSupers() != 0 {
		t.Errorf("%d live, %d supers at the end", home.LivePackets(), home.LiveSupers())
	}
	if again := home.NewRoCE(); again != nic {
		t.Error("a NIC's packet is not used again")
	}
	if again := away.TakeForeign(home); !again.Empty() {
		t.Error("foreign packets are given twice")
	}
}

// TestCloneAway: the copy of a piece in another pool has its own bytes.
func TestCloneAway(t *testing.T) {
	pools := NewPools(2)
	pools[1].Render = func(p *Packet, buf []byte) []byte { return append(buf[:0], "rendered"...) }
	s := pools[0].NewSuper()
	p := pools[0].CutPiece(s, 0, 3, 8)
	p.ID = 7
	c := pools[1].ClonePacket(p)
	if c.ID != 7 || string(c.Frame) != "rendered" || c.Piece.Of != nil {
		t.Errorf("the clone is %+v", c)
	}
	pools[1].Free(c)
	if pools[1].LivePackets() != 0 {
		t.Errorf("%d live", pools[1].LivePackets())
	}
}

// TestDropFree: a pool releases its free packets of all kinds; packets in use stay valid.
func TestDropFree(t *testing.T) {
	pool := NewPools(1)[0]
	held := pool.NewRoCE()
	held.RoCE.Payload = append(held.RoCE.Payload, 1)
	freed := []*Packet{pool.New(), pool.NewFrame(100), pool.NewFrame(tinyFrame + 1), pool.NewFrame(smallFrame + 1), pool.NewRoCE()}
	for _, p := range freed {
		pool.Free(p)
	}
	pool.ReleaseSuper(pool.NewSuper())
	pool.DropFree()
	for i, p := range freed {
		if p.Next != nil || p.Frame != nil || p.RoCE != nil {
			t.Errorf("packet %d still carries something: %+v", i, p)
		}
	}
	if pool.supers != nil || pool.ScarceKinds() != 0 || pool.LivePackets() != 1 || held.RoCE.Payload[0] != 1 {
		t.Errorf("%d live, short of %b, the one that was lent is %+v", pool.LivePackets(), pool.ScarceKinds(), held)
	}
	pool.Free(held)
	if again := pool.NewRoCE(); again != held || pool.LivePackets() != 1 {
		t.Error("a packet that comes back later is not used again")
	}
	if p := pool.NewRoCE(); p == freed[4] || p.RoCE == nil {
		t.Error("a packet that was given up came back")
	}
}
