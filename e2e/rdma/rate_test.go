package rdma

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestRDMARateLimit: the static rate that perftest gives its queue pairs for --rate_limit
// holds on the wire. perftest relies on a HW limit with InfiniBand only: with RoCE it also
// limits in software, to that rate of payload, and refuses --rate_limit_type=HW, whatever
// the NIC. The lab is dilated, so that the machine is not the limit; perftest divides by
// the processor's cycles, which are not slowed.
func TestRDMARateLimit(t *testing.T) {
	const dilation = 40
	l := testlab.StartRDMA(t, fmt.Sprintf("dilation: %d\n", dilation)+testlab.TwoNICs, "ib_write_bw")
	// A packet of 1024 B of payload has 1106 B on the wire. Without the limit it would be twice
	// as much: 5 Gb/s on the wire.
	const most = 2.5 * 1024 / 1106 / dilation * 1.05
	average := regexp.MustCompile(`(?m)^ *65536 +\d+ +[\d.]+ +([\d.]+)`)
	for _, argv := range []string{"ib_write_bw -x 0", "ib_write_bw -x 0 -c UC", "ib_send_bw -x 0"} {
		t.Run(argv, func(t *testing.T) {
			on := *l
			on.T = t
			run := append(strings.Fields(argv), "-n", "300", "--report_gbits", "--rate_limit=2.5")
			_, said := on.RunRDMA(run, append(run, "10.0.0.1"))
			m := average.FindStringSubmatch(said)
			if m == nil {
				t.Fatalf("perftest says\n%s", said)
			}
			got, _ := strconv.ParseFloat(m[1], 64)
			if got > most || got < most/4 {
				t.Errorf("%v Gb/s of payload, where %.3f are the limit\n%s", got, most, said)
			}
			t.Logf("%v Gb/s of payload", got)
		})
	}
}
