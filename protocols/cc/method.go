package cc

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Methods are the rate controls that a lab file can name. A package registers its own in an
// init function.
var Methods = registry.New[Method]("rate control")

// Method is a rate control that a lab file can name.
type Method struct {
	// Summary is one sentence for the schema and the documentation.
	Summary string
	// Presets are the names of known sets of parameters, the default first. There
	// is at least one.
	Presets []string
	// Preset returns the parameters of a preset for a port at line rate line, which is above 0.
	// The name is one of Presets.
	Preset func(name string, line units.Rate) Settings
	// Gauges describes the values of Control.AppendGauges.
	Gauges []gauge.Gauge
	// Feedback is the protocol of the messages that its controls receive (Control.OnMessage); nil
	// if there is none. Their bodies implement Feedback.
	Feedback *packet.MessageProtocol
}

// Feedback is the body of a message about one flow, which a NIC hands to that flow's
// control.
type Feedback interface {
	packet.Body
	// FlowKey returns the flow as the sender of the message saw it: from the flow's sender to its
	// receiver.
	FlowKey() packet.FlowKey
}

// Settings are the parameters of a rate control: a pointer to a struct whose fields have yaml,
// json and jsonschema_description tags. A lab file overrides single fields of a preset.
type Settings interface {
	// Validate checks the parameters for a port at line rate line. The error joins a
	// registry.RangeError for each parameter that is wrong.
	Validate(line units.Rate) error
	// Traits says what the control needs of the NICs at both ends.
	Traits() Traits
	// New returns the control of a flow. The settings have passed Validate, do not change any
	// more, and are shared by the flows of a port.
	New(f Flow) Control
}

// Traits say how the NICs at both ends treat the packets of flows under a control. Each NIC
// uses the traits of its own control.
type Traits struct {
	// ECT makes packets ECN-capable (ECT(0)).
	ECT bool
	// Marks is how a receiver answers packets with CE.
	Marks MarkAnswer
	// CNPGap is the minimum time between the CNPs for a flow, and CNPDSCP their DSCP; with
	// AnswerCNP.
	CNPGap  units.Time
	CNPDSCP uint8
	// Telemetry is the number of hops that a data packet has room for, 0 to telemetry.MaxHops;
	// 0 means no telemetry.
	Telemetry int
	// AskEvery is how often a requester asks for an acknowledgement if the lab file does not
	// say: at every n-th packet; 0 leaves it to the NIC.
	AskEvery int
	// AckDSCP is the DSCP of acknowledgements if the lab file does not say, 1 to 63, for
	// controls whose RTTs would be distorted by queues on the return path; 0 leaves them in the
	// class of the data. The receiver's own control decides this.
	AckDSCP uint8
	// Burst is how much is sent at line rate before a gap enforces the rate; 0 means one
	// packet.
	Burst units.Bytes
	// MessageDSCP is the DSCP of the messages that a MessageSender sends, 0 to 63.
	MessageDSCP uint8
	// WakeIdle means that OnTimer is called at the instant that NextTimer returns even while the flow
	// has nothing to send.
	WakeIdle bool
	// NeedsPath means that the control looks at Flow.Path, which is zero otherwise.
	NeedsPath bool
	// NeedsAcks means that the control depends on acknowledgements. They exist for SENDs,
	// WRITEs and atomics of RC; the packets of READ responses and of UC are sent at the rate
	// that the control has.
	NeedsAcks bool
	// NeedsDelivery means that the control depends on Ack.Delivery.
	NeedsDelivery bool
	// ClassicECN means that TCP's receivers echo a mark until the sender says that it has
	// lowered its window (RFC 3168), and not for each packet as with DCTCP; with AnswerEcho.
	ClassicECN bool
	// KeepsWindow means that the sender uses the control's window unchanged while losses are
	// repaired. Otherwise it may go down step by step to the window that the control set for a
	// loss.
	KeepsWindow bool
}

// MarkAnswer is how a receiver answers packets with CE.
type MarkAnswer uint8

// How marks are answered.
const (
	AnswerNothing MarkAnswer = iota
	AnswerCNP                // by congestion notification packets
	AnswerEcho               // by the BECN bit of acknowledgements, which the ICRC does not cover
)

// Notification is the notification point of one flow, at its receiver: it decides which packets
// are answered by a CNP (Zhu et al., SIGCOMM 2015, §3.1, Fig. 6). A packet with CE is answered
// if the last CNP was sent at least a gap ago; one without CE never is. Marks in between do not
// cause a CNP at the end of the gap: while congestion lasts, another marked packet is on its
// way.
//
// The zero value is a flow that has had no CNP. The state is a single instant, so it can live
// with the receiving queue pair. Code that limits CNPs by sender or by port instead, as
// ROCE_CC_CNP_MODERATION of mlxconfig can, has one Notification for each of those.
type Notification struct {
	next units.Time // earliest time of the next CNP; 0 means at once
}

// NeedsCNP reports whether to send a CNP for a packet that arrives at now, with or without CE.
func (n *Notification) NeedsCNP(now units.Time, ce bool, gap units.Time) bool {
	if !ce || now < n.next {
		return false
	}
	n.next = now + gap
	return true
}
