package queue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// element can be in two lists.
type element struct {
	number int
	links  [2]Link[element]
}

// TestListIsASlice: whatever is done to two lists of the same elements, each holds what a
// slice would.
func TestListIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lists [2]List[element]
		var want [2][]*element
		all := make([]element, 6)
		for i := range all {
			all[i].number = i
		}
		drawn := func(t *rapid.T) (int, *element) {
			return rapid.IntRange(0, 1).Draw(t, "list"), &all[rapid.IntRange(0, len(all)-1).Draw(t, "element")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				i, e := drawn(t)
				if e.links[i].IsLinked() {
					t.Skip("it is in the list")
				}
				lists[i].Push(&e.links[i], e)
				want[i] = append(want[i], e)
			},
			"remove": func(t *rapid.T) {
				i, e := drawn(t)
				lists[i].Remove(&e.links[i])
				want[i] = slices.DeleteFunc(want[i], func(x *element) bool { return x == e })
			},
			"rotate": func(t *rapid.T) {
				i, _ := drawn(t)
				lists[i].Rotate()
				if w := want[i]; len(w) > 0 {
					want[i] = append(slices.Clone(w[1:]), w[0])
				}
			},
			"remove while walking": func(t *rapid.T) {
				i, _ := drawn(t)
				odd := func(e *element) bool { return e.number%2 == 1 }
				for e := range lists[i].All() {
					if odd(e) {
						lists[i].Remove(&e.links[i])
					}
				}
				want[i] = slices.DeleteFunc(want[i], odd)
			},
			"": func(t *rapid.T) {
				for i := range lists {
					l := &lists[i]
					var got []*element
					for e := l.First(); e != nil; e = l.Next(&e.links[i]) {
						got = append(got, e)
					}
					if !slices.Equal(got, want[i]) || !slices.Equal(slices.Collect(l.All()), want[i]) || l.Len() != len(got) {
						t.Fatalf("list %d of %d: %v, want %v", i, l.Len(), got, want[i])
					}
					for j := range all {
						if e := &all[j]; e.links[i].IsLinked() != slices.Contains(got, e) {
							t.Fatalf("element %d in list %d: %v", j, i, e.links[i].IsLinked())
						}
					}
				}
			},
		})
	})
}

func BenchmarkList(b *testing.B) {
	var l List[element]
	all := make([]element, 100)
	for i := range all {
		l.Push(&all[i].links[0], &all[i])
	}
	b.Run("Rotate", func(b *testing.B) {
		for b.Loop() {
			l.Rotate()
		}
	})
	b.Run("Move", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e := l.First()
			l.Remove(&e.links[0])
			l.Push(&e.links[0], e)
		}
	})
}
