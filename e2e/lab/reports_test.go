package lab

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/internal/await"
)

// TestStart_HostsDoNotFloodEachOther: the reports about multicast groups that the kernels of many
// hosts send at the start end at the switch, which makes no copies of them.
func TestStart_HostsDoNotFloodEachOther(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, "topology: {generate: {star: {hosts: 30, rate: 1Gbps}}}\n")
	if strings.TrimSpace(l.Exec("h1", "cat", "/proc/sys/net/ipv6/conf/eth0/disable_ipv6")) != "0" {
		t.Skip("SKIPPED: this machine has no IPv6")
	}
	await.True(t, "each host has sent reports", func() bool {
		for name, p := range l.Ports() {
			if strings.HasPrefix(name, "h") && p.TxPackets == 0 {
				return false
			}
		}
		return true
	})
	if a := l.Down().Accounts; a.Replicated != 0 || a.Delivered != 0 || a.Consumed+a.Held != a.Entered || a.Entered < 30 {
		t.Errorf("%+v", a)
	}
}
