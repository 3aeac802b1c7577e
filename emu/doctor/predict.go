package doctor

import (
	"fmt"
	"math"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// The factors of the prediction. They were measured with scripts/bench
// (docs/performance.md) and can be measured again with it.
const (
	// engineShare is the engine's throughput as a share of the bare loop
	// between two TAPs: 0.87 in a TCP stream at MTU 9000; 1.06 at MTU 1500,
	// where the difference is within the noise.
	engineShare = 0.85

	// offloadShare is the engine's throughput, through one switch, as a share
	// of the bare loop that forwards super-packets unsplit: 0.70 in a TCP
	// stream at MTU 1500 whose packets pass one by one, as they do over links
	// with a rate. Over links without one it is more.
	offloadShare = 0.7

	// oneWaySleeps is how often a packet finds the engine asleep on its path
	// through an idle lab: once, when it leaves its host. It follows from the
	// design and is not measured. A program's reply finds the engine asleep
	// once more; a kernel's reply to a ping arrives before the engine has gone
	// to sleep.
	oneWaySleeps = 1

	// switchHops is how many ports send a packet on a path with one switch: the
	// host's and the switch's.
	switchHops = 2
)

// Prediction predicts the performance of labs on this machine. 0 means unknown,
// because a measurement is missing; LeftOut says which.
type Prediction struct {
	Packets     float64    `json:"packets_per_second,omitempty"` // through one engine
	TCP1500     units.Rate `json:"tcp_1500,omitempty"`           // one stream, one switch
	TCP9000     units.Rate `json:"tcp_9000,omitempty"`
	Offload     units.Rate `json:"tcp_1500_offload,omitempty"`      // if the engine takes super-packets
	RoundTrip   units.Time `json:"round_trip,omitempty"`            // of two programs, as added by an idle lab with one switch
	RoundPerHop units.Time `json:"round_trip_per_switch,omitempty"` // added by each further switch
	LatenessP99 units.Time `json:"lateness_p99,omitempty"`          // of deliveries, while the engine is not overloaded
	Hosts       int        `json:"hosts"`                           // real ones
	HostsLimit  string     `json:"hosts_limit"`                     // what the next one would lack
	VirtualHops float64    `json:"virtual_packet_hops_per_second,omitempty"`
	LeftOut     []LeftOut  `json:"left_out,omitempty"` // what is unknown
}

func predictRates(m *Measured, r room) Prediction {
	var p Prediction
	p.Hosts, p.HostsLimit = r.fittingHosts()
	if d := m.Devices; d != nil {
		p.Packets = keepDigits(engineShare*d.Small, 2)
		p.TCP1500 = shareOf(d.TCP1500)
		p.TCP9000 = shareOf(d.TCP9000)
		p.Offload = units.Rate(keepDigits(offloadShare*float64(d.Offload), 2))
	}
	if m.Virtual != nil {
		p.VirtualHops = m.Virtual.Hops
		p.RoundPerHop = roundNanos(2 * hopTime(m))
	}
	if m.WakeUp != nil && m.Virtual != nil && p.Packets > 0 {
		packet := units.Time(float64(units.Second) / p.Packets)
		p.RoundTrip = roundNanos(2 * (oneWaySleeps**m.WakeUp + packet + switchHops*hopTime(m)))
	}
	switch {
	case m.SleepFIFO != nil:
		p.LatenessP99 = m.SleepFIFO.P99
	case m.Sleep != nil:
		p.LatenessP99 = m.Sleep.P99
	}
	p.leaveOut(m)
	return p
}

// leaveOut lists what is unknown, with the measurements that it needs.
func (p *Prediction) leaveOut(m *Measured) {
	var d Devices
	if m.Devices != nil {
		d = *m.Devices
	}
	type need struct {
		what  string
		known bool
	}
	small, virtual := need{smallPackets, d.Small > 0}, need{virtualSpeed, m.Virtual != nil}
	for _, x := range []struct {
		what  string
		needs []need
	}{
		{"packets", []need{small}},
		{"a TCP stream at MTU 1500", []need{{streamEthernet, d.TCP1500 > 0}}},
		{"a TCP stream at MTU 9000", []need{{streamJumbo, d.TCP9000 > 0}}},
		{"a TCP stream with offload", []need{{streamOffload, d.Offload > 0}}},
		{"round trip", []need{{wakeUpOfThread, m.WakeUp != nil}, small, virtual}},
		{"round trip per switch", []need{virtual}},
		{"lateness", []need{{sleepOrdinary, m.Sleep != nil || m.SleepFIFO != nil}}},
		{virtualSpeed, []need{virtual}},
	} {
		var missing []string
		for _, n := range x.needs {
			if !n.known {
				missing = append(missing, n.what)
			}
		}
		if len(missing) > 0 {
			p.LeftOut = append(p.LeftOut, LeftOut{x.what, "not measured: " + strings.Join(missing, "; ")})
		}
	}
}

func shareOf(bare units.Rate) units.Rate { return units.Rate(keepDigits(engineShare*float64(bare), 2)) }

func hopTime(m *Measured) units.Time { return units.Time(float64(units.Second) / m.Virtual.Hops) }

// keepDigits keeps the first n digits of v; more would suggest more precision than there is.
func keepDigits(v float64, n int) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-float64(n-1))
	return math.Round(math.Round(v/unit) * unit)
}

// setVerdict sets the overall verdict.
func (r *Result) setVerdict() {
	bad, warn := "", 0
	for _, c := range r.Checks {
		switch c.Verdict {
		case Bad:
			if bad != "" {
				bad += ", "
			}
			bad += c.Name
		case Warn:
			warn++
		}
	}
	p := &r.Predict
	if bad != "" {
		r.Verdict = Bad
		r.Summary = fmt.Sprintf("Labs with real hosts cannot run here: see %s above.", bad)
		if p.VirtualHops > 0 {
			r.Summary += " Labs in virtual time (weft sim) can."
		}
		return
	}
	r.Verdict = OK
	if warn > 0 {
		r.Verdict = Warn
	}
	r.Summary = "Labs can run here."
	if p.TCP1500 > 0 && p.Packets > 0 {
		r.Summary = fmt.Sprintf("Labs can run here, of up to %d hosts, as long as all of them together send less than about %s packets a second through the engine, or %s in large packets at MTU 1500.",
			p.Hosts, formatCount(p.Packets), showRate(p.TCP1500))
	}
	switch {
	case warn == 1:
		r.Summary += " 1 warning above says what could be better."
	case warn > 1:
		r.Summary += fmt.Sprintf(" %d warnings above say what could be better.", warn)
	}
}
