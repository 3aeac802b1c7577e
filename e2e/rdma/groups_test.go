package rdma

import (
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestMulticastMembers: mckey runs three times in the sender's host and once in another,
// and each gets all datagrams.
func TestMulticastMembers(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "mckey")
	mckey := func(port string, more ...string) []string {
		return append([]string{"mckey", "-m", "239.1.2.3", "-p", port, "-C", "20"}, more...)
	}
	for _, port := range []string{"0x111", "0x2"} { // RDMA_PS_UDP, RDMA_PS_IPOIB
		var members []*testlab.Program
		for _, host := range []string{"h1", "h1", "h2"} {
			members = append(members, l.StartProgram(host, mckey(port, "-b", map[string]string{"h1": "10.0.0.1", "h2": "10.0.0.2"}[host])...))
		}
		// A member ends when it has 20 datagrams, so each may need several senders.
		deadline := time.Now().Add(time.Minute)
		for ended := 0; ended < len(members); {
			if time.Now().After(deadline) {
				for _, m := range members {
					_ = m.Process.Kill()
					<-m.Done
				}
				t.Fatalf("port space %s: %d of %d members have got what was sent: %s", port, ended, len(members), members[0].Out.String())
			}
			if said, code := l.TryRDMA("h1", mckey(port, "-b", "10.0.0.1", "-s")...); code != 0 || !strings.Contains(said, "data transfers complete") {
				t.Fatalf("mckey -s: exit code %d\n%s", code, said)
			}
			ended = 0
			for _, m := range members {
				if m.Exited() {
					ended++
				}
			}
		}
		for _, m := range members {
			if m.Err != nil || !strings.Contains(m.Out.String(), "data transfers complete") {
				t.Errorf("port space %s: %v\n%s", port, m.Err, m.Out.String())
			}
		}
	}
}
