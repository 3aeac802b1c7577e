package status

// Accounts say where every packet went:
//
//	Entered + Originated + Replicated + Duplicated = Delivered + Consumed + Dropped + Held
type Accounts struct {
	Entered    uint64 `json:"entered"`    // from hosts, real and modelled
	Originated uint64 `json:"originated"` // by switches, ports and edge services; unwrapped from tunnels
	Replicated uint64 `json:"replicated"` // copies of what goes to several ports
	Duplicated uint64 `json:"duplicated"` // copies made by links on purpose

	Delivered uint64 `json:"delivered"` // to hosts
	Consumed  uint64 `json:"consumed"`  // by ports (PFC and PAUSE frames), switches (reports about groups), routers (addressed to them), edge services
	Dropped   uint64 `json:"dropped"`   // in queues, on links, at receivers
	Held      uint64 `json:"held"`      // in queues, on links and in edge services now

	Marked   uint64            `json:"marked"`
	Trimmed  uint64            `json:"trimmed"`
	Returned uint64            `json:"returned"`        // of these, sent back to senders
	Drops    map[string]uint64 `json:"drops,omitempty"` // Dropped by reason
}

// Balanced reports whether no packet is missing.
func (a Accounts) Balanced() bool {
	return a.Entered+a.Originated+a.Replicated+a.Duplicated == a.Delivered+a.Consumed+a.Dropped+a.Held
}
