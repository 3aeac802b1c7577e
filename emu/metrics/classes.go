package metrics

import (
	"math"

	"github.com/weftlab/weft/emu/status"
)

var pauseCause = describe(append(classLabels[:len(classLabels):len(classLabels)], "cause"), "class_pause_cause_seconds_total",
	"Time for which the class paused its peer because the queue of the port named by cause was full.")

// classMetrics are the metrics of a port with several queues. A port is paused
// by its peer and is pausing its peer.
var classMetrics = []metric[status.Class]{
	counter(classLabels, "class_transmit_packets_total", "Packets of the class sent.",
		func(c *status.Class) float64 { return float64(c.TxPackets) }),
	counter(classLabels, "class_transmit_bytes_total", "Bytes of frames of the class sent, without FCS.",
		func(c *status.Class) float64 { return float64(c.TxBytes) }),
	counter(classLabels, "class_marked_packets_total", "Packets of the class marked CE.",
		func(c *status.Class) float64 { return float64(c.Marked) }),
	counter(classLabels, "class_trimmed_packets_total", "Packets of the class trimmed to their headers.",
		func(c *status.Class) float64 { return float64(c.Trimmed) }),
	counter(classLabels, "class_dropped_packets_total", "Packets of the class dropped at the port.",
		func(c *status.Class) float64 { return float64(c.Dropped) }),
	gauge(classLabels, "class_queue_packets", "Packets in the class's egress queue now.",
		func(c *status.Class) float64 { return float64(c.QueuePackets) }),
	gauge(classLabels, "class_queue_bytes", "Bytes in the class's egress queue now.",
		func(c *status.Class) float64 { return float64(c.QueueBytes) }),
	gauge(classLabels, "class_queue_max_bytes", "Maximum bytes in the class's egress queue since the start.",
		func(c *status.Class) float64 { return float64(c.QueueMax) }),
	gauge(classLabels, "class_queue_limit_bytes", "Limit of the class's egress queue, or its threshold at this moment.",
		func(c *status.Class) float64 { return float64(c.QueueLimit) }),

	gauge(classLabels, "class_paused", "1 while the peer pauses the class, else 0.",
		func(c *status.Class) float64 { return truth(c.Paused) }),
	counter(classLabels, "class_paused_seconds_total", "Time for which the peer paused the class.",
		func(c *status.Class) float64 { return c.PausedTime.Seconds() }),
	counter(classLabels, "class_paused_total", "Pauses of the class by the peer that have begun; a frame that extends one begins none.",
		func(c *status.Class) float64 { return float64(c.PausedCount) }),
	counter(classLabels, "class_receive_pause_frames_total", "Frames received that asked for a pause of the class.",
		func(c *status.Class) float64 { return float64(c.PauseFramesRx) }),
	counter(classLabels, "class_receive_resume_frames_total", "Frames received that ended a pause of the class.",
		func(c *status.Class) float64 { return float64(c.ResumeFramesRx) }),
	counter(classLabels, "class_ignored_pause_frames_total", "Frames received that asked for a pause of the class, which does not obey them.",
		func(c *status.Class) float64 { return float64(c.PauseIgnored) }),
	counter(classLabels, "class_pause_storms_total", "Times that the pause watchdog stepped in.",
		func(c *status.Class) float64 { return float64(c.Stormed) }),

	gauge(classLabels, "class_pausing", "1 while the class pauses its peer, else 0.",
		func(c *status.Class) float64 { return truth(c.Pausing) }),
	counter(classLabels, "class_pausing_seconds_total", "Time for which the class paused its peer.",
		func(c *status.Class) float64 { return c.PausingTime.Seconds() }),
	counter(classLabels, "class_pausing_total", "Pauses of the peer by the class that have begun; a frame that extends one begins none.",
		func(c *status.Class) float64 { return float64(c.PausingCount) }),
	counter(classLabels, "class_transmit_pause_frames_total", "Frames sent that asked for a pause of the class.",
		func(c *status.Class) float64 { return float64(c.PauseFramesTx) }),
	counter(classLabels, "class_transmit_resume_frames_total", "Frames sent that ended a pause of the class.",
		func(c *status.Class) float64 { return float64(c.ResumeFramesTx) }),
	gauge(classLabels, "class_ingress_bytes", "Bytes in the buffer now that arrived through the port in this class.",
		func(c *status.Class) float64 { return float64(c.IngressBytes) }),
	gauge(classLabels, "class_ingress_max_bytes", "Maximum bytes in the buffer since the start that arrived through the port in this class.",
		func(c *status.Class) float64 { return float64(c.IngressMax) }),
	gauge(classLabels, "class_xoff_bytes", "Ingress bytes from which the class pauses its peer, at this moment; absent where the class is not lossless.", lossless(
		func(c *status.Class) float64 { return float64(c.Xoff) })),
	gauge(classLabels, "class_headroom_bytes", "Headroom of a lossless class at the port; absent where the class is not lossless.", lossless(
		func(c *status.Class) float64 { return float64(c.Headroom) })),
	gauge(classLabels, "class_headroom_max_bytes", "Maximum headroom used since the start; absent where the class is not lossless.", lossless(
		func(c *status.Class) float64 { return float64(c.HeadroomMax) })),
	counter(classLabels, "class_headroom_refused_packets_total", "Packets that found no room in the headroom of the class; absent where the class is not lossless.", lossless(
		func(c *status.Class) float64 { return float64(c.NoHeadroom) })),

	gauge(classLabels, "class_credit_available_bytes", "Credit from the peer now; absent where the class needs none.", spent(
		func(c *status.CreditSpent) float64 { return float64(c.Available) })),
	counter(classLabels, "class_credit_waits_total", "Times that a packet had to wait for credit from the peer; absent where the class needs none.", spent(
		func(c *status.CreditSpent) float64 { return float64(c.Waits) })),
	counter(classLabels, "class_receive_credit_updates_total", "Credit frames from the peer; absent where the class needs none.", spent(
		func(c *status.CreditSpent) float64 { return float64(c.Updates) })),
	gauge(classLabels, "class_credit_buffer_bytes", "Buffer of the port for which the peer gets credit; absent where the class gives none.", given(
		func(c *status.CreditGiven) float64 { return float64(c.Buffer) })),
	gauge(classLabels, "class_credit_held_bytes", "Bytes of that buffer used now, in whole blocks; absent where the class gives no credit.", given(
		func(c *status.CreditGiven) float64 { return float64(c.Held) })),
	gauge(classLabels, "class_credit_held_max_bytes", "Maximum bytes of that buffer used since the start; absent where the class gives no credit.", given(
		func(c *status.CreditGiven) float64 { return float64(c.HeldMax) })),
	counter(classLabels, "class_transmit_credit_updates_total", "Credit frames to the peer; absent where the class gives no credit.", given(
		func(c *status.CreditGiven) float64 { return float64(c.Updates) })),
	counter(classLabels, "class_credit_lost_bytes_total", "Bytes in whole blocks that the peer says it sent and that have not arrived; absent where the class gives no credit.", given(
		func(c *status.CreditGiven) float64 { return float64(c.Lost) })),
}

// spent returns a value that only classes that need credit have.
func spent(value func(*status.CreditSpent) float64) func(*status.Class) float64 {
	return func(c *status.Class) float64 {
		if c.CreditSpent == nil {
			return math.NaN()
		}
		return value(c.CreditSpent)
	}
}

// given returns a value that only classes that give credit have.
func given(value func(*status.CreditGiven) float64) func(*status.Class) float64 {
	return func(c *status.Class) float64 {
		if c.CreditGiven == nil {
			return math.NaN()
		}
		return value(c.CreditGiven)
	}
}

// lossless returns a value that only lossless classes have.
func lossless(value func(*status.Class) float64) func(*status.Class) float64 {
	return func(c *status.Class) float64 {
		if !c.Lossless {
			return math.NaN()
		}
		return value(c)
	}
}
