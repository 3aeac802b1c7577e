package resolve

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
)

// hostNames checks the names that programs look up: those of hosts and of routers, which
// stand in every host's /etc/hosts.
type hostNames struct {
	*base
	file *labfile.Topology
}

// check refuses names that a resolver would take for something else. It runs after the
// routers are known. Names that a generator makes are always good, so of two names that
// clash the file has at least one.
func (v *hostNames) check() {
	places := map[string]any{}
	for i := range v.file.Nodes {
		n := &v.file.Nodes[i].Name
		places[*n] = n
	}
	first := map[string]string{} // the first name of those that are equal but for case
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if n.Kind == plan.Switch && n.Router == nil {
			continue
		}
		what := n.Kind.String()
		if n.Router != nil {
			what = "router"
		}
		place := places[n.Name]
		if why := misleads(n.Name); why != "" && place != nil {
			v.ReportFault(place, fmt.Sprintf("choose another name, such as %q", plainName(n.Name)),
				"a %s cannot be called %q: %s", what, n.Name, why)
		}
		lower := strings.ToLower(n.Name)
		other, clash := first[lower]
		if !clash {
			first[lower] = n.Name
			continue
		}
		if place == nil {
			place = places[other]
		}
		v.ReportFault(place, "choose names that differ in more than case",
			"%q and %q are the same name to programs, which look names up without regard to case (RFC 4343)", other, n.Name)
	}
}

// misleads returns why programs that look a name up find something else than the host, or
// "" if they find the host.
func misleads(name string) string {
	lower := strings.ToLower(name)
	switch {
	case lower == "localhost", strings.HasSuffix(lower, ".localhost"):
		return "it means the own host everywhere (RFC 6761)"
	case lower == "ip6-localhost", lower == "ip6-loopback":
		return "/etc/hosts has it for the own host"
	case isInetAddress(name):
		return "programs read it as an IPv4 address (inet_aton(3))"
	case strings.HasSuffix(name, "."):
		return "a dot at the end says only that the name is complete"
	}
	return ""
}

// plainName returns a name close to one that misleads.
func plainName(name string) string {
	plain := strings.ReplaceAll(strings.TrimRight(name, "."), ".", "-")
	if misleads(plain) != "" {
		plain = "h-" + plain
	}
	return plain
}

// isInetAddress reports whether inet_aton(3), which every resolver tries first, reads a
// name as an IPv4 address: one to four numbers, decimal, octal (0…) or hexadecimal (0x…), of
// which the last fills the remaining bytes.
func isInetAddress(name string) bool {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return false
	}
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if !isInetNumber(part, bits) {
			return false
		}
	}
	return true
}

// isInetNumber reports whether inet_aton reads s as a number of at most bits bits.
func isInetNumber(s string, bits int) bool {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		s, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	if strings.ContainsAny(s, "+-_") {
		return false
	}
	_, err := strconv.ParseUint(s, base, bits)
	return err == nil
}
