// Package swift implements Swift: Kumar et al., "Swift: Delay is Simple and Effective for
// Congestion Control in the Datacenter", SIGCOMM 2020. A window in packets follows the RTT
// towards a target that grows with the length of the path and, for flows with small
// windows, with the number of flows.
//
// It implements the fabric window (Algorithm 1, §3.2, and the target of §3.5). An emulated
// NIC answers at once, so the window for host delays (§3.3) would have nothing to measure,
// and the RTT is the fabric's delay. Differences from Algorithm 1: the window grows only
// while it is fully used, and a NAK counts as fast recovery. The time of the last decrease
// is recorded only if the window became smaller; as printed, it would also be recorded if
// the window did not change.
package swift

import (
	"math"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("swift", cc.Method{
		Summary: "Swift (Kumar et al., SIGCOMM 2020): the RTT of every packet, compared with a target, sets the window of the flow",
		Presets: Presets,
		Preset: func(name string, _ units.Rate) cc.Settings {
			c := Preset(name)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "cwnd", Help: "window, in packets"},
			{Name: "target", Unit: gauge.Seconds, Help: "target of the RTT"},
			{Name: "rtt", Unit: gauge.Seconds, Help: "RTT of the last acknowledgement", Brief: true},
		},
	})
}

// Control is the state of one flow.
type Control struct {
	cc.NopControl
	config      *Config
	mtu, packet units.Bytes
	path        units.Time // base_target + #hops × ħ
	ai          float64    // packets
	alpha, beta float64    // of flow scaling, picoseconds

	cwnd          float64    // packets
	rtt           units.Time // of the last acknowledgement; 0 before the first
	lastDecrease  units.Time // t_last_decrease
	retransmitCnt int
}

var _ cc.Control = (*Control)(nil)

// New returns the control of a flow. c has passed Validate and is shared, not copied.
func New(c *Config, f cc.Flow) *Control {
	s := &Control{
		config: c, mtu: f.MTU, packet: f.Packet, ai: 1, lastDecrease: math.MinInt64 / 2,
		path: c.BaseTarget + units.Time(max(0, f.Path.Hops-1))*c.HopScale,
	}
	if c.AI > 0 {
		s.ai = float64(c.AI) / float64(f.MTU)
	}
	minRoot := 1 / math.Sqrt(float64(c.FSMaxCwnd))
	s.alpha = float64(c.FSRange) / (1/math.Sqrt(float64(c.FSMinCwnd)) - minRoot)
	s.beta = -s.alpha * minRoot
	switch bdp := f.Path.BDP(); {
	case c.InitialCwnd > 0:
		s.cwnd = float64(c.InitialCwnd)
	case bdp > 0:
		s.cwnd = max(1, float64(bdp)/float64(f.Packet))
	default:
		s.cwnd = 10
	}
	s.cwnd = s.clampWindow(s.cwnd)
	return s
}

// targetDelay returns TargetDelay: t = base_target + #hops × ħ + max(0, min(α/√cwnd + β,
// fs_range)).
func (s *Control) targetDelay() units.Time {
	scaled := float64(s.alpha/math.Sqrt(s.cwnd)) + s.beta
	return s.path + units.Time(max(0, min(scaled, float64(s.config.FSRange))))
}

// OnAck implements "On Receiving ACK".
func (s *Control) OnAck(now units.Time, a *cc.Ack) {
	s.retransmitCnt = 0
	if a.RTT <= 0 {
		return
	}
	canDecrease := now-s.lastDecrease >= a.RTT
	s.rtt = a.RTT
	target, acked := s.targetDelay(), float64(a.Newly)/float64(s.mtu)
	switch {
	case a.RTT >= target && canDecrease:
		over := float64(a.RTT-target) / float64(a.RTT)
		s.decreaseWindow(now, max(1-float64(float64(s.config.Beta)*over), 1-float64(s.config.MaxMDF)))
	case a.RTT >= target, a.InFlight+a.Newly+s.mtu <= s.Window():
	case s.cwnd >= 1:
		s.cwnd = s.clampWindow(s.cwnd + float64(s.ai/s.cwnd*acked))
	default:
		s.cwnd = s.clampWindow(s.cwnd + float64(s.ai*acked))
	}
}

// OnLoss implements "On Retransmit Timeout" and "On Fast Recovery".
func (s *Control) OnLoss(now units.Time, l cc.Loss) {
	s.retransmitCnt++
	if !l.Timeout {
		s.retransmitCnt = 0
	}
	switch {
	case s.retransmitCnt >= s.config.RetxResetThreshold:
		s.decreaseWindow(now, 0)
	case now-s.lastDecrease >= s.rtt:
		s.decreaseWindow(now, 1-float64(s.config.MaxMDF))
	}
}

// decreaseWindow reduces the window to a share of it.
func (s *Control) decreaseWindow(now units.Time, share float64) {
	before := s.cwnd
	s.cwnd = s.clampWindow(s.cwnd * share)
	if s.cwnd < before {
		s.lastDecrease = now
	}
}

func (s *Control) clampWindow(cwnd float64) float64 {
	return max(float64(s.config.MinCwnd), min(cwnd, float64(s.config.MaxCwnd)))
}

// Rate paces windows below a packet: one every rtt/cwnd. Otherwise acknowledgements clock
// the sender.
func (s *Control) Rate() units.Rate {
	if s.cwnd >= 1 || s.rtt == 0 {
		return 0
	}
	return max(1, units.Rate(float64(s.packet)*8*s.cwnd/s.rtt.Seconds()))
}

// Window returns cwnd in payload.
func (s *Control) Window() units.Bytes { return max(s.mtu, units.Bytes(s.cwnd*float64(s.mtu))) }

// AppendGauges implements cc.Control.
func (s *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	rtt := gauge.None
	if s.rtt > 0 {
		rtt = gauge.TimeValue(s.rtt)
	}
	return append(values, s.cwnd, gauge.TimeValue(s.targetDelay()), rtt)
}
