// Package report holds the report of a run: where every packet went, what the
// queues did, and how far the wall clock can be trusted.
package report

import (
	"fmt"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// Report is the report of a run that has ended or is in progress.
type Report struct {
	Lab      string     `json:"lab"`
	File     string     `json:"file,omitempty"`
	Clock    string     `json:"clock"` // wall or virtual
	Seed     uint64     `json:"seed"`
	Dilation int        `json:"dilation"`        // wall: real time over emulated time; virtual: 0
	Emulated units.Time `json:"emulated"`        // length of the run in emulated time
	Trace    string     `json:"trace,omitempty"` // virtual: hash of everything that happened
	Events   uint64     `json:"events"`
	Partial  *Partial   `json:"partial,omitempty"` // virtual: the run was ended early

	NodeClocks []NodeClock `json:"node_clocks,omitempty"` // of nodes whose clocks are not exact

	Accounts status.Accounts   `json:"accounts"`
	Ports    []status.Port     `json:"ports"`
	Switches []status.Switch   `json:"switches,omitempty"` // that learned Ethernet addresses or flooded
	Flows    []workload.Result `json:"flows,omitempty"`

	Transfers    []workload.TransferResult `json:"transfers,omitempty"`
	TransferSums *workload.TransferSums    `json:"transfer_sums,omitempty"` // of Transfers

	Patterns *Patterns `json:"patterns,omitempty"` // summary of pattern flows

	NICs      []status.NIC      `json:"nics,omitempty"`
	QPs       []status.QP       `json:"qps,omitempty"`        // virtual, if requested
	EdgeFlows []status.EdgeFlow `json:"edge_flows,omitempty"` // of edge services, if requested

	Timeline []status.Moment   `json:"timeline,omitempty"` // events of the network and its hosts
	Outages  []workload.Outage `json:"outages,omitempty"`  // how long flows and transfers stood still because links were down

	Deadlocks  []status.Deadlock   `json:"deadlocks,omitempty"`
	PhaseLocks []status.PhaseLock  `json:"phase_locks,omitempty"`  // packets lost again and again in the same way
	Pauses     []status.PauseCheck `json:"why_no_pause,omitempty"` // virtual, for the requested ports

	Hosts   []Host    `json:"hosts,omitempty"`   // wall
	Sockets []Sockets `json:"sockets,omitempty"` // wall, by host
	Timing  *Timing   `json:"timing,omitempty"`
	Series  *Series   `json:"series,omitempty"` // of queues, if recorded

	FlowSeries *Series `json:"flow_series,omitempty"` // of flows, if recorded
}

// Partial means that the run of a report was ended early. Flows and transfers
// may then be incomplete, and packets are in flight.
type Partial struct {
	Why   string     `json:"why"`             // such as "interrupted"
	Until units.Time `json:"until,omitempty"` // planned end of the run; 0: with its last flow
}

// Place says how far the run got.
func (p *Partial) Place(at units.Time) string {
	if p.Until == 0 {
		return "at " + seconds(at)
	}
	return fmt.Sprintf("at %s of %s", seconds(at), seconds(p.Until))
}

// Host is a real host's interface as counted by the host's kernel.
type Host struct {
	Name      string `json:"name"` // "h1:eth0"
	Namespace string `json:"namespace"`
	TxPackets uint64 `json:"tx_packets"`    // taken from the device by the emulator
	TxDropped uint64 `json:"tx_dropped"`    // by the device: its ring was full
	NoCarrier uint64 `json:"tx_no_carrier"` // by the device: its link was down
	RxPackets uint64 `json:"rx_packets"`
	RxDropped uint64 `json:"rx_dropped"`

	QueueDropped uint64 `json:"qdisc_dropped"` // by the host's own queueing discipline
	QueuePackets int    `json:"qdisc_packets"` // waiting there now

	Offload *Offload `json:"offload,omitempty"` // of devices with offload
	Guest   *Guest   `json:"guest,omitempty"`   // of virtual machines, which have no device counters

	Classes  []HostClass `json:"classes,omitempty"`          // of hosts that have traffic classes
	Together string      `json:"classes_together,omitempty"` // why its classes are held all or none; "" if each is held separately
	Kicks    uint64      `json:"kicks,omitempty"`            // of TxPackets: sent by the emulator itself to let a class continue

	Unroutable uint64 `json:"unroutable,omitempty"` // TUN: to addresses that nobody has on the links of the interface; they never enter the fabric
	Answered   uint64 `json:"answered,omitempty"`   // TUN: ARP and neighbour requests answered on behalf of the host
	Error      string `json:"error,omitempty"`      // why the counters could not be read
}

// Sockets counts datagrams that reached a host but no program, as counted by the
// host's kernel. The fabric has delivered them; a program that numbers its packets
// counts them as lost.
type Sockets struct {
	Host     string `json:"host"`
	Full     uint64 `json:"udp_rcvbuf_errors"` // the receive buffer of their socket was full
	Memory   uint64 `json:"udp_mem_errors"`    // all UDP sockets together were at their limit, net.ipv4.udp_mem
	Unopened uint64 `json:"udp_no_ports"`      // no socket had their port
	Checksum uint64 `json:"udp_csum_errors"`   // their checksum was wrong
	Error    string `json:"error,omitempty"`   // why the counters could not be read
}

// HostClass is a traffic class of a real host before it enters the fabric. A
// class is held in the host while its queue at the host's port is long: because
// it is paused, or because other classes are served first.
type HostClass struct {
	Name     string     `json:"name"`
	Priority uint8      `json:"priority"`
	Holds    uint64     `json:"holds"` // how often the host was stopped from sending it
	Held     units.Time `json:"held"`  // and for how long in total

	QueueDropped uint64 `json:"qdisc_dropped"` // of Host's QueueDropped; 0 if the classes are held together
	QueuePackets int    `json:"qdisc_packets"` // of Host's QueuePackets
}

// Guest counts what happened at an interface of a virtual machine.
type Guest struct {
	Holds uint64 `json:"holds"`           // how often it was kept from sending because its port's queue was long
	Ended string `json:"ended,omitempty"` // how the machine ended before the lab did; "" if it did not
}

// Offload counts what segmentation offload did at one host. A super-packet
// counts as one in Host's TxPackets, and a write as one in its RxPackets.
type Offload struct {
	Supers  uint64 `json:"supers"`  // super-packets that the host sent
	Pieces  uint64 `json:"pieces"`  // packets they were split into
	Written uint64 `json:"written"` // packets given to the host
	Writes  uint64 `json:"writes"`  // in as many writes

	Window  units.Time `json:"window"` // how long a packet may wait to be joined with others
	HeldP50 units.Time `json:"held_p50"`
	HeldP99 units.Time `json:"held_p99"`
	HeldMax units.Time `json:"held_max"`
}

// Timing is how well the emulator kept to the wall clock. Its times are emulated;
// multiply by Dilation for real time.
type Timing struct {
	Dilation int             `json:"dilation"`
	Lateness status.Lateness `json:"lateness"`
	Realtime bool            `json:"realtime"` // the engine's thread has SCHED_FIFO
	IO       string          `json:"io"`       // how hosts' devices were read and written: uring, for those without offload, or read-write
	Spin     units.Time      `json:"spin"`
	Workers  int             `json:"workers"`               // threads that run the lab, with an engine each
	CPU      float64         `json:"cpu_cores"`             // of the whole process, mean over the run's real time
	Engine   float64         `json:"engine_cpu_cores"`      // of the engine's thread
	Stood    units.Time      `json:"stood,omitempty"`       // how long emulated time stood still, because the engine could not keep up or was stopped
	Absent   units.Time      `json:"did_not_run,omitempty"` // how long the engine's process, or the machine, was stopped, in real time
	Strict   bool            `json:"strict"`
	Overload string          `json:"overload,omitempty"` // when and why the machine did not keep up, and at what rates it could
	Allowed  units.Fraction  `json:"allowed"`            // share of deliveries that may be later than the limit
}

// Kept reports whether no more deliveries were late than the file allows, and
// emulated time never stood still.
func (t *Timing) Kept() bool { return t.Lateness.Share <= t.Allowed && t.Stood == 0 }

// Failed reports whether the run is invalid: it was strict, and the limits were
// not kept.
func (r *Report) Failed() bool { return r.Timing != nil && r.Timing.Strict && !r.Timing.Kept() }
