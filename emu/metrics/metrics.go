package metrics

import (
	"math"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/packet"
)

// The labels. A port's name is the one that commands take: "s1:3".
var (
	labLabels   = []string{"lab"}
	portLabels  = []string{"lab", "node", "port"}
	classLabels = []string{"lab", "node", "port", "class"}
)

// reasons is every reason for a drop.
var reasons = func() (names []string) {
	for f := range packet.Fate(packet.FateCount) {
		if f.IsDrop() {
			names = append(names, f.String())
		}
	}
	return names
}()

var labMetrics = []metric[report.Sample]{
	counter(labLabels, "lab_emulated_seconds_total", "Emulated time since the lab's start.",
		func(s *report.Sample) float64 { return s.Emulated.Seconds() }),
	gauge(labLabels, "lab_dilation", "Real time divided by emulated time; 1 means real time. All other metrics except processor time are in emulated time.",
		func(s *report.Sample) float64 { return float64(s.Dilation) }),
	counter(labLabels, "lab_stood_seconds_total", "Time for which emulated time stood still, because the engine could not keep up or was stopped.",
		func(s *report.Sample) float64 { return s.Timing.Stood.Seconds() }),
	gauge(labLabels, "lab_overloaded", "1 while the machine does not keep up with the lab, else 0.",
		func(s *report.Sample) float64 { return truth(s.Trouble != "") }),

	counter(labLabels, "lab_entered_packets_total", "Packets that hosts, real and modelled, sent into the fabric.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Entered) }),
	counter(labLabels, "lab_originated_packets_total", "Packets that switches generated.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Originated) }),
	counter(labLabels, "lab_replicated_packets_total", "Copies of packets that went to several ports.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Replicated) }),
	counter(labLabels, "lab_duplicated_packets_total", "Copies that links made on purpose.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Duplicated) }),
	counter(labLabels, "lab_delivered_packets_total", "Packets delivered to hosts.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Delivered) }),
	counter(labLabels, "lab_consumed_packets_total", "Packets for ports, switches, routers and edge services.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Consumed) }),
	gauge(labLabels, "lab_held_packets", "Packets in queues and on links now.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Held) }),
	counter(labLabels, "lab_marked_packets_total", "Packets marked CE.",
		func(s *report.Sample) float64 { return float64(s.Accounts.Marked) }),

	counter(labLabels, "engine_events_total", "Events processed by the engines.",
		func(s *report.Sample) float64 { return float64(s.Events) }),
	counter(labLabels, "engine_cpu_seconds_total", "Processor time of the engines' threads.",
		func(s *report.Sample) float64 { return s.EngineCPUTime.Seconds() }),
	counter(labLabels, "engine_process_cpu_seconds_total", "Processor time of the emulator's process, including its engines.",
		func(s *report.Sample) float64 { return s.CPUTime.Seconds() }),
	counter(labLabels, "engine_deliveries_total", "Packets delivered to real hosts with known lateness.",
		func(s *report.Sample) float64 { return float64(s.Timing.Lateness.Count) }),
	counter(labLabels, "engine_late_deliveries_total", "Deliveries to real hosts later than the limit.",
		func(s *report.Sample) float64 { return float64(s.Timing.Lateness.Beyond) }),
	gauge(labLabels, "engine_lateness_limit_seconds", "How late a delivery may be: fidelity.limit of the lab file.",
		func(s *report.Sample) float64 { return s.Timing.Lateness.Limit.Seconds() }),
	gauge(labLabels, "engine_lateness_p50_seconds", "Median lateness of deliveries to real hosts, over the whole run.",
		func(s *report.Sample) float64 { return s.Timing.Lateness.P50.Seconds() }),
	gauge(labLabels, "engine_lateness_p99_seconds", "99th percentile of the lateness, over the whole run.",
		func(s *report.Sample) float64 { return s.Timing.Lateness.P99.Seconds() }),
	gauge(labLabels, "engine_lateness_p999_seconds", "99.9th percentile of the lateness, over the whole run.",
		func(s *report.Sample) float64 { return s.Timing.Lateness.P999.Seconds() }),
	gauge(labLabels, "engine_lateness_max_seconds", "Largest lateness of the whole run.",
		func(s *report.Sample) float64 { return s.Timing.Lateness.Max.Seconds() }),
}

// labDropped has every reason from the beginning, so that rate() sees the first
// drop. portDropped has only reasons that have occurred; otherwise each port
// without drops would have twenty series.
var labDropped = describe([]string{"lab", "reason"}, "lab_dropped_packets_total", "Packets dropped anywhere, by reason.")

var (
	portInfo    = describe([]string{"lab", "node", "port", "kind", "peer"}, "port_info", "1 for each port; kind is the kind of its node, host or switch, and peer the port at the other end of its link.")
	portDropped = describe([]string{"lab", "node", "port", "reason"}, "port_dropped_packets_total", "Packets dropped at the port or on the link that leaves it, by reason; a series begins with the first drop.")
)

var portMetrics = []metric[status.Port]{
	counter(portLabels, "port_receive_packets_total", "Packets received, including damaged ones.",
		func(p *status.Port) float64 { return float64(p.RxPackets) }),
	counter(portLabels, "port_receive_bytes_total", "Bytes of frames received, without FCS.",
		func(p *status.Port) float64 { return float64(p.RxBytes) }),
	counter(portLabels, "port_transmit_packets_total", "Packets sent.",
		func(p *status.Port) float64 { return float64(p.TxPackets) }),
	counter(portLabels, "port_transmit_bytes_total", "Bytes of frames sent, without FCS.",
		func(p *status.Port) float64 { return float64(p.TxBytes) }),
	counter(portLabels, "port_marked_packets_total", "Packets marked CE at the port.",
		func(p *status.Port) float64 { return float64(p.Marked) }),
	counter(portLabels, "port_ignored_pause_frames_total", "Frames received that asked for a pause that the port does not obey.",
		func(p *status.Port) float64 { return float64(p.PauseIgnored) }),
	counter(portLabels, "port_trimmed_packets_total", "Packets trimmed to their headers at the port.",
		func(p *status.Port) float64 { return float64(p.Trimmed) }),
	gauge(portLabels, "port_queue_packets", "Packets in the egress queue now.",
		func(p *status.Port) float64 { return float64(p.QueuePackets) }),
	gauge(portLabels, "port_queue_bytes", "Bytes in the egress queue now.",
		func(p *status.Port) float64 { return float64(p.QueueBytes) }),
	gauge(portLabels, "port_queue_max_bytes", "Maximum bytes in the egress queue since the start.",
		func(p *status.Port) float64 { return float64(p.QueueMax) }),
	gauge(portLabels, "port_queue_limit_bytes", "Limit of the egress queue.",
		func(p *status.Port) float64 { return float64(p.QueueLimit) }),
}

var linkMetrics = []metric[status.Link]{
	gauge(portLabels, "link_up", "1 while the link that leaves the port is up, else 0.",
		func(l *status.Link) float64 { return truth(bool(l.State)) }),
	gauge(portLabels, "link_speed_bytes_per_second", "Rate of the link that leaves the port; absent if unlimited.",
		func(l *status.Link) float64 {
			if l.Rate == 0 {
				return math.NaN()
			}
			return float64(l.Rate) / 8
		}),
	gauge(portLabels, "link_in_flight_packets", "Packets on the link now.",
		func(l *status.Link) float64 { return float64(l.InFlight) }),
	counter(portLabels, "link_corrupted_packets_total", "Packets that the link damaged on purpose.",
		func(l *status.Link) float64 { return float64(l.Corrupted) }),
	counter(portLabels, "link_duplicated_packets_total", "Packets that the link doubled on purpose.",
		func(l *status.Link) float64 { return float64(l.Duplicated) }),
	counter(portLabels, "link_reordered_packets_total", "Packets that the link held back on purpose.",
		func(l *status.Link) float64 { return float64(l.Reordered) }),
}
