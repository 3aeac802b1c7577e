package links

import "testing"

// FuzzParseMatch: an accepted rule prints as one that picks the same packets, and
// nothing panics.
func FuzzParseMatch(f *testing.F) {
	for _, s := range []string{"", "none", "ip-id=0x*fff", "ip-id=0x00ff,0x1*00", "ip-id=0x****", "ip-id=0xGGGG", "ip-id=", `"ip-id=0xABCD"`, "id=0x1", "ip-id=0x1,0x2"} {
		f.Add(s, uint16(0x1fff))
	}
	f.Fuzz(func(t *testing.T, s string, id uint16) {
		m, err := ParseMatch(s)
		if err != nil {
			return
		}
		again, err := ParseMatch(m.String())
		if err != nil || again.MatchesIPID(id) != m.MatchesIPID(id) || again.IsEmpty() != m.IsEmpty() {
			t.Errorf("%q prints %q, which is read as %q, %v", s, m, again, err)
		}
	})
}
