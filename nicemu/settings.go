package nicemu

import (
	"cmp"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/packet"
)

// Settings are what somebody chooses of a NIC.
type Settings struct {
	MTU  qp.MTU // largest path MTU, which fits the MTU of the port's link; Limits.ActiveMTU is the same
	DSCP uint8  // of packets whose address vector names no traffic class, 0 to 63
	// AckDSCP is the DSCP of what RC queue pairs acknowledge with (ACKs, NAKs and responses
	// of atomics), 0 to 63, and so their class; nil is that of their data.
	AckDSCP *uint8

	Control  Control  // rate control of each RC and UC queue pair
	Recovery Recovery // loss recovery of each RC queue pair

	// AckEvery makes a responder acknowledge every n-th packet, AskEvery a
	// requester ask for an acknowledgement that often, as at the end of
	// messages; 0 is never (transport.Config).
	AckEvery, AskEvery int

	// What modelled transfers give their queue pairs; programs choose their own.
	Timeout    uint8 // code of the local ACK timeout: 4.096 us * 2^Timeout, 1 to 31; 0 is never
	RetryCount uint8 // 0 to 7
	RNRRetry   uint8 // 0 to 6; 7 is without limit
	MinRNR     uint8 // code of the wait that an RNR NAK asks for, 0 to 31

	Limits qp.Limits
}

// Control is a rate control with its parameters. The zero Control is none: queue
// pairs send at line rate.
type Control struct {
	Name     string      // of cc.Methods; "" for none
	Preset   string      // what the parameters were before single ones were set
	Settings cc.Settings // nil for none; has passed Validate for the line rate
}

// String is the name in a lab file.
func (c Control) String() string {
	if c.Settings == nil {
		return "none"
	}
	return c.Name
}

// Traits are those of the control.
func (c Control) Traits() cc.Traits {
	if c.Settings == nil {
		return cc.Traits{}
	}
	return c.Settings.Traits()
}

// Feedback is the protocol of the messages that the control of a queue pair hears; nil for
// none.
func (c Control) Feedback() *packet.MessageProtocol {
	m, err := cc.Methods.Find(c.Name)
	if err != nil {
		return nil
	}
	return m.Feedback
}

// Gauges describes what the control of a queue pair shows; nil for none.
func (c Control) Gauges() []gauge.Gauge {
	m, err := cc.Methods.Find(c.Name)
	if err != nil {
		return nil
	}
	return m.Gauges
}

// Recovery is a loss recovery with its parameters. The zero Recovery is that of the
// specification.
type Recovery struct {
	Name     string                     // of transport.Recoveries; "" for transport.DefaultRecovery
	Preset   string                     // what the parameters were before single ones were set; "" without presets
	Settings transport.RecoverySettings // nil for the default; has passed Validate for the line rate
}

// String is the name in a lab file.
func (r Recovery) String() string { return cmp.Or(r.Name, transport.DefaultRecovery) }
