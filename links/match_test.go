package links

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		rule    string
		picks   []uint16
		not     []uint16
		share   int // of all 65536 identifications
		printed string
	}{
		{"", nil, []uint16{0, 0xffff}, 0, "none"},
		{"none", nil, []uint16{0, 0xffff}, 0, "none"},
		{"ip-id=0x*fff", []uint16{0x0fff, 0x1fff, 0xffff}, []uint16{0, 0x0ffe, 0xfff0, 0xff0f}, 16, "ip-id=0x*fff"},
		{"ip-id=0x0000", []uint16{0}, []uint16{1, 0x8000}, 1, "ip-id=0x0000"},
		{"ip-id=0x****", []uint16{0, 1, 0xffff}, nil, 65536, "ip-id=0x****"},
		{"ip-id=0x00ff,0x1*00", []uint16{0x00ff, 0x1000, 0x1f00}, []uint16{0x01ff, 0x1001, 0x2f00}, 17, "ip-id=0x00ff,0x1*00"},
		{`"ip-id=0XABCD, 0xabcd"`, []uint16{0xabcd}, []uint16{0xabcc}, 1, "ip-id=0xabcd,0xabcd"},
	} {
		m, err := ParseMatch(c.rule)
		if err != nil {
			t.Errorf("%q: %v", c.rule, err)
			continue
		}
		for _, id := range c.picks {
			if !m.MatchesIPID(id) {
				t.Errorf("%q does not pick %#04x", c.rule, id)
			}
		}
		for _, id := range c.not {
			if m.MatchesIPID(id) {
				t.Errorf("%q picks %#04x", c.rule, id)
			}
		}
		n := 0
		for id := range 1 << 16 {
			if m.MatchesIPID(uint16(id)) {
				n++
			}
		}
		if n != c.share || m.IsEmpty() != (n == 0) || m.String() != c.printed {
			t.Errorf("%q picks %d, want %d; it prints %q, want %q", c.rule, n, c.share, m, c.printed)
		}
	}
}

// TestMatchErrors: the error shows the offending text and what would be valid.
func TestMatchErrors(t *testing.T) {
	for rule, say := range map[string]string{
		"id=0x1234":            `"id=0x1234" is not a rule`,
		"0x1234":               `"0x1234" is not a rule`,
		"ip-id=":               `"" is not a pattern`,
		"ip-id=1234":           `"1234" is not a pattern`,
		"ip-id=0x123":          `"0x123" is not a pattern`,
		"ip-id=0x12345":        `"0x12345" is not a pattern`,
		"ip-id=0x12g4":         `"0x12g4" is not a pattern`,
		"ip-id=0x12é":          `"0x12é" is not a pattern`,
		"ip-id=0x1234,,0x5678": `"" is not a pattern`,
	} {
		m, err := ParseMatch(rule)
		if err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "ip-id=0x*fff") || !m.IsEmpty() {
			t.Errorf("%q: %v, error %v; want one that says %s and gives an example", rule, m, err, say)
		}
	}
}

// TestMatchPrintedParsesBack: any rule survives text and JSON.
func TestMatchPrintedParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Match
		for range rapid.IntRange(0, 4).Draw(t, "patterns") {
			var p pattern
			for range 4 {
				p.mask, p.value = p.mask<<4, p.value<<4
				if rapid.Bool().Draw(t, "any") {
					continue
				}
				p.mask |= 0xf
				p.value |= rapid.Uint16Range(0, 15).Draw(t, "digit")
			}
			m.patterns = append(m.patterns, p)
		}
		got, err := ParseMatch(m.String())
		if err != nil || !slices.Equal(got.patterns, m.patterns) {
			t.Fatalf("%v is read as %v, %v", m, got, err)
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil || !slices.Equal(got.patterns, m.patterns) {
			t.Fatalf("%s is read as %v, %v", text, got, err)
		}
	})
}

func TestDistributionText(t *testing.T) {
	for d, name := range distributionNames {
		text, err := json.Marshal(Distribution(d))
		if err != nil || string(text) != `"`+name+`"` {
			t.Errorf("%s is written %s, %v", name, text, err)
		}
		got := Distribution(99)
		if err := json.Unmarshal(text, &got); err != nil || got != Distribution(d) {
			t.Errorf("%s is read as %d, %v", text, got, err)
		}
	}
	var d Distribution
	if err := d.UnmarshalText([]byte("gauss")); err == nil || !strings.Contains(err.Error(), "uniform, normal, exponential, pareto") {
		t.Errorf("an unknown distribution: %v", err)
	}
}
