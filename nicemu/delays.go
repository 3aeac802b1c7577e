package nicemu

import (
	"fmt"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// Delays are the delays between a program and the wire other than those of the NIC's
// queues: PCIe and the processor behind it. Each is 0 by default, and at most MaxDelay.
//
// They add to latency and take no throughput. Work requests that are posted while others
// are under way have their data by their turn (transport.Delays), and entries follow each
// other as fast as the NIC makes them (cq.Latency). Receive requests, packets that the
// NIC makes by itself (acknowledgements, CNPs, those of connection managers) and what is
// sent again have no delay, and neither has what is flushed in ERR, but for Completion.
type Delays struct {
	// Doorbell is from a post to a send queue (ibv_post_send) until the NIC begins with it.
	// What is posted as one list has one doorbell.
	Doorbell units.Time
	// DMA is from when the NIC asks for data of the host's memory until it has it, and
	// from when it has data until that is there. Messages with payload that is not inline
	// wait before their first packet; so do, at the responder, READs that are not empty,
	// and atomics. Entries about data that has come (of receives, READs and atomics) come
	// that much later.
	DMA units.Time
	// Completion is from when the NIC makes an entry until it can be polled and its event
	// comes.
	Completion units.Time
}

// MaxDelay is the longest of Delays: more is no bus.
const MaxDelay = units.Second

// Check tells which delay cannot be, if one cannot.
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
// DMA is what they say: about 1 us at either end makes a READ 2 us longer than an empty
// WRITE (§5.4, table 1). Completion is what a READ of 64 B leaves, which ends 4 us after its
// post (fig. 7): nothing beside an empty WRITE's 2 us and two times DMA. Doorbell is part
// of those 2 us, and of how much the paper does not tell. Ours is half a DMA, since a
// posted write goes one way; what remains for wires and switches is 1.5 us.
var ConnectX3 = Delays{Doorbell: 500 * units.Nanosecond, DMA: units.Microsecond}

// posts is what send queues and responders have of them.
func (d Delays) posts() transport.Delays {
	return transport.Delays{Doorbell: d.Doorbell, Fetch: d.DMA}
}

// latency is what completion queues have of them.
func (d Delays) latency() cq.Latency { return cq.Latency{Entry: d.Completion, Data: d.DMA} }

// doorbell tells the engine when something is about to be posted.
func (q *QP) doorbell() {
	if q.device.settings.Delays != (Delays{}) {
		q.engine.Clock(q.device.Now())
	}
}
