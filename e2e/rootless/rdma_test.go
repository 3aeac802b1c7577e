package rootless

import (
	"os"
	"strconv"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestRDMA_RunsInTheLabOfAUser: the same for a user's own lab.
func TestRDMA_RunsInTheLabOfAUser(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, testlab.TwoNICs, "rping", "ibv_rc_pingpong", "gcc")
	testlab.NeedVerbs(t)
	l.Must("up", "-d", l.File)
	l.RunRDMA([]string{"rping", "-s", "-C", "10"}, []string{"rping", "-c", "-a", "10.0.0.1", "-C", "10"})
	l.RunRDMA([]string{"ibv_rc_pingpong", "-g", "0"}, []string{"ibv_rc_pingpong", "-g", "0", "10.0.0.1"})
	if info, err := os.Stat("/dev/fuse"); err == nil && info.Mode().Perm()&6 == 6 {
		if n, err := strconv.Atoi(l.NICFile("h1", "ports/1/counters/port_rcv_packets")); err != nil || n == 0 {
			t.Errorf("port_rcv_packets is %d, %v", n, err)
		}
	}
}
