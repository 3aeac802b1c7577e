package rdma

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
)

// twoWriters is a lab in which h2 and h3 write to h1. All links are alike.
const twoWriters = `
topology:
  kinds: {host: {nic: roce}, switch: {queue: {limit: 250KB}}, link: {rate: 500Mbps, delay: 20us}}
  nodes: {h1: {kind: host, address: 10.0.0.1/24}, h2: {kind: host, address: 10.0.0.2/24}, h3: {kind: host, address: 10.0.0.3/24}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
`

// TestClocks_TwoWritersShareAPort: two ib_write_bw into one port without PFC both finish. Clocks are
// real in wall-clock time. With exact ones the packet that one of them sends again after each
// timeout is lost eight times, as the other keeps the queue full, and it ends with status 12. 12
// messages are a window of 13 ms, shorter than the timeout of 17 ms (-u 12).
func TestClocks_TwoWritersShareAPort(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, twoWriters, "ib_write_bw")
	argv := strings.Fields("ib_write_bw -x 0 -u 12 -t 12 -n 500")
	var clients []*testlab.Program
	for i, host := range []string{"h2", "h3"} {
		argv := plus(argv, "-p", fmt.Sprint(18515+i))
		l.StartServing("h1", argv...)
		clients = append(clients, l.StartProgram(host, plus(argv, "10.0.0.1")...))
	}
	for _, c := range clients {
		if err := c.WaitEnd(t); err != nil {
			t.Errorf("%v: %v\n%s", c.Args, err, &c.Out)
		}
	}
}

// TestClocks_ReachPrograms: what a real program sends in a second of the lab follows the clock of its
// host, and weft ps shows the clocks. The lab is dilated, so that the machine is not the limit.
func TestClocks_ReachPrograms(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, "dilation: 40\nclock: {ppm: 1000, jitter: 100ns}\n"+testlab.TwoNICs, "ib_write_bw")
	sent := func() (bits, seconds float64) {
		s := sample(l)
		p := portOf(t, s, "h2:eth0")
		return 8 * (float64(p.TxBytes) + 24*float64(p.TxPackets)), s.Emulated.Seconds()
	}
	s, err := l.Client().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Clocks) != 3 || s.Clocks[0] != (report.NodeClock{Node: "h1", PPM: 1000, Jitter: "100ns"}) {
		t.Errorf("clocks %+v", s.Clocks)
	}
	argv := strings.Fields("ib_write_bw -x 0 -D 3600 -t 1000")
	l.StartServing("h1", argv...)
	c := l.StartProgram("h2", plus(argv, "10.0.0.1")...)
	var before, after, from, to float64
	c.WaitFor(l, "it sends", func() bool { before, from = sent(); return before > 50e6 })
	c.WaitFor(l, "it has sent more", func() bool { after, to = sent(); return after > before+1e9 })
	if rate := (after - before) / (to - from) / 1e9; rate < 5.004 || rate > 5.006 {
		t.Errorf("%.4f Gb/s on the wire of a link of 5 Gb/s and a clock that is 1000 ppm fast", rate)
	}
}
