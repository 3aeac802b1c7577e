package metrics

import "github.com/weftlab/weft/emu/status"

var switchLabels = []string{"lab", "node"}

var switchMetrics = []metric[status.Switch]{
	gauge(switchLabels, "switch_mac_entries", "Ethernet addresses that the switch has learned and not forgotten, without those of the lab file.",
		func(s *status.Switch) float64 { return float64(s.Entries) }),
	counter(switchLabels, "switch_mac_learned_total", "Ethernet addresses that got an entry in the switch's table.",
		func(s *status.Switch) float64 { return float64(s.Learned) }),
	counter(switchLabels, "switch_mac_moved_total", "Times that an Ethernet address appeared at another place.",
		func(s *status.Switch) float64 { return float64(s.Moved) }),
	counter(switchLabels, "switch_mac_aged_total", "Entries of the table that ended for lack of frames.",
		func(s *status.Switch) float64 { return float64(s.Aged) }),
	counter(switchLabels, "switch_mac_flushed_total", "Entries of the table that ended because links went down.",
		func(s *status.Switch) float64 { return float64(s.Flushed) }),
	counter(switchLabels, "switch_mac_full_packets_total", "Packets whose source was not learned because the table was full.",
		func(s *status.Switch) float64 { return float64(s.Full) }),
	counter(switchLabels, "switch_unknown_unicast_packets_total", "Unicast packets flooded because the place of their destination was unknown.",
		func(s *status.Switch) float64 { return float64(s.Unknown) }),
}
