package rdma

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// TestRateLimit_HoldsOnTheWire: the static rate that perftest gives its queue pairs for
// --rate_limit holds on the wire, by the lab's clock. perftest relies on a HW limit with
// InfiniBand only: with RoCE it also limits in software, to that rate of payload, and refuses
// --rate_limit_type=HW, whatever the NIC. The lab is dilated, and the client posts many requests
// ahead, so that neither the machine nor the software is the limit.
func TestRateLimit_HoldsOnTheWire(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, fmt.Sprintf("dilation: %d\n", 40)+testlab.TwoNICs, "ib_write_bw")
	// sent returns how many bits h2 has sent so far, with all that a frame takes on the wire.
	sent := func() (float64, units.Time) {
		s := sample(l)
		p := portOf(t, s, "h2:eth0")
		return 8 * (float64(p.TxBytes) + 24*float64(p.TxPackets)), s.Emulated
	}
	for _, argv := range []string{"ib_write_bw -x 0", "ib_write_bw -x 0 -c UC", "ib_send_bw -x 0 -r 1000"} {
		t.Run(argv, func(t *testing.T) {
			l := l.In(t)
			argv := append(strings.Fields(argv), "-D", "3600", "-t", "1000", "--rate_limit=2.5")
			s := l.StartServing("h1", argv...)
			c := l.StartProgram("h2", plus(argv, "10.0.0.1")...)
			idle, _ := sent()
			var before, after float64
			var from, to units.Time
			c.WaitFor(l, "it sends", func() bool { before, from = sent(); return before > idle+8e6 })
			c.WaitFor(l, "it has sent more", func() bool { after, to = sent(); return after > before+200e6 })
			rate := (after - before) / (to - from).Seconds() / 1e9
			if t.Logf("%.3f Gb/s on the wire", rate); rate > 2.5*1.01 || rate < 2.5*0.95 {
				t.Errorf("%.3f Gb/s on the wire, where the limit is 2.5", rate)
			}
			_, _ = s.KillAndRead(), c.KillAndRead()
		})
	}
}

// sample returns the state of the lab at one moment.
func sample(l *testlab.Lab) *report.Sample {
	l.T.Helper()
	s, err := l.Client().Sample(l.T.Context())
	if err != nil {
		l.T.Fatal(err)
	}
	return s
}

// portOf returns a port of a sample.
func portOf(t *testing.T, s *report.Sample, name string) status.Port {
	t.Helper()
	i := slices.IndexFunc(s.Ports, func(p status.Port) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no port %s", name)
	}
	return s.Ports[i]
}
