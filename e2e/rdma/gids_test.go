package rdma

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// gidsOf returns the GIDs that a program in a host sees, by their index.
func gidsOf(l *testlab.Lab, host string) (text string) {
	for _, line := range strings.Split(l.Exec(host, "ibv_devinfo", "-v"), "\n") {
		var index int
		var gid string
		if n, _ := fmt.Sscanf(strings.ReplaceAll(strings.TrimSpace(line), "[ ", "["), "GID[ %d]: %s", &index, &gid); n == 2 {
			text += fmt.Sprintf("%d %s\n", index, strings.TrimSuffix(gid, ","))
		}
	}
	return text
}

// TestGIDs_FollowTheAddressesOfTheHost: an address that a host gets becomes a GID, one that it loses
// goes and leaves a gap, programs learn of both, and RDMA goes over addresses of one link that the
// lab file does not have.
func TestGIDs_FollowTheAddressesOfTheHost(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "ibv_devinfo", "ibv_asyncwatch", "ib_write_bw", "rping", "ip")
	watch := l.StartProgram("h1", "ibv_asyncwatch")
	watch.WaitFor(l, "the watch", func() bool { return strings.Contains(watch.Out.String(), "async event FD") })
	const first = "0 ::ffff:10.0.0.1\n1 fd00::1\n2 fe80::ff:fe00:1\n"
	if got := gidsOf(l, "h1"); got != first {
		t.Errorf("at first:\n%swant:\n%s", got, first)
	}
	become := func(host, want string) {
		t.Helper()
		l.WaitFor("the GIDs:\n"+want, func() bool { return gidsOf(l, host) == want })
	}
	l.Exec("h1", "ip", "addr", "add", "192.168.5.1/24", "dev", "eth0")
	l.Exec("h2", "ip", "addr", "add", "192.168.5.2/24", "dev", "eth0")
	become("h1", first+"3 ::ffff:192.168.5.1\n")
	become("h2", "0 ::ffff:10.0.0.2\n1 fd00::2\n2 fe80::ff:fe00:2\n3 ::ffff:192.168.5.2\n")
	l.WaitFor("the GID's file", func() bool { return l.NICFile("h1", "ports/1/gids/3") == "0000:0000:0000:0000:0000:ffff:c0a8:0501" })
	if got := l.NICFile("h1", "ports/1/gid_attrs/types/3") + " " + l.NICFile("h1", "ports/1/gid_attrs/ndevs/3"); got != "RoCE v2 eth0" {
		t.Errorf("the files have %q", got)
	}
	l.RunRDMA([]string{"ib_write_bw", "-x", "3", "-n", "50"}, []string{"ib_write_bw", "-x", "3", "-n", "50", "192.168.5.1"})
	l.RunRDMA([]string{"rping", "-s", "-a", "192.168.5.1", "-C", "3"}, []string{"rping", "-c", "-a", "192.168.5.1", "-C", "3"})
	l.RunRDMA([]string{"ib_write_bw", "-x", "2", "-n", "50"}, []string{"ib_write_bw", "-x", "2", "-n", "50", "10.0.0.1"})
	l.RunRDMA([]string{"rping", "-s", "-C", "3"}, []string{"rping", "-c", "-a", "fe80::ff:fe00:1%eth0", "-C", "3"})

	l.Exec("h1", "ip", "addr", "del", "fd00::1/64", "dev", "eth0")
	become("h1", "0 ::ffff:10.0.0.1\n2 fe80::ff:fe00:1\n3 ::ffff:192.168.5.1\n")
	l.WaitFor("the removal of the GID's file", func() bool {
		return l.NICFile("h1", "ports/1/gids/1") == "0000:0000:0000:0000:0000:0000:0000:0000"
	})
	l.WaitFor("the removal of its type", func() bool {
		_, code := l.TryRDMA("h1", "test", "-e", "/sys/class/infiniband/roce0/ports/1/gid_attrs/types/1")
		return code != 0
	})
	l.Exec("h1", "ip", "addr", "add", "fd77::1/64", "dev", "eth0")
	become("h1", "0 ::ffff:10.0.0.1\n1 fd77::1\n2 fe80::ff:fe00:1\n3 ::ffff:192.168.5.1\n")
	watch.WaitFor(l, "three events", func() bool {
		return strings.Count(watch.Out.String(), "IBV_EVENT_GID_CHANGE (18), port 1") == 3
	})
}
