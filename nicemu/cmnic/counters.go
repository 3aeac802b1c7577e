package cmnic

import msg "github.com/weftlab/weft/protocols/cm"

// PerMessage counts by message.
type PerMessage [msg.AttributeAPR - msg.AttributeREQ + 1]uint64

// CountOf returns the count of one message.
func (p *PerMessage) CountOf(a msg.Attribute) uint64 {
	if a < msg.AttributeREQ || a > msg.AttributeAPR {
		return 0
	}
	return p[a-msg.AttributeREQ]
}

func (p *PerMessage) countMessage(a msg.Attribute) { p[a-msg.AttributeREQ]++ }

// Counters count the messages that a CM has sent and received; Linux has the first four for each
// port.
type Counters struct {
	Sent       PerMessage // without repeated ones
	Resent     PerMessage // repeated because no answer arrived, or because the other side repeats
	Received   PerMessage // all that could be read
	Duplicates PerMessage // of Received: they only caused an answer to be repeated

	Malformed   uint64 // datagrams that are no message of communication management
	Unexpected  uint64 // of Received: not allowed in the state, or of no connection
	NoListener  uint64 // of Received: REQ and SIDR_REQ
	BacklogFull uint64 // of Received: REQ and SIDR_REQ, dropped: the other side tries again
	Refused     uint64 // of Received: REQ and REP with fields that cannot be served
	Stale       uint64 // of Received: REQ and REP refused as stale connections
}
