package doctor

import (
	"slices"
	"strings"
)

// tools are programs often used with labs.
var tools = []string{"ip", "ping", "iperf3", "tcpdump", "tshark", "wireshark"}

func (m *machine) checkTools() []Check {
	var there, missing []string
	for _, t := range tools {
		if _, err := m.lookPath(t); err == nil {
			there = append(there, t)
		} else {
			missing = append(missing, t)
		}
	}
	absent := Check{Group: groupTools, Name: "not present", Verdict: OK, Found: joinNames(missing)}
	if slices.Contains(missing, "tcpdump") {
		absent.Means = "weft capture --filter has tcpdump compile the filter"
	}
	return []Check{{Group: groupTools, Name: "present", Verdict: OK, Found: joinNames(there)}, absent, m.checkGuests()}
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
