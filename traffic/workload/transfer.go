package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Verb is the operation of a transfer's messages.
type Verb uint8

// The verbs of modelled transfers.
const (
	Write Verb = iota // RDMA WRITE: data from From to To
	Read              // RDMA READ: data from To to From
	Send              // SEND: data from From to To
)

// VerbNames are the names that a lab file uses.
var VerbNames = []string{"write", "read", "send"}

// String returns the name that a lab file uses.
func (v Verb) String() string { return VerbNames[v] }

// UnmarshalText parses the name that a lab file uses.
func (v *Verb) UnmarshalText(b []byte) error {
	i := slices.Index(VerbNames, string(b))
	if i < 0 {
		return fmt.Errorf("%q must be one of %s", b, strings.Join(VerbNames, ", "))
	}
	*v = Verb(i)
	return nil
}

// Transfer is a series of RDMA messages between the NICs of two hosts.
type Transfer struct {
	Name             string // in records; unique in a lab, also among flows
	Verb             Verb
	Service          roce.Service // RC; UC for WRITE and SEND; UD for SEND
	From, To         int          // hosts, indices into the plan's nodes: From posts the work requests
	FromPort, ToPort Interface    // interfaces of the NICs
	Size             units.Bytes  // of a message, 0 to 2 GiB - 1; for UD at most the path MTU
	Count            int          // messages of each queue pair; 0 means until For is over
	QPs              int          // queue pairs that do this in parallel, at least 1
	Depth            int          // messages that a queue pair has posted and not completed, at least 1
	At               units.Time   // when the first is posted
	For              units.Time   // no message is posted later than At+For; 0 means no such limit
	// Every is the time between the posting of a queue pair's messages, which
	// wait if Depth has no room for them; 0 means as soon as Depth allows.
	Every units.Time
	MTU   units.Bytes // path MTU; 256, 512, 1024, 2048 or 4096
	DSCP  uint8       // 0 to 63
	// FlowPerMessage makes each message a separate flow: it begins with a rate control
	// that knows nothing of earlier messages. Depth is 1, and Verb is not Read.
	FlowPerMessage bool
	IPv6           bool // over IPv6, otherwise IPv4
}
