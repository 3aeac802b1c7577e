package qp

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// golden is testdata/transitions: the rule of each type and change of state.
type golden map[Type]map[[2]State]goldenRule

type goldenRule struct{ required, optional Mask }

var types = []Type{GSI, RC, UC, UD}

func readGolden(t *testing.T) golden {
	t.Helper()
	text, err := os.ReadFile("testdata/transitions")
	if err != nil {
		t.Fatal(err)
	}
	stateOf, typeOf, maskOf := map[string]State{}, map[string]Type{}, map[string]Mask{}
	for s := Reset; s <= Err; s++ {
		stateOf[s.String()] = s
	}
	g := golden{}
	for _, ty := range types {
		typeOf[ty.String()] = ty
		g[ty] = map[[2]State]goldenRule{}
	}
	for i, n := range maskNames {
		if n != "" {
			maskOf[n] = 1 << i
		}
	}
	var change [2]State
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		switch {
		case len(w) == 0 || w[0] == "#":
		case len(w) == 3 && w[1] == "->":
			change = [2]State{stateOf[w[0]], stateOf[w[2]]}
			for _, ty := range types {
				g[ty][change] = goldenRule{}
			}
		case w[1] == "never":
			delete(g[typeOf[w[0]]], change)
		default:
			r := g[typeOf[w[0]]][change]
			for _, n := range w[2:] {
				bit, ok := maskOf[n]
				if !ok {
					t.Fatalf("no attribute %s", n)
				}
				if w[1] == "required" {
					r.required |= bit
				} else {
					r.optional |= bit
				}
			}
			g[typeOf[w[0]]][change] = r
		}
	}
	return g
}

// The state table is that of the man page and the kernel, for each type and each
// pair of states.
func TestStateTable(t *testing.T) {
	g := readGolden(t)
	for _, ty := range types {
		for from := Reset; from <= Err+1; from++ {
			for to := Reset; to <= Err+1; to++ {
				want, exists := g[ty][[2]State{from, to}]
				required, optional, allowed := Transition(ty, from, to)
				if allowed != exists || allowed && (required != want.required || optional != want.optional) {
					t.Errorf("%v %v to %v: %v, required %v, optional %v; want %v, %v, %v",
						ty, from, to, allowed, required, optional, exists, want.required, want.optional)
				}
			}
		}
	}
	if _, _, ok := Transition(0, Reset, Reset); ok {
		t.Error("a type that does not exist has transitions")
	}
}

// Modify takes exactly the masks of the table, names what is wrong, and
// otherwise changes nothing.
func TestModifyHoldsToTheTable(t *testing.T) {
	g := readGolden(t)
	for _, ty := range types {
		for from := Reset; from <= Err; from++ {
			if ty == RC && from == SQE {
				continue
			}
			for to := Reset; to <= Err; to++ {
				want, exists := g[ty][[2]State{from, to}]
				fresh := func() (*QP, Attr) {
					q := newQP(t, ty, nil)
					a := goodAttr(ty)
					q.attr = a
					q.attr.State = from
					a.State, a.CurState = to, from
					return q, a
				}
				refused := func(m Mask, names string) {
					t.Helper()
					q, a := fresh()
					before := q.attr
					err := q.Modify(a, m)
					if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) || !strings.Contains(err.Error(), names) {
						t.Errorf("%v %v to %v with %v: %v", ty, from, to, m, err)
					}
					if q.attr != before {
						t.Errorf("%v %v to %v: an error changed attributes", ty, from, to)
					}
				}
				if !exists {
					refused(MaskState, "cannot go")
					continue
				}
				full := (want.required | want.optional | MaskState) &^ MaskAltPath
				for _, m := range []Mask{want.required | MaskState, full} {
					q, a := fresh()
					if err := q.Modify(a, m); err != nil {
						t.Errorf("%v %v to %v: %v", ty, from, to, err)
					}
					if q.State() != to {
						t.Errorf("%v %v to %v: is in %v", ty, from, to, q.State())
					}
				}
				for bit := MaskCurState; bit <= MaskRateLimit; bit <<= 1 {
					switch {
					case want.required&bit != 0:
						refused(full&^bit, "lacks "+bit.String())
					case want.optional&bit == 0:
						refused(full|bit, "cannot have "+bit.String())
					case bit == MaskAltPath:
						refused(full|bit, "alternate paths")
					}
				}
				if from != to {
					continue
				}
				q, a := fresh()
				if err := q.Modify(a, full&^MaskState); err != nil {
					t.Errorf("%v in %v without IBV_QP_STATE: %v", ty, from, err)
				}
			}
		}
	}
}
