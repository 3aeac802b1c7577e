package transport

import "github.com/weftlab/weft/sim/units"

// ConnectX3 is the loss recovery of a ConnectX-3 Pro as RoGUE's authors found it (Le et al., SoCC
// 2018, §5.2): go-back-N that resends one verb, which is a work request, at a time. After a NAK or
// a timeout, the requester sends again all packets of the verb from the missing one on, at once,
// and begins the next verb only when the whole verb has been acknowledged. It continues like this
// until it has sent again everything that had been sent when it learned of the loss. Within a large
// verb it is go-back-N; of small verbs it resends one per round trip.
//
// The paper does not mention RNR NAKs, which do not indicate a loss. After these it resends like
// GoBackN. The responder is that of GoBackN, and so are the packets: the two interoperate.
type ConnectX3 struct {
	GoBackN
	end    func(PSN) PSN // for a PSN of the window: the first PSN after its verb
	serial bool          // it resends one verb at a time
	stop   PSN           // end of the oldest verb
	until  PSN           // what had been sent when it learned of the loss
}

// NewConnectX3 makes the recovery of a queue pair.
func NewConnectX3() Recovery { return &ConnectX3{} }

// SetMessages implements ByMessage.
func (x *ConnectX3) SetMessages(end func(PSN) PSN) { x.end = end }

// Reset clears the state.
func (x *ConnectX3) Reset() {
	x.GoBackN.Reset()
	x.serial = false
}

// Next goes in order, but does not begin a verb while the previous one is sent again.
func (x *ConnectX3) Next(w Window) (PSN, bool) {
	if x.serial && x.at == x.stop && x.at != w.Una {
		return 0, false
	}
	return x.GoBackN.Next(w)
}

// OnSent advances. When everything has been sent again, verbs follow each other.
func (x *ConnectX3) OnSent(w Window, psn PSN, n uint32) {
	x.GoBackN.OnSent(w, psn, n)
	if x.serial && !x.at.Before(x.until) {
		x.serial = false
	}
}

// OnAcked skips packets that need not be sent again.
func (x *ConnectX3) OnAcked(w Window) {
	x.GoBackN.OnAcked(w)
	switch {
	case !x.serial:
	case !w.Una.Before(x.until):
		x.serial = false
	default:
		x.stop = x.end(w.Una)
	}
}

// OnRefusal goes back to the oldest packet.
func (x *ConnectX3) OnRefusal(w Window, why Refusal, seen PSN) bool {
	if !x.GoBackN.OnRefusal(w, why, seen) {
		return false
	}
	if why != NakRNR {
		x.serializeVerbs(w)
	}
	return true
}

// OnExpiry goes back to the oldest packet.
func (x *ConnectX3) OnExpiry(w Window) {
	x.GoBackN.OnExpiry(w)
	x.serializeVerbs(w)
}

func (x *ConnectX3) serializeVerbs(w Window) { x.serial, x.stop, x.until = true, x.end(w.Una), w.Next }

// ConnectX3Settings are the parameters of ConnectX3: those of go-back-N.
type ConnectX3Settings struct {
	Window int `yaml:"window,omitempty" json:"window" jsonschema:"minimum=-1,maximum=16384" jsonschema_description:"maximum packets in flight (BDP-FC of IRN), 0 for no limit, -1 to fill the longest path; a READ counts as all packets of its response at once"`
}

// Validate implements RecoverySettings.
func (s *ConnectX3Settings) Validate(line units.Rate) error {
	return (*GoBackNSettings)(s).Validate(line)
}

// NeedsPath implements WindowFromPath.
func (s *ConnectX3Settings) NeedsPath() bool { return s.Window == FromPath }

// SetWindow implements WindowFromPath.
func (s *ConnectX3Settings) SetWindow(packets int) { s.Window = packets }

// New implements RecoverySettings.
func (s *ConnectX3Settings) New() Recovery {
	return &ConnectX3{GoBackN: GoBackN{limit: uint32(max(s.Window, 0))}}
}

func init() {
	Recoveries.Register("connectx-3", RecoveryKind{
		Summary:  "go-back-n that resends one work request at a time, like a ConnectX-3 Pro (RoGUE §5.2)",
		Settings: func(string, units.Rate) RecoverySettings { return &ConnectX3Settings{} },
	})
}
