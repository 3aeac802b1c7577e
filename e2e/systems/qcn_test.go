package systems

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/qcn"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

const qcnLab = `
duration: 60ms
topology:
  kinds:
    host: {attach: none, nic: {cc: qcn}}
    switch: {queue: {limit: 500KB, mark: {qcn: {cp_min_header_octets: 20B}}}}
  generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us}}
workload:
  - {write: {from: [h1, h2, h3], to: h4, size: 10MB, count: unlimited}}
`

// TestQCN_KeepsTheQueueAtItsSetPoint closes the loop: the switch samples, its messages reach
// the flows that they concern, and the queue of a bottleneck stays near its set point with the
// link full and nothing lost. Captures show the messages.
func TestQCN_KeepsTheQueueAtItsSetPoint(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	f := fabric.New(fabrictest.Parse(t, qcnLab))
	s1, _ := f.Plan.Node("s1")
	h1, _ := f.Plan.Node("h1")
	var messages [][]byte
	for _, b := range captured(t, f, []fabric.Watched{{Node: h1, In: true}}, func() { runTo(t, f, 20*ms) }) {
		if binary.BigEndian.Uint16(b[2*wire.MACLen:]) == qcn.EtherTypeCNM && len(messages) < 20 {
			messages = append(messages, b)
		}
	}
	before := f.PortStatus(s1, 3)
	var sum units.Bytes
	const samples = 400
	for i := range samples {
		runTo(t, f, 20*ms+units.Time(i+1)*100*us)
		_, bytes := f.Port(s1, 3).QueueLength(f.Now())
		sum += bytes
	}
	after := f.PortStatus(s1, 3)
	used := float64(packet.OnWire(1082)) / 1082 * float64(after.TxBytes-before.TxBytes) * 8 / (40 * ms).Seconds() / 10e9
	mean := sum / samples
	t.Logf("%.3f of the link, a queue of %v on average, %d messages", used, mean, len(messages))
	if used < 0.97 || mean < 10*units.KB || mean > 50*units.KB || after.Dropped > 0 {
		t.Errorf("%.3f of the link, a queue of %v on average, %d dropped; the set point is 26KB", used, mean, after.Dropped)
	}
	handled := uint64(0)
	for _, n := range f.NICs() {
		handled += n.Counters.Of("rp_messages_handled")
		if n.Counters.Of("rp_messages_ignored") > 0 {
			t.Errorf("%s: %v", n.Name, n.Counters)
		}
	}
	if handled == 0 || len(after.Gauges) != 2 || after.Gauges[1].Value < float64(handled) {
		t.Errorf("%d messages were handled; gauges %+v", handled, after.Gauges)
	}
	if a := f.Accounts(); !a.Balanced() {
		t.Errorf("%+v", a)
	}
	for _, row := range oracle.Tshark(t, dissectorFile(t), messages, "eth.type", "_ws.col.Info") {
		if !strings.HasPrefix(row[0], fmt.Sprintf("0x%04x", qcn.EtherTypeCNM)) || !strings.HasPrefix(row[1], "Congestion notification, feedback ") {
			t.Errorf("%q", row)
		}
	}
}

// TestQCN_IsRefusedAtARouter: QCN messages do not cross routers, so QCN is refused at a
// router.
func TestQCN_IsRefusedAtARouter(t *testing.T) {
	text := strings.Replace(qcnLab, "topology:", "topology:\n  nodes: {s1: {address: auto}}", 1)
	if _, err := resolve.Parse("lab.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "messages of QCN do not cross routers, and s1 is one") {
		t.Errorf("%v", err)
	}
}
