package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// Verb is what the messages of a transfer are.
type Verb uint8

// The verbs of modelled transfers.
const (
	Write Verb = iota // RDMA WRITE: data from From to To
	Read              // RDMA READ: data from To to From
	Send              // SEND: data from From to To
)

// VerbNames are the names that a lab file uses.
var VerbNames = []string{"write", "read", "send"}

// String gives the name that a lab file uses.
func (v Verb) String() string { return VerbNames[v] }

// UnmarshalText reads the name that a lab file uses.
func (v *Verb) UnmarshalText(b []byte) error {
	i := slices.Index(VerbNames, string(b))
	if i < 0 {
		return fmt.Errorf("%q must be one of %s", b, strings.Join(VerbNames, ", "))
	}
	*v = Verb(i)
	return nil
}

// Transfer is RDMA messages between the NICs of two hosts.
type Transfer struct {
	Name     string // in records; unique in a lab, also among flows
	Verb     Verb
	Service  roce.Service // RC; UC for WRITE and SEND; UD for SEND
	From, To int          // hosts, indices into the plan's nodes: From posts the work requests
	Size     units.Bytes  // of a message, 0 to 2 GiB - 1; of UD at most the path MTU
	Count    int          // messages of each queue pair; 0 is until For is over
	QPs      int          // queue pairs that do this side by side, at least 1
	Depth    int          // messages that a queue pair has posted and not completed, at least 1
	At       units.Time   // when the first is posted
	For      units.Time   // no message is posted later than At+For; 0 is no such limit
	// Every is the time between the posting of a queue pair's messages, which
	// wait where Depth has no room for them; 0 is as soon as Depth allows.
	Every units.Time
	MTU   units.Bytes // path MTU; 256, 512, 1024, 2048 or 4096
	DSCP  uint8       // 0 to 63
	// FlowPerMessage makes each message a flow of its own: it begins with a rate control
	// that knows nothing of the messages before it. Depth is 1, and Verb is not Read.
	FlowPerMessage bool
	IPv6           bool // over IPv6, otherwise IPv4
}
