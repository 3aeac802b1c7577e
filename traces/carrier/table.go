package carrier

import (
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/workload"
)

// RDMA is how a traffic's flows go by RDMA, over reliable connections.
type RDMA struct {
	// Verb is what the messages of a flow are. With workload.Write the last one has the
	// flow's tag as immediate data, with workload.Send likewise. With workload.Read the
	// host that gets the data asks for it: so the agent of Flow.To starts the flow, has
	// its tag already, and is told of Arrived and Completed both; that of Flow.From hears
	// nothing, as with a real READ.
	Verb  workload.Verb
	MTU   qp.MTU      // of the path; 0 is the NIC's
	DSCP  uint8       // 0 to 63
	IPv6  bool        // over IPv6, otherwise IPv4
	Chunk units.Bytes // longest message: a longer flow goes as several; 0 is 2 GiB - 1, which is the most
}

// maxMessage is the longest message of RDMA that verbs can ask for.
const maxMessage units.Bytes = 1<<31 - 1

func (c *RDMA) chunk() units.Bytes {
	if c.Chunk > 0 {
		return min(c.Chunk, maxMessage)
	}
	return maxMessage
}

// Check says what is wrong with settings.
func (c *RDMA) Check() error {
	switch {
	case c.MTU > qp.MTU4096:
		return fmt.Errorf("mtu has the code %d: it can be 1 (256 B) to 5 (4096 B)", c.MTU)
	case c.DSCP > 63:
		return fmt.Errorf("dscp is %d: it can be 0 to 63", c.DSCP)
	case c.Chunk < 0 || c.Chunk > maxMessage:
		return fmt.Errorf("chunk is %d: it can be 1 byte to %d", int64(c.Chunk), int64(maxMessage))
	}
	return nil
}

// Member is a host whose flows go by RDMA, as the others have to know it.
type Member struct {
	Node   int        // index of the plan's nodes
	V4, V6 netip.Addr // of its NIC; the zero Addr if it has none

	// Where data goes that is written to it and comes from that is read.
	va   uint64
	rkey uint32
}

func (m *Member) address(v6 bool) netip.Addr {
	if v6 {
		return m.V6
	}
	return m.V4
}

// Table is what all hosts know of each other before the run, so that none has to ask:
// addresses, keys of memory, and the numbers of queue pairs. It does not change during
// the run.
//
// Two hosts have connections with each other, in slots: one flow uses a slot after the
// other. At the host that begins flows the number of a connection's queue pair is made of
// the role, the traffic, the peer and the slot, and so it is at the other, so that each
// knows the other's. The PSNs of a connection go on from flow to flow, as on a real
// connection that applications keep: so the receiver tells what comes late, or again
// because an acknowledgement was lost, from the next flow, without any time that has to
// pass in between, and both hosts keep a few bytes of a connection that is not in use.
type Table struct {
	members  []Member
	of       map[int]int32 // by node
	traffics map[int]RDMA
	reads    int // that a connection has outstanding at most: what all NICs can

	hostBits, slotBits int
}

// Numbers of connections have 22 bits for the traffic, the peer and the slot.
const (
	firstNumber   = 1 << 23
	responderRole = 1 << 22
	numberBits    = 22
	minSlotBits   = 4
)

// NewTable makes the table of members, by rising node, and the settings of traffics by
// their numbers, which are less than traffics. It fails where 24 bits have no room for
// the numbers of their queue pairs.
func NewTable(members []Member, traffics int, settings map[int]RDMA) (*Table, error) {
	t := &Table{members: members, of: map[int]int32{}, traffics: settings, reads: depth, hostBits: bits.Len(uint(max(len(members)-1, 1)))}
	for i, m := range members {
		t.of[m.Node] = int32(i)
	}
	t.slotBits = numberBits - t.hostBits - bits.Len(uint(traffics-1))
	if t.slotBits < minSlotBits {
		return nil, fmt.Errorf("%d hosts with %d patterns of RDMA traffic: queue pair numbers suffice for %d hosts; use fewer patterns or hosts",
			len(members), traffics, 1<<(numberBits-minSlotBits-bits.Len(uint(traffics-1))))
	}
	return t, nil
}

// Slots is how many flows one host can have under way to another, for each traffic. The
// rest waits.
func (t *Table) Slots() int {
	return 1<<t.slotBits - 1 // so that the last number is nobody's: it is that of multicast
}

// number is that of a queue pair for a connection with a peer.
func (t *Table) number(role uint32, traffic int, peer, slot int32) uint32 {
	return firstNumber | role | uint32(traffic)<<(t.hostBits+t.slotBits) | uint32(peer)<<t.slotBits | uint32(slot)
}

// parse takes the number of a responder apart; false if it is none.
func (t *Table) parse(number uint32) (traffic int, peer int32, ok bool) {
	if number&(firstNumber|responderRole) != firstNumber|responderRole {
		return 0, 0, false
	}
	n := number & (1<<numberBits - 1)
	traffic = int(n >> (t.hostBits + t.slotBits))
	peer = int32(n >> t.slotBits & (1<<t.hostBits - 1))
	_, known := t.traffics[traffic]
	return traffic, peer, known && int(peer) < len(t.members)
}

// arrivalKey names the n-th flow of a connection, by its responder and the number of that.
func arrivalKey(responder int32, number uint32, n uint16) uint64 {
	const rdma = 1 << 61 // IDs of flows are less
	return rdma | uint64(responder)<<(numberBits+16) | uint64(number&(1<<numberBits-1))<<16 | uint64(n)
}
