package nicemu

import (
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
	// AckDSCP is the DSCP of the acknowledgements of RC and XRC queue pairs (ACKs, NAKs and responses of
	// atomics), 0 to 63, and so their class; nil means that of their data.
	AckDSCP *uint8

	Control     cc.Choice                // rate control of each RC, UC and XRC queue pair
	Recovery    transport.RecoveryChoice // loss recovery of each RC and XRC queue pair
	Layer       LayerChoice              // software above each RC and UC queue pair
	RateLimiter RateLimiter              // properties of its rate limiters

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
	if !s.Layer.IsNone() {
		return Layers.Kind(s.Layer.Name).Gauges
	}
	return cc.Methods.Kind(s.Control.Name).Gauges
}

// recoveryService returns the service in the packets of a recovery.
func recoveryService(c transport.RecoveryChoice) roce.Service {
	if c.IsNone() {
		return roce.RC
	}
	return c.Settings.New().Service()
}
