package status

// Switch is what a plain switch has learned of Ethernet addresses, and its counts since the
// start. All but Unknown are 0 for a switch that does not learn.
type Switch struct {
	Name    string `json:"name"`
	Entries int    `json:"mac_entries"` // learned addresses in the table now, without those of the lab file
	Limit   int    `json:"mac_limit"`   // of Entries
	Learned uint64 `json:"mac_learned"` // addresses that got an entry
	Moved   uint64 `json:"mac_moved"`   // times that an address appeared at another place
	Aged    uint64 `json:"mac_aged"`    // entries that ended for lack of frames
	Flushed uint64 `json:"mac_flushed"` // entries that ended with their link
	Full    uint64 `json:"mac_full"`    // frames whose source was not learned because the table was full
	Unknown uint64 `json:"unknown"`     // unicast packets flooded because nobody knew their destination's place
}

// Idle reports whether nothing has happened that Switch counts.
func (s *Switch) Idle() bool {
	x := *s
	x.Name, x.Limit = "", 0
	return x == Switch{}
}
