package fabric

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// NICStatus is the state of one NIC at one moment, with its counts since the start.
type NICStatus struct {
	Name     string       `json:"name"` // "h1:eth0", as its port
	Node     string       `json:"node"`
	MAC      string       `json:"mac"`
	GIDs     []netip.Addr `json:"gids"`                // by index
	MTU      int          `json:"mtu"`                 // largest path MTU
	LineRate units.Rate   `json:"line_rate"`           // of the port
	DSCP     uint8        `json:"dscp"`                // for packets whose address vector has no traffic class
	AckDSCP  *uint8       `json:"ack_dscp,omitempty"`  // of acknowledgements; absent if they use that of their data
	Control  string       `json:"cc"`                  // rate control, as in the lab file
	Preset   string       `json:"preset,omitempty"`    // of its parameters
	Layer    *LayerStatus `json:"layer,omitempty"`     // software above its queue pairs; absent if there is none
	Recovery string       `json:"recovery"`            // loss recovery, as in the lab file
	Delays   *Delays      `json:"delays,omitempty"`    // between it and its host; absent if there are none
	States   QPStates     `json:"queue_pairs"`         // number in each state
	Limited  int          `json:"limited_queue_pairs"` // held below the line rate by rate control now

	CQs  int `json:"cqs"`
	SRQs int `json:"srqs"`
	AHs  int `json:"ahs"`
	PDs  int `json:"pds"`
	MRs  int `json:"mrs"`
	MWs  int `json:"mws"`

	Listeners []Listener `json:"listeners,omitempty"` // of its connection manager, in the order in which they began

	Flows    []FlowGauge `json:"flows,omitempty"` // rates, windows and gauges of rate control
	Counters NICCounters `json:"counters"`
}

// Listener waits for connections, or for questions about datagrams (rdma_listen(3)).
type Listener struct {
	PortSpace string     `json:"port_space"`       // TCP, UDP or IPoIB, as rdma resource show cm_id names it
	Address   netip.Addr `json:"address,omitzero"` // absent for all addresses of the NIC
	Port      uint16     `json:"port"`
}

// listenersOf returns the listeners of a NIC.
func listenersOf(n *nic) (list []Listener) {
	for _, l := range n.Listeners() {
		space := "IPoIB"
		switch protocol, _, ip := l.Service.IP(); {
		case ip && protocol == msg.ProtocolTCP:
			space = "TCP"
		case ip:
			space = "UDP"
		}
		port, _ := l.Service.Port()
		list = append(list, Listener{space, l.Address, port})
	}
	return list
}

// LayerStatus is the state of the layer above a NIC's queue pairs.
type LayerStatus struct {
	Name string      `json:"name"` // as in the lab file
	Work []LayerWork `json:"work"` // since the start
}

// LayerWork counts one kind of a layer's work.
type LayerWork struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// layerStatus returns the state of a NIC's layer; nil without a layer.
func layerStatus(n *nic) *LayerStatus {
	layer, choice := n.Layer(), n.Settings().Layer
	if layer == nil {
		return nil
	}
	s := &LayerStatus{Name: choice.String()}
	counts := layer.Work(nil)
	for i, w := range choice.Work() {
		s.Work = append(s.Work, LayerWork{w.Name, counts[i]})
	}
	return s
}

// Delays are nicemu.Delays.
type Delays struct {
	Doorbell   units.Time `json:"doorbell"`
	DMA        units.Time `json:"dma"`
	Completion units.Time `json:"completion"`
}

// QPStates counts queue pairs by qp.State.
type QPStates [qp.Err + 1]int

// Total returns the number of queue pairs.
func (s QPStates) Total() (n int) {
	for _, k := range s {
		n += k
	}
	return n
}

// MarshalJSON writes an object with the names of all states, including those
// without queue pairs.
func (s QPStates) MarshalJSON() ([]byte, error) {
	return marshalNumbers(len(s), func(i int) (string, uint64) { return qp.State(i).String(), uint64(s[i]) }), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *QPStates) UnmarshalJSON(b []byte) error {
	var m map[string]int
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for i := range s {
		s[i] = m[qp.State(i).String()]
	}
	return nil
}

// NICCounters are the values of a NIC's counters, in the order of nicemu.CounterInfos.
type NICCounters []uint64

// Of returns the counter with a name; 0 if there is none.
func (c NICCounters) Of(name string) uint64 {
	for i, info := range nicemu.CounterInfos() {
		if info.Name == name && i < len(c) {
			return c[i]
		}
	}
	return 0
}

// MarshalJSON writes an object with all counters, in their order.
func (c NICCounters) MarshalJSON() ([]byte, error) {
	return marshalNumbers(len(c), func(i int) (string, uint64) { return nicemu.CounterInfos()[i].Name, c[i] }), nil
}

// UnmarshalJSON reads what MarshalJSON writes. It ignores unknown names.
func (c *NICCounters) UnmarshalJSON(b []byte) error {
	var m map[string]uint64
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	infos := nicemu.CounterInfos()
	*c = make(NICCounters, len(infos))
	for i, info := range infos {
		(*c)[i] = m[info.Name]
	}
	return nil
}

// marshalNumbers writes an object of n numbers, in order.
func marshalNumbers(n int, at func(int) (string, uint64)) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		name, v := at(i)
		b.WriteString(strconv.Quote(name))
		b.WriteByte(':')
		b.WriteString(strconv.FormatUint(v, 10))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// QPStatus is the state of one queue pair at one moment. Timers that do not run are absent.
type QPStatus struct {
	NIC   string `json:"nic"` // "h1:eth0"
	QPN   uint32 `json:"qpn"`
	Type  string `json:"type"`  // RC, UC or UD
	State string `json:"state"` // of ibv_qp_state: RESET, INIT, RTR, RTS, SQD, SQE, ERR

	// Only for RC and UC, from RTR on.
	Local         netip.Addr `json:"local,omitzero"`
	Remote        netip.Addr `json:"remote,omitzero"`
	Peer          string     `json:"peer,omitempty"` // the interface with Remote, such as "h2:eth0"
	RemoteQPN     uint32     `json:"remote_qpn,omitempty"`
	PathMTU       int        `json:"path_mtu,omitempty"`
	DSCP          uint8      `json:"dscp"`
	UDPSourcePort uint16     `json:"udp_source_port,omitempty"`
	Class         string     `json:"class,omitempty"` // class of its packets at the host's port

	// The requester.
	SQPSN          uint32      `json:"sq_psn"`                // the next PSN to send for the first time
	Unacknowledged uint32      `json:"sq_una"`                // the oldest unacknowledged PSN; sq_psn if there is none
	Sends          int         `json:"sends"`                 // work requests posted and not completed
	Fetches        int         `json:"fetches"`               // READs and atomics of these under way
	InFlight       units.Bytes `json:"in_flight"`             // payload of SENDs and WRITEs sent and not acknowledged
	Timeout        units.Time  `json:"ack_timeout,omitempty"` // RC: the local ACK timeout
	AckTimer       units.Time  `json:"ack_timer,omitempty"`   // RC: until it expires
	RNRTimer       units.Time  `json:"rnr_timer,omitempty"`   // RC: until it may send again after an RNR NAK
	Retries        Retries     `json:"retries,omitzero"`      // RC
	RNRRetries     Retries     `json:"rnr_retries,omitzero"`  // RC

	// The responder.
	RQPSN    uint32 `json:"rq_psn"`   // the next expected PSN
	Receives int    `json:"receives"` // posted to its own receive queue and not begun
	Replies  int    `json:"replies"`  // READs and atomics whose response is not completely sent

	Bitmaps *Bitmaps `json:"bitmaps,omitempty"` // of loss recovery that keeps packets out of order

	// Rate control.
	Rate     units.Rate    `json:"rate"`             // allowed now, on the wire; the line rate if nothing limits it
	LineRate units.Rate    `json:"line_rate"`        // of the port
	Window   units.Bytes   `json:"window,omitempty"` // most bytes in flight; 0 means no limit
	Gauges   []gauge.Value `json:"gauges,omitempty"` // of rate control, if there is one
	Control  string        `json:"cc"`               // rate control, as in the lab file
	CNPDue   bool          `json:"cnp_due,omitempty"`

	// Counts since it was created.
	TxPackets   uint64            `json:"tx_packets"` // requests and READ responses sent, for the first time or again
	TxBytes     uint64            `json:"tx_bytes"`   // of frames, without FCS
	RxPackets   uint64            `json:"rx_packets"` // all that arrived
	RxBytes     uint64            `json:"rx_bytes"`
	Marked      uint64            `json:"marked"` // with CE, among those received
	CNPsSent    uint64            `json:"cnps_sent"`
	CNPsHandled uint64            `json:"cnps_handled"`
	Counters    map[string]uint64 `json:"counters,omitempty"` // its share of the NIC's counters, without zeros
}

// Bitmaps are the memory that loss recovery needs in a NIC for each queue pair.
type Bitmaps struct {
	Count int         `json:"count"`
	Bits  int         `json:"bits"`  // of each
	Bytes units.Bytes `json:"bytes"` // of all
	Kept  int         `json:"kept"`  // packets kept out of order now
}

// Retries counts the remaining retries.
type Retries struct {
	Left  uint8 `json:"left"`  // meaningless if Limit means no limit
	Limit uint8 `json:"limit"` // for RNR retries, 7 means no limit
}

// NICs returns the state of every NIC, in the order of the plan.
func (f *Fabric) NICs() []NICStatus { return f.nicStatus(f.nics) }

// NICsOf returns the NICs of a host, or the one of an interface such as
// "h1:eth0". "" means all.
func (f *Fabric) NICsOf(name string) ([]NICStatus, error) {
	list, err := f.nicsOf(name)
	return f.nicStatus(list), err
}

// QPsOf returns the queue pairs of a host's NICs, or of an interface's NIC, by
// rising number. "" means all hosts, in the order of the plan.
func (f *Fabric) QPsOf(name string) ([]QPStatus, error) {
	list, err := f.nicsOf(name)
	if err != nil {
		return nil, err
	}
	pairs := 0
	for _, n := range list {
		pairs += n.InUse().QueuePairs
	}
	out := make([]QPStatus, 0, pairs)
	for _, n := range list {
		for _, q := range n.QPs() {
			out = append(out, f.qpStatus(n, q))
		}
	}
	return out, nil
}

// nicsOf finds NICs by the name of a host or an interface.
func (f *Fabric) nicsOf(name string) (list []*nic, err error) {
	if name == "" {
		return f.nics, nil
	}
	node, isNode := f.Plan.Node(name)
	port := -1
	if !isNode {
		if node, port, err = f.Plan.Endpoint(name); err != nil {
			return nil, err
		}
	}
	for _, n := range f.nics {
		if n.station.Node == node && (port < 0 || n.station.Index == port) {
			list = append(list, n)
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case f.Plan.Nodes[node].Kind != plan.Host:
		return nil, fmt.Errorf("%s is a switch, and only hosts have NICs", f.Plan.Nodes[node].Name)
	}
	return nil, fmt.Errorf("%s has no NIC: write nic: roce for it in the lab file", name)
}

func (f *Fabric) nicStatus(list []*nic) []NICStatus {
	out := make([]NICStatus, len(list))
	for i, n := range list {
		settings, used := n.Settings(), n.InUse()
		s := &out[i]
		*s = NICStatus{
			Name: n.Name(), Node: f.Plan.Nodes[n.station.Node].Name, MAC: hardware(n.MAC()), GIDs: n.Addresses(),
			MTU: settings.MTU.Bytes(), LineRate: n.Line(), DSCP: settings.DSCP, AckDSCP: settings.AckDSCP,
			Control: settings.Control.String(), Preset: settings.Control.Preset, Layer: layerStatus(n), Recovery: settings.Recovery.String(),
			CQs: used.CompletionQueues, SRQs: used.SharedReceiveQueues, AHs: used.AddressHandles,
			PDs: used.ProtectionDomains, MRs: used.MemoryRegions, MWs: used.MemoryWindows,
			Listeners: listenersOf(n),
			Counters:  make(NICCounters, 0, len(nicemu.CounterInfos())),
		}
		if d := Delays(settings.Delays); d != (Delays{}) {
			s.Delays = &d
		}
		for _, q := range n.QPs() {
			s.States[q.State()]++
			if q.Limited() {
				s.Limited++
			}
		}
		s.Flows = n.flowGauges()
		n.EachCounter(func(_ string, v uint64) { s.Counters = append(s.Counters, v) })
	}
	return out
}

// hardware prints a MAC address.
func hardware(m wire.MAC) string {
	return net.HardwareAddr{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}.String()
}

func (f *Fabric) qpStatus(n *nic, q *nicemu.QP) QPStatus {
	attr, config := q.Query()
	x := q.Status()
	t, c := q.Counters()
	s := QPStatus{
		NIC: n.Name(), QPN: q.Number(), Type: config.Type.String(), State: attr.State.String(),
		SQPSN: uint32(x.Window.Next), Unacknowledged: uint32(x.Window.Una), Sends: x.Posted, Fetches: x.Fetching, InFlight: x.Flying,
		RQPSN: uint32(x.Expected), Receives: x.Receives, Replies: x.Replying,
		Rate: x.Rate, LineRate: n.Line(), Window: x.MaxFlying, CNPDue: x.CNPDue,
		TxPackets: c.DataPackets, TxBytes: c.DataBytes, RxPackets: c.RxPackets, RxBytes: c.RxBytes,
		Marked: c.Marked, CNPsSent: c.CNPsSent, CNPsHandled: c.CNPsHandled,
	}
	if s.Rate == 0 {
		s.Rate = s.LineRate
	}
	if x.Remote.IsValid() {
		f.addPath(&s, n, &attr, &x)
	}
	if config.Type == qp.RC && attr.State >= qp.RTS {
		s.Timeout = running(0, transport.AckTimeout(attr.Timeout))
		s.AckTimer, s.RNRTimer = running(n.Now(), x.AckDeadline), running(n.Now(), x.RNRDeadline)
		s.Retries, s.RNRRetries = Retries{x.Retries, attr.RetryCnt}, Retries{x.RNRRetries, attr.RNRRetry}
	}
	if b := x.Bitmaps; b.Count > 0 {
		s.Bitmaps = &Bitmaps{b.Count, b.Bits, units.Bytes(b.Bytes()), b.Kept}
	}
	s.Control, s.Gauges = n.Settings().Control.String(), x.Gauges
	t.Each(func(name string, v uint64) {
		if v == 0 {
			return
		}
		if s.Counters == nil {
			s.Counters = map[string]uint64{}
		}
		s.Counters[name] = v
	})
	return s
}

// addPath fills in where a queue pair's packets go.
func (f *Fabric) addPath(s *QPStatus, n *nic, attr *qp.Attr, x *nicemu.QPStatus) {
	s.Local, s.Remote, s.RemoteQPN, s.PathMTU = x.Local, x.Remote, attr.DestQPN, attr.PathMTU.Bytes()
	s.DSCP, s.UDPSourcePort = x.TOS>>2, x.SourcePort
	s.Peer = f.holderOf(x.Remote)
	if !x.Loopback {
		s.Class = n.station.className(x.Priority)
	}
}

// holderOf returns the name of the port with an address, "" if there is none.
func (f *Fabric) holderOf(a netip.Addr) string {
	end, ok := f.topology.PortOf(a)
	if !ok {
		return ""
	}
	return f.Plan.PortName(end.Node, end.Port)
}

// className returns the name of a class of a station's port, "" if there is none.
func (s *Station) className(priority uint8) string {
	if c := s.fabric.Plan.Nodes[s.Node].Ports[s.Index].Class(priority); c != nil {
		return c.Name
	}
	return ""
}

// running returns how long a timer that ends at end still runs; 0 if it does not run.
func running(now, end units.Time) units.Time {
	if end == units.Never {
		return 0
	}
	return end - now
}
