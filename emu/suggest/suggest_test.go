package suggest

import "testing"

// TestHint_NearOrContained: a name with few edits, or those that contain what was written; the list
// of all is cut if that saves anything.
func TestHint_NearOrContained(t *testing.T) {
	columns := []string{"fct_s", "ideal_s", "goodput_bps", "completion_p50_us", "completion_p99_us", "size_bytes"}
	var many []string
	for _, c := range "abcdefghijklmnopqrstu" {
		many = append(many, string(c)+"x")
	}
	const list = "it has fct_s, ideal_s, goodput_bps, completion_p50_us, completion_p99_us, size_bytes"
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"idael_s", columns, `did you mean "ideal_s"? (` + list + ")"},
		{"fct", columns, `did you mean "fct_s"? (` + list + ")"},
		{"goodput", columns, `did you mean "goodput_bps"? (` + list + ")"},
		{"Completion", columns, `did you mean one of completion_p50_us, completion_p99_us? (` + list + ")"},
		{"p99 completion", columns, `did you mean "completion_p99_us"? (` + list + ")"},
		{"latency", columns, list},
		{"", columns, list},
		{"-", columns, list},
		{"zzz", many[:20], "it has ax, bx, cx, dx, ex, fx, gx, hx, ix, jx, kx, lx, mx, nx, ox, px, qx, rx, sx, tx"},
		{"zzz", many, "it has ax, bx, cx, dx, ex, fx, gx, hx, ix, jx, kx, lx, mx, nx, ox, px and 5 more"},
		{"a", nil, "there are none"},
	} {
		if got := Hint(c.name, "it has", c.known); got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}
