package nicemu

import (
	"cmp"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/wire/roce"
)

// Settings are the configurable parameters of a NIC.
type Settings struct {
	MTU  qp.MTU // largest path MTU, which fits the MTU of the port's link; Limits.ActiveMTU is the same
	DSCP uint8  // of packets whose address vector names no traffic class, 0 to 63
	// AckDSCP is the DSCP of the acknowledgements of RC queue pairs (ACKs, NAKs and responses of
	// atomics), 0 to 63, and so their class; nil means that of their data.
	AckDSCP *uint8

	Control     Control     // rate control of each RC and UC queue pair
	Recovery    Recovery    // loss recovery of each RC queue pair
	Layer       LayerChoice // software above each RC and UC queue pair
	RateLimiter RateLimiter // properties of its rate limiters

	// AckEvery makes a responder acknowledge every n-th packet, AskEvery makes a requester request
	// an acknowledgement that often, in addition to the end of messages; 0 means never
	// (transport.Config).
	AckEvery, AskEvery int

	// Values for the queue pairs of modelled transfers; programs choose their own.
	Timeout    uint8 // code of the local ACK timeout: 4.096 us * 2^Timeout, 1 to 31; 0 means never
	RetryCount uint8 // 0 to 7
	RNRRetry   uint8 // 0 to 6; 7 means no limit
	MinRNR     uint8 // code of the wait that an RNR NAK asks for, 0 to 31

	Delays Delays // between the NIC and its host

	Limits qp.Limits
}

// FlowGauges describes the gauges of QP.Flow and QPStatus: those of the layer above the queue pair
// or, without one, of its rate control.
func (s *Settings) FlowGauges() []gauge.Gauge {
	if s.Layer.Settings != nil {
		return s.Layer.Gauges()
	}
	return s.Control.Gauges()
}

// Control is the rate control of a NIC's queue pairs.
type Control = cc.Choice

// Recovery is a loss recovery with its parameters. The zero Recovery is the one in the
// specification.
type Recovery struct {
	Name     string                     // of transport.Recoveries; "" for transport.DefaultRecovery
	Preset   string                     // preset that the parameters started from; "" if none
	Settings transport.RecoverySettings // nil for the default; has passed Validate for the line rate
}

// service returns the service in its packets.
func (r Recovery) service() roce.Service {
	if r.Settings == nil {
		return roce.RC
	}
	return r.Settings.New().Service()
}

// String returns the name in a lab file.
func (r Recovery) String() string { return cmp.Or(r.Name, transport.DefaultRecovery) }
