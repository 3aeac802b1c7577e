// Package eqdsnic is an edge service that carries all packets of a host through EQDS tunnels (Olteanu
// et al., "An edge-queued datagram service for all datacenter traffic", NSDI 2022): packets wait in
// queues of the sending host (EQIFs) until the receiving host gives credit for them, are sprayed
// over all paths packet by packet, and are put in order before delivery to the receiving host. The
// state machines are those of protocols/eqds.
//
// A host has three EQIFs: for RDMA, for Go programs that use EQDS itself (Native), and for all
// other traffic, which is treated as TCP. Each has a tunnel for each destination address. Packets
// other than IP over plain Ethernet, packets to groups, neighbour discovery, and packets to hosts
// without EQDS bypass the tunnels.
//
// Not implemented: PULLs weighted by the load of the core.
package eqdsnic

import (
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/eqif"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/protocols/eqds/tunnel"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Config are the parameters.
type Config struct {
	Backend       tunnel.Backend `yaml:"backend,omitempty" json:"backend" jsonschema_description:"ndp: the first window is sent before there is credit, for networks that trim; rts: credit is requested first; default from the preset"`
	Window        units.Bytes    `yaml:"window,omitempty" json:"window" jsonschema_description:"credit between the two ends of a tunnel, a bandwidth-delay product; default that of the path, at least 50 packets"`
	Paths         int            `yaml:"paths,omitempty" json:"paths" jsonschema_description:"path IDs that packets are spread over, a power of two up to 256; default 256"`
	PullShare     units.Fraction `yaml:"pull-share,omitempty" json:"pull-share" jsonschema_description:"share of the link that PULLs request; default 99%"`
	CreditPerPull int            `yaml:"credit-per-pull,omitempty" json:"credit-per-pull" jsonschema_description:"maximum credit of one PULL, in packets of the link's MTU, 1 to 64; more save control packets, but make bursts of that size; default 1, as in the paper"`
	CountControl  bool           `yaml:"count-control,omitempty" json:"count-control" jsonschema_description:"false: PULLs are paced as if control packets took no bandwidth, as in the paper; the link is then a few percent too full when many short packets are acknowledged; default true"`
	MergeAcks     bool           `yaml:"merge-acks,omitempty" json:"merge-acks" jsonschema_description:"false: acknowledgements never wait to be sent with a PULL; default true, for at most the time of 8 packets, or of two PULLs with more credit, and a quarter of rto"`
	Pulls         string         `yaml:"pulls,omitempty" json:"pulls" jsonschema_description:"which sender is pulled next: fair, all in turn; rdma-first; tcp-first; default fair"`
	RTO           units.Time     `yaml:"rto,omitempty" json:"rto" jsonschema_description:"minimum retransmission timeout; default 100us, or three RTTs if that is longer"`
	Reorder       units.Time     `yaml:"reorder,omitempty" json:"reorder" jsonschema_description:"how long the receiver waits for an overtaken packet; default 30 times rto"`
	GiveUp        units.Time     `yaml:"give-up,omitempty" json:"give-up" jsonschema_description:"how long a receiver may be silent before packets that wait for it are dropped; default 1s"`
	Idle          units.Time     `yaml:"idle,omitempty" json:"idle" jsonschema_description:"idle time after which a tunnel is closed and its memory freed; it is reopened on demand; default 1s"`
	DSCP          int            `yaml:"dscp,omitempty" json:"dscp" jsonschema_description:"DSCP of data packets; default 0"`
	ControlDSCP   int            `yaml:"control-dscp,omitempty" json:"control-dscp" jsonschema_description:"DSCP of control packets and RTS, for a class above that for data; default 48"`
	Tunnels       int            `yaml:"tunnels,omitempty" json:"tunnels" jsonschema_description:"maximum number of tunnels to an interface; default 10000"`

	TCPPackets int         `yaml:"tcp-packets,omitempty" json:"tcp-packets" jsonschema_description:"maximum packets waiting for a destination in the EQIF for TCP and all else but RDMA; default 100"`
	TCPMark    units.Bytes `yaml:"tcp-mark,omitempty" json:"tcp-mark" jsonschema_description:"length from which that EQIF marks ECN-capable packets (RED, all from twice that on); default 16 packets"`

	NativePackets int `yaml:"native-packets,omitempty" json:"native-packets" jsonschema_description:"maximum packets waiting for a destination in the EQIF for programs that use EQDS itself; further ones wait in the programs; default 100"`

	RDMAPackets int            `yaml:"rdma-packets,omitempty" json:"rdma-packets" jsonschema_description:"maximum packets waiting for a destination in the EQIF for RDMA; default 750"`
	KLow        units.Bytes    `yaml:"k-low,omitempty" json:"k-low" jsonschema_description:"length of that queue from which queue pairs get CNPs; default from the preset"`
	KHigh       units.Bytes    `yaml:"k-high,omitempty" json:"k-high" jsonschema_description:"length from which every packet causes a CNP; default from the preset"`
	PMax        units.Fraction `yaml:"pmax,omitempty" json:"pmax" jsonschema_description:"probability of a CNP below k-high; default 100%"`
	Lossless    bool           `yaml:"lossless,omitempty" json:"lossless" jsonschema_description:"true: a packet of the NIC that finds a full queue waits in the NIC, as do all behind it, as with PFC towards the NIC; default false, it is dropped"`
}

// presets are the names of known parameters: the back ends and the NICs of Appendix B.
var presets = []string{"ndp", "rts", "ndp-bluefield2", "rts-bluefield2"}

// fewTunnels is the minimum of Config.Tunnels.
const (
	fewTunnels  = 4
	manyTunnels = 1 << 20
	maxDSCP     = 63
)

// pullOrders are the values of Config.Pulls, for pullClasses.
var pullOrders = map[string]pull.Policy{"fair": pull.Fair{}, "rdma-first": pull.Strict{}, "tcp-first": reversed{}}

// reversed is pull.Strict in reverse order.
type reversed struct{}

// Rank is lower for lower classes.
func (reversed) Rank(class uint8, _ uint64, _ int, _ *uint64) uint64 { return uint64(class) }

func init() {
	edge.Services.Register("eqds", edge.Kind{
		Summary: "carries all of a host's packets in EQDS tunnels (Olteanu et al., NSDI 2022): they wait at the edge until the receiving host grants credit",
		Presets: presets,
		Settings: func(preset string, _ units.Rate) edge.Settings {
			return presetDefaults(preset)
		},
		Gauges: []gauge.Gauge{
			{Name: "tunnels", Help: "tunnels to other hosts", Brief: true},
			{Name: "closed_tunnels", Help: "idle tunnels to other hosts that were closed"},
			{Name: "waiting_tunnels", Help: "tunnels with waiting packets", Brief: true},
			{Name: "waiting", Unit: gauge.Bytes, Help: "waiting frames", Brief: true},
			{Name: "unacknowledged", Help: "packets kept until they are acknowledged"},
			{Name: "incoming_tunnels", Help: "tunnels from other hosts", Brief: true},
			{Name: "pulled_senders", Help: "active-sender list: tunnels that want credit"},
			{Name: "busy", Unit: gauge.Seconds, Help: "time that the link needs for data still to be requested"},
			{Name: "reorder", Unit: gauge.Bytes, Help: "frames waiting for others with lower numbers"},
			{Name: "data", Help: "data packets sent"},
			{Name: "resent", Help: "data packets sent again", Brief: true},
			{Name: "trimmed", Help: "data packets received without payload"},
			{Name: "timeouts", Help: "retransmission timeouts"},
			{Name: "requests", Help: "RTS sent"},
			{Name: "marked", Help: "packets marked in the EQIF"},
			{Name: "cnps", Help: "CNPs to queue pairs of the host's NIC"},
			{Name: "dropped", Help: "packets dropped because the EQIF was full", Brief: true},
			{Name: "native_sent", Help: "delivered messages of Go programs"},
			{Name: "native_received", Help: "messages received for Go programs"},
			{Name: "native_lost", Help: "messages abandoned by the sender, for no socket, or without room in the socket"},
			{Name: "refused", Help: "packets from other hosts without room, or of no tunnel"},
		},
		FlowGauges: flowGauges,
	})
}

// presetDefaults returns the settings of a preset.
func presetDefaults(preset string) *Config {
	r := eqif.RDMAPreset("baseline", nil)
	c := &Config{Paths: 256, PullShare: pull.DefaultShare, CreditPerPull: 1, CountControl: true, MergeAcks: true, Pulls: "fair", GiveUp: units.Second, Idle: units.Second, ControlDSCP: 48, Tunnels: tunnel.DefaultLimits().Tunnels, TCPPackets: 100, NativePackets: 100}
	switch preset {
	case "rts":
		c.Backend = tunnel.RTS
	case "ndp-bluefield2":
		r = eqif.RDMAPreset("bluefield2", nil)
	case "rts-bluefield2":
		c.Backend = tunnel.RTS
		r = eqif.RDMAPreset("bluefield2", nil)
	}
	c.RDMAPackets, c.KLow, c.KHigh, c.PMax = r.Packets, r.CNP.KMin, r.CNP.KMax, r.CNP.PMax
	return c
}

// Overhead implements edge.Encapsulator.
func (c *Config) Overhead(ipv6 bool) units.Bytes {
	if ipv6 {
		return wire.IPv6Header + wire.UDPHeader + eqds.HeaderLen
	}
	return wire.IPv4Header + wire.UDPHeader + eqds.HeaderLen
}

// Validate implements edge.Settings.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	const someMTU = 1514
	pulls := c.pullConfig(line, someMTU)
	check.AddError(pulls.Check())
	t := c.tunnelConfig(line, someMTU, 0)
	if c.Window != 0 {
		// The MTU is known only once the link is: the window checked here works for any.
		t.Window = max(c.Window, 2*someMTU)
		if c.Window < 2*someMTU {
			check.AddRange("window", c.Window, "two packets of the link's MTU or more, such as 30KB")
		} else if maxCredit := max(1, int(c.Window/(2*someMTU))); c.CreditPerPull > maxCredit {
			check.AddRange("credit-per-pull", c.CreditPerPull, "at most %d, half of the window", maxCredit)
		}
	}
	check.AddError(t.Check())
	if pullOrders[c.Pulls] == nil {
		check.AddRange("pulls", c.Pulls, "fair, rdma-first or tcp-first")
	}
	check.CheckTime("idle", c.Idle, units.Picosecond)
	check.CheckNumber("dscp", c.DSCP, 0, maxDSCP)
	check.CheckNumber("control-dscp", c.ControlDSCP, 0, maxDSCP)
	if c.DSCP == c.ControlDSCP {
		check.AddRange("control-dscp", c.ControlDSCP, "one that differs from dscp: control packets need their own class")
	}
	check.CheckNumber("tunnels", c.Tunnels, fewTunnels, manyTunnels)
	check.CheckNumber("tcp-packets", c.TCPPackets, 1, 1<<20)
	if c.TCPMark < 0 {
		check.AddRange("tcp-mark", c.TCPMark, "0 or more, such as 24KB")
	}
	check.CheckNumber("native-packets", c.NativePackets, 1, 1<<20)
	check.CheckNumber("rdma-packets", c.RDMAPackets, 1, 1<<20)
	if c.KLow < 0 {
		check.AddRange("k-low", c.KLow, "0 or more, such as 72KB")
	}
	if c.KHigh < c.KLow {
		check.AddRange("k-high", c.KHigh, "at least k-low, %v", c.KLow)
	}
	check.CheckShare("pmax", c.PMax, 0, 1)
	return check.Err()
}

// pullConfig returns the settings of the pacer of an interface whose frames are at most mtu long.
func (c *Config) pullConfig(line units.Rate, mtu units.Bytes) pull.Config {
	return pull.Config{Line: line, MTU: mtu, Share: c.PullShare, Credit: c.CreditPerPull, Policy: pullOrders[c.Pulls]}
}

// tunnelConfig returns the settings of a tunnel between hosts whose slower link has rate line, with an
// RTT.
func (c *Config) tunnelConfig(line units.Rate, mtu units.Bytes, rtt units.Time) tunnel.Config {
	t := tunnel.Default(line, mtu, rtt, c.CreditPerPull)
	t.Backend, t.Paths, t.GiveUp = c.Backend, c.Paths, c.GiveUp
	if c.Window != 0 {
		t.Window = max(c.Window, 2*mtu)
	}
	if c.RTO != 0 {
		t.RTO = c.RTO
		t.MaxRTO, t.Reorder = 100*t.RTO, 30*t.RTO
	}
	if c.Reorder != 0 {
		t.Reorder = c.Reorder
	}
	if t.AckDelay = min(t.AckDelay, t.RTO/4); !c.MergeAcks {
		t.AckDelay = 0
	}
	t.GiveUp = max(t.GiveUp, t.RTO)
	return t
}

// New implements edge.Settings.
func (c *Config) New(env edge.Env) edge.Service { return newService(c, env) }
