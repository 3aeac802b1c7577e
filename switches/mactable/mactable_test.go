package mactable

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

func key(vlan uint16, mac wire.MAC) Key { return Key{VLAN: vlan, MAC: mac} }

// where returns the endpoint of an address, -1 if the table has none.
func where(t *Table, now units.Time, k Key) packet.Endpoint {
	if at, ok := t.Find(now, k); ok {
		return at
	}
	return -1
}

// TestTable_EntryAgesAfterItsLastFrame: an entry lives for Age from the last frame of its address,
// and not a picosecond longer. Looking it up does not keep it.
func TestTable_EntryAgesAfterItsLastFrame(t *testing.T) {
	x := New(Config{Age: 10 * units.Second, Size: 4})
	k := key(0, 0x020000000001)
	x.Learn(0, k, 7, false)
	x.Learn(6*units.Second, k, 7, false)
	for at, want := range map[units.Time]packet.Endpoint{6 * units.Second: 7, 16*units.Second - 1: 7, 16 * units.Second: -1} {
		if got := where(x, at, k); got != want {
			t.Errorf("at %v: endpoint %d, want %d", at, got, want)
		}
	}
	if got := x.Len(16*units.Second - 1); got != 1 {
		t.Errorf("%d entries before the end", got)
	}
	if got := x.Len(16 * units.Second); got != 0 {
		t.Errorf("%d entries after the end", got)
	}
	if want := (Counters{Learned: 1, Aged: 1}); x.Counters() != want {
		t.Errorf("%+v, want %+v", x.Counters(), want)
	}
}

// TestTable_SameAddressInTwoVLANsHasTwoPlaces, and moving in one leaves the other.
func TestTable_SameAddressInTwoVLANsHasTwoPlaces(t *testing.T) {
	x := New(Default())
	x.Learn(0, key(10, 5), 1, false)
	x.Learn(0, key(20, 5), 2, false)
	x.Learn(0, key(20, 5), 3, false)
	if a, b, c := where(x, 0, key(10, 5)), where(x, 0, key(20, 5)), where(x, 0, key(0, 5)); a != 1 || b != 3 || c != -1 {
		t.Errorf("endpoints %d, %d, %d", a, b, c)
	}
	if want := (Counters{Learned: 2, Moved: 1}); x.Counters() != want {
		t.Errorf("%+v, want %+v", x.Counters(), want)
	}
}

// TestTable_FullTableKeepsItsEntries: a full table learns no new address, but follows the ones that
// it has; when one has aged there is room again.
func TestTable_FullTableKeepsItsEntries(t *testing.T) {
	x := New(Config{Age: units.Second, Size: 2})
	x.Learn(0, key(0, 1), 1, false)
	x.Learn(1, key(0, 2), 2, false)
	x.Learn(2, key(0, 3), 3, false)
	x.Learn(3, key(0, 2), 4, false)
	if a, b, c := where(x, 3, key(0, 1)), where(x, 3, key(0, 2)), where(x, 3, key(0, 3)); a != 1 || b != 4 || c != -1 {
		t.Errorf("endpoints %d, %d, %d", a, b, c)
	}
	x.Learn(units.Second, key(0, 3), 3, false) // the first has just aged
	if a, b := where(x, units.Second, key(0, 1)), where(x, units.Second, key(0, 3)); a != -1 || b != 3 {
		t.Errorf("endpoints %d, %d after aging", a, b)
	}
	if want := (Counters{Learned: 3, Moved: 1, Full: 1, Aged: 1}); x.Counters() != want {
		t.Errorf("%+v, want %+v", x.Counters(), want)
	}
}

// TestTable_CountsAddressesAwayFromTheFile: Moved is the number of entries for addresses that the
// lab file has elsewhere, however they end.
func TestTable_CountsAddressesAwayFromTheFile(t *testing.T) {
	x := New(Config{Age: units.Second, Size: 10})
	x.Learn(0, key(0, 1), 1, true)
	x.Learn(0, key(0, 2), 1, true)
	x.Learn(0, key(0, 3), 2, true)
	x.Learn(0, key(0, 4), 2, false)
	x.Learn(1, key(0, 3), 3, true)
	if x.Moved() != 3 {
		t.Fatalf("%d moved, want 3", x.Moved())
	}
	x.Return(key(0, 1))
	x.Return(key(0, 1)) // it is back already
	x.Return(key(7, 2)) // in another VLAN it has not moved
	if x.Moved() != 2 || where(x, 1, key(0, 1)) != -1 {
		t.Errorf("%d moved after one has returned", x.Moved())
	}
	x.FlushEntries(func(e packet.Endpoint) bool { return e == 1 })
	if x.Moved() != 1 {
		t.Errorf("%d moved after a flush", x.Moved())
	}
	if x.Len(2*units.Second) != 0 || x.Moved() != 0 {
		t.Errorf("%d moved after all have aged", x.Moved())
	}
	if want := (Counters{Learned: 4, Moved: 5, Flushed: 1, Aged: 2}); x.Counters() != want {
		t.Errorf("%+v, want %+v", x.Counters(), want)
	}
}

// TestTable_EntriesAreTheNewestFirst, without those that are too old.
func TestTable_EntriesAreTheNewestFirst(t *testing.T) {
	x := New(Config{Age: 10, Size: 10})
	x.Learn(0, key(0, 1), 1, false)
	x.Learn(3, key(5, 2), 2, true)
	x.Learn(5, key(0, 3), 3, false)
	x.Learn(9, key(5, 2), 2, true)
	want := []Entry{{key(5, 2), 2, 9, true}, {key(0, 3), 3, 5, false}}
	if diff := cmp.Diff(want, x.Entries(10)); diff != "" {
		t.Error(diff)
	}
}

// TestTable_LikeAList: the table finds what a list of all frames gives, whatever happens, and
// reuses its memory.
func TestTable_LikeAList(t *testing.T) {
	type seen struct {
		at    packet.Endpoint
		since units.Time
		moved bool
	}
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Age: units.Time(rapid.IntRange(1, 30).Draw(t, "age")), Size: rapid.IntRange(1, 6).Draw(t, "size")}
		x, model := New(c), map[Key]seen{}
		now := units.Time(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += units.Time(rapid.IntRange(0, 6).Draw(t, "time"))
			for k, s := range model {
				if now-s.since >= c.Age {
					delete(model, k)
				}
			}
			k := key(uint16(rapid.IntRange(0, 1).Draw(t, "vlan")), wire.MAC(rapid.IntRange(1, 6).Draw(t, "mac")))
			at := packet.Endpoint(rapid.IntRange(0, 3).Draw(t, "at"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				x.Return(k)
				delete(model, k)
			case 1:
				x.FlushEntries(func(e packet.Endpoint) bool { return e == at })
				for k, s := range model {
					if s.at == at {
						delete(model, k)
					}
				}
			default:
				moved := rapid.Bool().Draw(t, "moved")
				x.Learn(now, k, at, moved)
				if _, known := model[k]; known || len(model) < c.Size {
					model[k] = seen{at, now, moved}
				}
			}
			away := 0
			for vlan := range uint16(2) {
				for mac := range wire.MAC(8) {
					s, known := model[key(vlan, mac)]
					if at, ok := x.Find(now, key(vlan, mac)); ok != known || at != s.at {
						t.Fatalf("at %v: %x in VLAN %d is at %d, %v; want %d, %v", now, mac, vlan, at, ok, s.at, known)
					}
					if s.moved {
						away++
					}
				}
			}
			if n := x.Len(now); n != len(model) || len(x.Entries(now)) != n || x.Moved() != away {
				t.Fatalf("%d entries, %d moved; want %d, %d", n, x.Moved(), len(model), away)
			}
		}
	})
}

// TestTable_RefreshAllocatesNothing: a frame of a known address costs no memory, nor one that takes
// the place of an old one.
func TestTable_RefreshAllocatesNothing(t *testing.T) {
	x := New(Config{Age: units.Second, Size: 100})
	now := units.Time(0)
	learn := func() {
		for mac := range wire.MAC(100) {
			x.Learn(now, key(0, mac), 1, false)
			x.Find(now, key(0, mac))
		}
		now += units.Second // all age
	}
	learn()
	if n := testing.AllocsPerRun(10, learn); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
