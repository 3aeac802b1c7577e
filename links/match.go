package links

import (
	"fmt"
	"strings"
)

// Match is a rule that picks packets by their IPv4 identification, for
// scripted loss that is the same in every run: four hexadecimal digits, each of
// which may be the wildcard *. "ip-id=0x*fff" drops one packet in 4096 of a sender
// that counts its packets; several patterns are separated by commas. The zero Match
// picks nothing. IPv6 packets have no identification and are never picked.
type Match struct {
	patterns []pattern
}

type pattern struct{ mask, value uint16 }

// ParseMatch reads rules of the form "ip-id=0x*fff" or "ip-id=0x00ff,0x1*00". "none"
// and the empty string pick nothing.
func ParseMatch(s string) (Match, error) {
	const fix = `write for example "ip-id=0x*fff": four hexadecimal digits, * for any`
	s = strings.Trim(s, `"' `)
	if s == "" || s == "none" {
		return Match{}, nil
	}
	list, ok := strings.CutPrefix(s, "ip-id=")
	if !ok {
		return Match{}, fmt.Errorf("%q is not a rule: %s", s, fix)
	}
	var m Match
	for _, text := range strings.Split(list, ",") {
		digits, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "0x")
		if !ok || len(digits) != 4 {
			return Match{}, fmt.Errorf("%q is not a pattern of an IP ID: %s", text, fix)
		}
		var p pattern
		for _, c := range digits {
			p.mask, p.value = p.mask<<4, p.value<<4
			switch {
			case c == '*':
				continue
			case c >= '0' && c <= '9':
				p.value |= uint16(c - '0')
			case c >= 'a' && c <= 'f':
				p.value |= uint16(c-'a') + 10
			default:
				return Match{}, fmt.Errorf("%q is not a pattern of an IP ID: %s", text, fix)
			}
			p.mask |= 0xf
		}
		m.patterns = append(m.patterns, p)
	}
	return m, nil
}

// IsEmpty reports whether m picks nothing.
func (m Match) IsEmpty() bool { return len(m.patterns) == 0 }

// MatchesIPID reports whether m picks a packet with this identification.
func (m Match) MatchesIPID(id uint16) bool {
	for _, p := range m.patterns {
		if id&p.mask == p.value {
			return true
		}
	}
	return false
}

// String returns the rule in ParseMatch's syntax.
func (m Match) String() string {
	if m.IsEmpty() {
		return "none"
	}
	texts := make([]string, len(m.patterns))
	for i, p := range m.patterns {
		digits := make([]byte, 4)
		for j := range digits {
			shift := 12 - 4*j
			digits[j] = "0123456789abcdef"[p.value>>shift&0xf]
			if p.mask>>shift&0xf == 0 {
				digits[j] = '*'
			}
		}
		texts[i] = "0x" + string(digits)
	}
	return "ip-id=" + strings.Join(texts, ",")
}

// MarshalText returns the rule in ParseMatch's syntax.
func (m Match) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText calls ParseMatch.
func (m *Match) UnmarshalText(b []byte) (err error) { *m, err = ParseMatch(string(b)); return }
