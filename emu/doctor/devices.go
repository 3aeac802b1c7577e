package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/sim/units"
)

// Devices is the throughput of a bare loop that reads frames from one TAP and
// writes them to another: no switch, no clock, no queue. 0 means not measured;
// a LeftOut says why.
type Devices struct {
	// Packets per second of the loop's processor time, for UDP datagrams of
	// this many bytes.
	Small float64 `json:"packets_per_second_64,omitempty"`
	Large float64 `json:"packets_per_second_1472,omitempty"`

	// Goodput of one TCP stream; Offload is at MTU 1500 with super-packets of
	// up to 64 KB that are not split (IFF_VNET_HDR, TSO).
	TCP1500 units.Rate `json:"tcp_1500,omitempty"`
	TCP9000 units.Rate `json:"tcp_9000,omitempty"`
	Offload units.Rate `json:"tcp_1500_offload,omitempty"`

	Nice bool `json:"nice"` // the loop had the highest nice level, as a busy engine has
}

// Names of measurements, for LeftOut.
const (
	smallPackets   = "packets of 64 bytes through two TAPs"
	largePackets   = "packets of 1472 bytes through two TAPs"
	streamEthernet = "TCP through two TAPs, MTU 1500"
	streamJumbo    = "TCP through two TAPs, MTU 9000"
	streamOffload  = "TCP through two TAPs with offload"
)

// ethernetMTU and jumboMTU are in bytes of IP packet.
const ethernetMTU, jumboMTU = 1500, 9000

// measureDevices makes all of these measurements and leaves out those that fail.
func measureDevices(ctx context.Context, e effort) (*Devices, []LeftOut) {
	d := &Devices{}
	var left []LeftOut
	measure := func(what string, mtu int, offload bool, t traffic, keep func([]sample)) {
		if ctx.Err() != nil {
			return
		}
		s, nice, err := carryTraffic(ctx, e, mtu, offload, t)
		if err != nil {
			left = append(left, LeftOut{what, err.Error()})
			return
		}
		d.Nice = nice
		keep(s)
	}
	packets := func(to *float64) func([]sample) {
		return func(s []sample) { *to = keepDigits(medianOf(s, sample.perSecond), 3) }
	}
	rate := func(to *units.Rate) func([]sample) {
		return func(s []sample) { *to = units.Rate(keepDigits(medianOf(s, sample.goodput), 3)) }
	}
	measure(smallPackets, ethernetMTU, false, sendUDP(64), packets(&d.Small))
	measure(largePackets, ethernetMTU, false, sendUDP(1472), packets(&d.Large))
	measure(streamEthernet, ethernetMTU, false, sendTCP, rate(&d.TCP1500))
	measure(streamJumbo, jumboMTU, false, sendTCP, rate(&d.TCP9000))
	measure(streamOffload, ethernetMTU, true, sendTCP, rate(&d.Offload))
	if *d == (Devices{Nice: d.Nice}) {
		return nil, left
	}
	return d, left
}

func medianOf(s []sample, f func(sample) float64) float64 {
	v := make([]float64, len(s))
	for i := range s {
		v[i] = f(s[i])
	}
	return medianValue(v)
}

// sample is what the loop carried from the first TAP to the second in one round.
type sample struct {
	frames int
	bytes  int // of frames, with Ethernet header
	wall   time.Duration
	cpu    time.Duration // of the loop's thread
}

func (s sample) perSecond() float64 { return float64(s.frames) / s.cpu.Seconds() }

// tcpHeaders is the size of the Ethernet, IPv4, and TCP headers, with time stamps.
const tcpHeaders = 14 + 20 + 32

func (s sample) goodput() float64 {
	return 8 * float64(s.bytes-s.frames*tcpHeaders) / s.wall.Seconds()
}

// carryLimit is how much longer than planned the loop may take until it has enough frames: on a
// busy machine it and the senders wait for a core.
const carryLimit = 10 * time.Second

// carryTraffic creates two hosts and runs the loop between them while traffic flows.
func carryTraffic(ctx context.Context, e effort, mtu int, offload bool, t traffic) (s []sample, nice bool, err error) {
	var hosts [2]*host
	for i := range hosts {
		if hosts[i], err = newHost(i+1, mtu, offload); err != nil {
			return nil, false, err
		}
		defer hosts[i].closeHost()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.rounds)*e.traffic+e.warm+carryLimit)
	defer cancel()
	l := &loop{ctx: ctx, effort: e, fds: [2]int{hosts[0].fd, hosts[1].fd}, room: mtu + frameSlack, offload: offload}
	ended := make(chan error, 1)
	go func() {
		nice = true
		err := wall.OnThread(wall.Busy, l.runRounds)
		if err != nil && !l.started {
			nice = false
			err = wall.OnThread(wall.Ordinary, l.runRounds)
		}
		ended <- err
	}()
	stop, err := t(ctx, hosts[0], hosts[1])
	if err != nil {
		cancel()
		<-ended
		return nil, false, fmt.Errorf("traffic: %w", err)
	}
	l.flowing.Store(true)
	err = <-ended
	stop()
	return l.samples, nice, err
}
