package cc

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Speaker is implemented by controls that send messages, which are Probes: of the protocol that
// their Method names, to where the flow goes. The control's driver asks it after each input.
// Switches choose the way of a message as they do for the flow's packets.
type Speaker interface {
	// Speaks tells whether a message waits to be sent.
	Speaks() bool
	// Say fills in the message that has waited longest, which is about the flow that key
	// names. The body is as new.
	Say(key packet.FlowKey, body packet.Body)
}

// Probe is implemented by messages that go to where a flow goes, and may come back.
type Probe interface {
	Feedback
	// Outward means that the message is on its way to the flow's destination, which does not
	// take it for one about a flow of its own.
	Outward() bool
	// Turn makes of a message that is Outward and has come there its answer, which goes
	// back; false if it has none.
	Turn() bool
	// Replace has the message take the place of an older one, which is about the same flow,
	// goes the same way and has not left: the message then says what both have to say. False
	// is that nothing is left to say. Both are as long.
	Replace(older Probe) bool
}

// Sized is implemented by controls that want to know how long a flow is.
type Sized interface {
	// Queued tells how much payload of an active flow waits to be sent, or for its
	// acknowledgement, as far as its sender knows. It comes after Active.
	Queued(now units.Time, n units.Bytes)
}
