package queue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// contents returns the elements in order.
func contents(f *FIFO[int]) []int {
	var all []int
	for i := range f.Len() {
		all = append(all, *f.At(i))
	}
	return all
}

// TestFIFOIsASlice: whatever is done to a FIFO, it holds what a slice would.
func TestFIFOIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, want, number := FIFO[int]{}, []int(nil), 0
		some := func(t *rapid.T) {
			if len(want) == 0 {
				t.Skip("empty")
			}
		}
		next := func() int { number++; return number }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(t, "n") {
					f.Push(next())
					want = append(want, number)
				}
			},
			"extend": func(*rapid.T) {
				*f.PushReused() = next()
				want = append(want, number)
			},
			"push first": func(*rapid.T) {
				f.PushFirst(next())
				want = slices.Insert(want, 0, number)
			},
			"pop": func(t *rapid.T) {
				some(t)
				slot := f.First()
				if got := f.Pop(); got != want[0] || *slot != 0 {
					t.Fatalf("pop %d and leave %d, want %d and 0", got, *slot, want[0])
				}
				want = want[1:]
			},
			"drop first": func(t *rapid.T) {
				some(t)
				f.DropFirst()
				want = want[1:]
			},
			"drop last": func(t *rapid.T) {
				n := rapid.IntRange(0, len(want)).Draw(t, "n")
				f.DropLast(n)
				want = want[:len(want)-n]
			},
			"delete": func(t *rapid.T) {
				by := rapid.IntRange(1, 4).Draw(t, "divisor")
				before := len(want)
				want = slices.DeleteFunc(want, func(v int) bool { return v%by == 0 })
				if got := f.DeleteFunc(func(v *int) bool { return *v%by == 0 }); got != before-len(want) {
					t.Fatalf("%d deleted, want %d", got, before-len(want))
				}
			},
			"clear":  func(*rapid.T) { f.Clear(); want = nil },
			"shrink": func(*rapid.T) { f.ReleaseMemory() },
			"": func(t *rapid.T) {
				if got := contents(&f); f.Len() != len(want) || !slices.Equal(got, want) {
					t.Fatalf("%d elements %v, want %v", f.Len(), got, want)
				}
				if n := f.Cap(); n&(n-1) != 0 || n < f.Len() {
					t.Fatalf("a ring of %d", n)
				}
				if len(want) > 0 && (*f.First() != want[0] || *f.Last() != want[len(want)-1]) {
					t.Fatalf("from %d to %d, want %v", *f.First(), *f.Last(), want)
				}
			},
		})
	})
}

// TestExtendReusesMemory: an element that was dropped comes back with its memory.
func TestExtendReusesMemory(t *testing.T) {
	var f FIFO[[]byte]
	for range 2 * minRing {
		*f.PushReused() = make([]byte, 100)
	}
	if n := testing.AllocsPerRun(1000, func() {
		f.DropFirst()
		if b := f.PushReused(); cap(*b) != 100 {
			t.Fatalf("an element of %d bytes, want the former one of 100", cap(*b))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestShrinkReleases: a FIFO that has become empty holds no memory after ReleaseMemory.
func TestShrinkReleases(t *testing.T) {
	var f FIFO[int]
	for i := range 100 {
		f.Push(i)
	}
	f.DropLast(95)
	if f.ReleaseMemory(); f.Cap() != 8 {
		t.Errorf("a ring of %d for 5 elements, want 8", f.Cap())
	}
	f.Clear()
	if f.ReleaseMemory(); f.Cap() != 0 {
		t.Errorf("a ring of %d for none", f.Cap())
	}
}

func BenchmarkFIFO(b *testing.B) {
	var f FIFO[[2]uint64]
	for i := range 100 {
		f.Push([2]uint64{uint64(i)})
	}
	b.Run("Pop", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.Push(f.Pop())
		}
	})
	b.Run("DropFirst", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v := *f.First()
			f.DropFirst()
			f.Push(v)
		}
	})
}
