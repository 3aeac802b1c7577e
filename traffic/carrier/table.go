package carrier

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// RDMA says how RDMA carries a traffic's flows, over reliable connections.
type RDMA struct {
	// Verb is the operation of a flow's messages. With workload.Write and workload.Send
	// the last message has the flow's tag as immediate data. With workload.Read the host
	// that gets the data requests it: so the agent of Flow.To starts the flow, already
	// has its tag, and gets both Arrived and Completed; the agent of Flow.From is not
	// told, as with a real READ.
	Verb  workload.Verb
	MTU   qp.MTU      // of the path; 0 means the NIC's
	DSCP  uint8       // 0 to 63
	IPv6  bool        // over IPv6, otherwise IPv4
	Chunk units.Bytes // longest message: a longer flow is split; 0 means 2 GiB - 1, the maximum
	// PerPair makes all flows from one host to another share a connection, and so the state of
	// rate control and recovery, until the run ends; otherwise each flow begins anew. Not with
	// workload.Read, nor with workload.Write and a Chunk.
	PerPair bool
}

// maxMessage is the longest RDMA message that verbs can request.
const maxMessage units.Bytes = 1<<31 - 1

func (c *RDMA) chunkSize() units.Bytes {
	if c.Chunk > 0 {
		return min(c.Chunk, maxMessage)
	}
	return maxMessage
}

// Check returns what is wrong with the settings.
func (c *RDMA) Check() error {
	switch {
	case c.PerPair && c.Verb == workload.Read:
		return errors.New("READs cannot share a connection: its responder does not learn where a flow ends")
	case c.PerPair && c.Verb == workload.Write && c.Chunk > 0:
		return errors.New("flows that share a connection cannot be split into WRITEs, of which the receiver sees only the last: use SENDs")
	case c.MTU > qp.MTU4096:
		return fmt.Errorf("mtu has the code %d: it can be 1 (256 B) to 5 (4096 B)", c.MTU)
	case c.DSCP > 63:
		return fmt.Errorf("dscp is %d: it can be 0 to 63", c.DSCP)
	case c.Chunk < 0 || c.Chunk > maxMessage:
		return fmt.Errorf("chunk is %d: it can be 1 byte to %d", int64(c.Chunk), int64(maxMessage))
	}
	return nil
}

// Member is a NIC of a host whose flows use RDMA, with the addresses by which others know
// it. A NIC whose flows use several addresses of one IP version is several members.
type Member struct {
	Node   int        // index of the plan's nodes
	V4, V6 netip.Addr // of its NIC; the zero Addr if it has none

	// Destination of written data and source of read data.
	va   uint64
	rkey uint32
}

func (m *Member) addressOf(v6 bool) netip.Addr {
	if v6 {
		return m.V6
	}
	return m.V4
}

// Table is what all hosts know about each other before the run, so that none has to
// ask: addresses, memory keys, and the numbers of queue pairs. It does not change
// during the run.
//
// Two hosts have connections with each other, in slots: flows use a slot one after
// another. At both hosts the number of a connection's queue pair is made of the role, the
// traffic, the peer and the slot, so that each knows the other's. The PSNs of a
// connection continue from flow to flow, as on a real connection that applications keep:
// so the receiver can distinguish packets that are late, or repeated because an
// acknowledgement was lost, from the next flow without a waiting time in between, and
// both hosts keep only a few bytes for an unused connection.
type Table struct {
	// Ends returns the addresses of a flow between hosts, of which one is of several members;
	// false if it has no path.
	Ends func(from, to int, v6 bool) (source, destination netip.Addr, ok bool)

	members  []Member
	of       map[int]int32        // by node; -1 for a host of several members
	by       map[netip.Addr]int32 // by address
	traffics map[int]RDMA
	reads    int // most outstanding on a connection: what all NICs support

	hostBits, slotBits int
}

// Numbers of connections have 22 bits for the traffic, the peer and the slot.
const (
	firstNumber   = 1 << 23
	responderRole = 1 << 22
	numberBits    = 22
	minSlotBits   = 4
)

// NewTable makes the table of members, by ascending node, and the settings of traffics
// by their numbers, which are less than traffics. It fails if the numbers of their
// queue pairs do not fit in 24 bits.
func NewTable(members []Member, traffics int, settings map[int]RDMA) (*Table, error) {
	t := &Table{members: members, of: map[int]int32{}, by: map[netip.Addr]int32{}, traffics: settings, reads: depth, hostBits: bits.Len(uint(max(len(members)-1, 1)))}
	for i, m := range members {
		if _, several := t.of[m.Node]; several {
			t.of[m.Node] = -1
		} else {
			t.of[m.Node] = int32(i)
		}
		t.by[m.V4], t.by[m.V6] = int32(i), int32(i)
	}
	delete(t.by, netip.Addr{})
	t.slotBits = numberBits - t.hostBits - bits.Len(uint(traffics-1))
	if t.slotBits < minSlotBits {
		return nil, fmt.Errorf("%d NICs with %d patterns of RDMA traffic: queue pair numbers suffice for %d NICs; use fewer patterns or hosts",
			len(members), traffics, 1<<(numberBits-minSlotBits-bits.Len(uint(traffics-1))))
	}
	return t, nil
}

// pair returns the members at the ends of a flow between two hosts, or why there are none.
func (t *Table) pair(from, to int, v6 bool) (here, there int32, failure string) {
	here, known := t.of[from]
	there, other := t.of[to]
	switch {
	case !known || !other:
		return 0, 0, "the destination host is not part of the traffic"
	case here >= 0 && there >= 0:
		return here, there, ""
	}
	source, destination, ok := t.Ends(from, to, v6)
	if !ok {
		return 0, 0, "there is no path to the destination host"
	}
	here, known = t.by[source]
	there, other = t.by[destination]
	if !known || !other {
		return 0, 0, "the destination host is not part of the traffic"
	}
	return here, there, ""
}

// FlowSlots returns how many flows one host can have under way to another, for each traffic.
// Further flows wait.
func (t *Table) FlowSlots() int {
	return 1<<t.slotBits - 1 // leaves out the last number, which is that of multicast
}

// pairNumber returns the number of the queue pair for a connection with a peer.
func (t *Table) pairNumber(role uint32, traffic int, peer, slot int32) uint32 {
	return firstNumber | role | uint32(traffic)<<(t.hostBits+t.slotBits) | uint32(peer)<<t.slotBits | uint32(slot)
}

// parseNumber splits the number of a responder into its parts; it returns false if it is not one.
func (t *Table) parseNumber(number uint32) (traffic int, peer int32, ok bool) {
	if number&(firstNumber|responderRole) != firstNumber|responderRole {
		return 0, 0, false
	}
	n := number & (1<<numberBits - 1)
	traffic = int(n >> (t.hostBits + t.slotBits))
	peer = int32(n >> t.slotBits & (1<<t.hostBits - 1))
	_, known := t.traffics[traffic]
	return traffic, peer, known && int(peer) < len(t.members)
}

// arrivalKey identifies the n-th flow of a connection by its responder and the responder's
// number.
func arrivalKey(responder int32, number uint32, n uint16) uint64 {
	const rdma = 1 << 61 // IDs of flows are less
	return rdma | uint64(responder)<<(numberBits+16) | uint64(number&(1<<numberBits-1))<<16 | uint64(n)
}
