package cc

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// MessageSender is implemented by controls that send messages. These are Probes of the protocol that
// their Method names, and go to the flow's destination. The control's driver asks for them
// after each input. Switches choose the path of a message as they do for the flow's packets.
type MessageSender interface {
	// SendsMessages reports whether a message waits to be sent.
	SendsMessages() bool
	// NextMessage fills in the message that has waited longest, which is about the flow that key names.
	// The body must be empty, as if it were new.
	NextMessage(key packet.FlowKey, body packet.Body)
}

// Probe is implemented by messages that go to a flow's destination and may come back.
type Probe interface {
	Feedback
	// IsOutward reports whether the message is on its way to the flow's destination. The
	// destination does not mistake it for a message about one of its own flows.
	IsOutward() bool
	// TurnAround turns an IsOutward message that has arrived there into its answer, which goes back. It
	// returns false if there is no answer.
	TurnAround() bool
	// ReplacesOlder makes the message replace an older one that is about the same flow, goes in the
	// same direction and has not left. The message then covers both. Replace returns false if
	// nothing is left to send. Both have the same length.
	ReplacesOlder(older Probe) bool
}

// Sized is implemented by controls that need to know the length of a flow.
type Sized interface {
	// OnDataQueued reports how much payload of an active flow waits to be sent or acknowledged, as
	// far as its sender knows. It is called after SetActive.
	OnDataQueued(now units.Time, n units.Bytes)
}
