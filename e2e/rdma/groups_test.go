package rdma

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestMulticast_ReachesAllMembers: mckey runs three times in the sender's host and once in
// another, and each gets all datagrams.
func TestMulticast_ReachesAllMembers(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "mckey", "stdbuf")
	mckey := func(port, address string, more ...string) []string {
		return append([]string{"stdbuf", "-oL", "mckey", "-m", "239.1.2.3", "-p", port, "-C", "20", "-b", address}, more...)
	}
	for _, port := range []string{"0x111", "0x2"} { // RDMA_PS_UDP, RDMA_PS_IPOIB
		var members []*testlab.Program
		for _, host := range []string{"h1", "h1", "h2"} {
			m := l.StartProgram(host, mckey(port, testlab.AddressOf(host))...)
			members = append(members, m)
		}
		for _, m := range members { // with its receives posted
			m.WaitFor(l, "it has joined the group", func() bool { return strings.Contains(m.Out.String(), "joined dgid") })
		}
		if said, code := l.TryRDMA("h1", mckey(port, "10.0.0.1", "-s")...); code != 0 || !strings.Contains(said, "data transfers complete") {
			t.Errorf("mckey -s: exit code %d\n%s", code, said)
		}
		for _, m := range members {
			if err := m.WaitEnd(t); err != nil || !strings.Contains(m.Out.String(), "data transfers complete") {
				t.Errorf("port space %s: %v\n%s", port, err, &m.Out)
			}
		}
	}
}
