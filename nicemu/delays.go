package nicemu

import (
	"fmt"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// Delays are the delays between a program and the wire other than those of the NIC's queues: PCIe
// and the processor behind it. Each is 0 by default, and at most MaxDelay.
//
// They add to latency but do not reduce throughput. Work requests posted while others are under way
// have their data by their turn (transport.Delays), and entries follow each other as fast as the
// NIC makes them (cq.Latency). Receive requests, packets that the NIC generates (acknowledgements,
// CNPs, packets of connection managers) and retransmissions have no delay. Neither have requests
// flushed in ERR, except for Completion.
type Delays struct {
	// Doorbell is the time from a post to a send queue (ibv_post_send) until the NIC starts on it.
	// Requests posted as one list have one doorbell.
	Doorbell units.Time `json:"doorbell"`
	// DMA is the time from when the NIC requests data from host memory until it has it, and from
	// when it has data until they are in host memory. Messages with payload that is not inline wait
	// before their first packet; so do, at the responder, READs that are not empty, and atomics.
	// Entries about received data (of receives, READs and atomics) come that much later.
	DMA units.Time `json:"dma"`
	// Completion is the time from when the NIC makes an entry until it can be polled and its event
	// comes.
	Completion units.Time `json:"completion"`
}

// MaxDelay is the limit for each of Delays: no bus takes longer.
const MaxDelay = units.Second

// Check returns an error if a delay is out of range.
func (d Delays) Check() error {
	for _, x := range []struct {
		name string
		time units.Time
	}{{"doorbell", d.Doorbell}, {"dma", d.DMA}, {"completion", d.Completion}} {
		if x.time < 0 || x.time > MaxDelay {
			return fmt.Errorf("%s is %v: it can be 0 to %v", x.name, x.time, MaxDelay)
		}
	}
	return nil
}

// ConnectX3 is the preset connectx-3: a ConnectX-3 Pro as RoGUE's authors measured it (Le
// et al., "RoGUE: RDMA over Generic Unconverged Ethernet", SoCC 2018), in whole
// microseconds.
//
// The authors give DMA: about 1 us at either end makes a READ 2 us longer than an empty WRITE
// (§5.4, table 1). Completion is what remains of a READ of 64 B, which ends 4 us after its post
// (fig. 7): nothing beyond an empty WRITE's 2 us and two times DMA. Doorbell is part of those 2 us,
// but the paper does not say how much. Ours is half a DMA, since a posted write crosses the bus
// once; what remains for wires and switches is 1.5 us.
var ConnectX3 = Delays{Doorbell: 500 * units.Nanosecond, DMA: units.Microsecond}

// transportDelays returns the delays of send queues and responders.
func (d Delays) transportDelays() transport.Delays {
	return transport.Delays{Doorbell: d.Doorbell, Fetch: d.DMA}
}

// cqLatency returns the delays of completion queues.
func (d Delays) cqLatency() cq.Latency { return cq.Latency{Entry: d.Completion, Data: d.DMA} }

// ringDoorbell gives the engine the time before a post.
func (q *QP) ringDoorbell() {
	if q.device.settings.Delays != (Delays{}) {
		q.engine.SetTime(q.device.Now())
	}
}
