package qp

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// golden is testdata/transitions: the rule of each type and change of state.
type golden map[Type]map[[2]State]goldenRule

type goldenRule struct{ required, optional Mask }

var types = []Type{GSI, RC, UC, UD, XRCSend, XRCRecv}

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

// The state table matches the man page and the kernel, for each type and each pair of states.
func TestStateTable(t *testing.T) {
	g := readGolden(t)
	for _, ty := range types {
		for from := Reset; from <= Err+1; from++ {
			for to := Reset; to <= Err+1; to++ {
				want, exists := g[ty][[2]State{from, to}]
				required, optional, allowed := TransitionOf(ty, from, to)
				if allowed != exists || allowed && (required != want.required || optional != want.optional) {
					t.Errorf("%v %v to %v: %v, required %v, optional %v; want %v, %v, %v",
						ty, from, to, allowed, required, optional, exists, want.required, want.optional)
				}
			}
		}
	}
	if _, _, ok := TransitionOf(0, Reset, Reset); ok {
		t.Error("a type that does not exist has transitions")
	}
}

// Modify takes exactly the masks of the table, names errors, and otherwise changes nothing.
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

// However a queue pair is used, the values of a query are within the ranges of the device, an error
// changes nothing, and values that were set are there.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ty := rapid.SampledFrom(types).Draw(r, "type")
		q := newQP(t, ty, nil)
		t8 := func(name string, maxValue uint8) uint8 { return rapid.Uint8Range(0, maxValue+1).Draw(r, name) }
		r.Repeat(map[string]func(*rapid.T){
			"modify": func(r *rapid.T) {
				to := State(rapid.IntRange(0, 7).Draw(r, "to"))
				if next := map[State]State{Reset: Init, Init: RTR, RTR: RTS, RTS: SQD, SQD: RTS, SQE: RTS, Err: Reset}; rapid.Bool().Draw(r, "next") {
					to = next[q.State()]
				}
				required, optional, _ := TransitionOf(ty, q.State(), to)
				m := required | MaskState | optional&Mask(rapid.Uint32().Draw(r, "optional"))&^MaskAltPath
				if rapid.IntRange(0, 4).Draw(r, "odd") == 0 {
					m ^= 1 << rapid.IntRange(0, 25).Draw(r, "bit")
				}
				a := goodAttr(ty)
				a.State, a.CurState = to, q.State()
				if rapid.Bool().Draw(r, "vary") {
					a.Timeout, a.RetryCnt, a.RNRRetry, a.MinRNRTimer = t8("timeout", 31), t8("retry", 7), t8("rnr", 7), t8("timer", 31)
					a.MaxRdAtomic, a.MaxDestRdAtomic, a.Port = t8("rd", 16), t8("dest", 16), t8("port", 1)
				}
				before, _ := q.Query()
				err := q.Modify(a, m)
				after, _ := q.Query()
				switch {
				case err != nil && after != before:
					r.Fatalf("an error changed attributes: %v", err)
				case err == nil && m&MaskState != 0 && after.State != to:
					r.Fatalf("is in %v, not %v", after.State, to)
				case err == nil && to != Reset && m&MaskTimeout != 0 && after.Timeout != a.Timeout:
					r.Fatal("was not set")
				}
			},
			"send failed": func(*rapid.T) { q.SendFailed() },
			"drained":     func(*rapid.T) { q.OnDrained() },
			"": func(r *rapid.T) {
				a, _ := q.Query()
				if a.Timeout > 31 || a.RetryCnt > 7 || a.RNRRetry > 7 || a.MinRNRTimer > 31 || a.MaxRdAtomic > 16 || a.MaxDestRdAtomic > 16 || a.Port > 1 {
					r.Fatalf("out of range: %+v", a)
				}
				if ty == RC && a.State == SQE || a.SQDraining && a.State != SQD {
					r.Fatalf("%v in %v, draining %v", ty, a.State, a.SQDraining)
				}
			},
		})
	})
}
