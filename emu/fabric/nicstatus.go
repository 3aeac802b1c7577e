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
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// NICStatus is one NIC at one moment, with its counts since the start.
type NICStatus struct {
	Name     string       `json:"name"` // "h1:eth0", as its port
	Node     string       `json:"node"`
	MAC      string       `json:"mac"`
	GIDs     []netip.Addr `json:"gids"`                // by index
	MTU      int          `json:"mtu"`                 // largest path MTU
	LineRate units.Rate   `json:"line_rate"`           // of the port
	DSCP     uint8        `json:"dscp"`                // of packets whose address vector names no traffic class
	AckDSCP  *uint8       `json:"ack_dscp,omitempty"`  // of acknowledgements; absent where they have that of their data
	Control  string       `json:"cc"`                  // rate control, as in the lab file
	Preset   string       `json:"preset,omitempty"`    // of its parameters
	Layer    *LayerStatus `json:"layer,omitempty"`     // software above its queue pairs; absent where there is none
	Recovery string       `json:"recovery"`            // loss recovery, as in the lab file
	Delays   *Delays      `json:"delays,omitempty"`    // between it and its host; absent where there are none
	States   QPStates     `json:"queue_pairs"`         // how many there are in each state
	Limited  int          `json:"limited_queue_pairs"` // that rate control holds below the line rate now

	CQs  int `json:"cqs"`
	SRQs int `json:"srqs"`
	AHs  int `json:"ahs"`
	PDs  int `json:"pds"`
	MRs  int `json:"mrs"`
	MWs  int `json:"mws"`

	Flows    []FlowGauge `json:"flows,omitempty"` // rates and windows, and what rate control shows
	Counters NICCounters `json:"counters"`
}

// LayerStatus is the layer above a NIC's queue pairs.
type LayerStatus struct {
	Name string      `json:"name"` // as in the lab file
	Work []LayerWork `json:"work"` // since the start
}

// LayerWork is how often a layer has done something.
type LayerWork struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// layerStatus is that of a NIC; nil without a layer.
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

// Total is how many there are.
func (s QPStates) Total() (n int) {
	for _, k := range s {
		n += k
	}
	return n
}

// MarshalJSON writes an object with the names of the states, also of those in
// which there is none.
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

// NICCounters is the values of a NIC's counters, in the order of
// nicemu.CounterInfos.
type NICCounters []uint64

// Of gives the counter of a name; 0 if there is none.
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

// UnmarshalJSON reads what MarshalJSON writes. Names that are not known are left
// out.
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

// QPStatus is one queue pair at one moment. Timers that do not run are absent.
type QPStatus struct {
	NIC   string `json:"nic"` // "h1:eth0"
	QPN   uint32 `json:"qpn"`
	Type  string `json:"type"`  // RC, UC or UD
	State string `json:"state"` // of ibv_qp_state: RESET, INIT, RTR, RTS, SQD, SQE, ERR

	// Of RC and UC from RTR on.
	Local         netip.Addr `json:"local,omitzero"`
	Remote        netip.Addr `json:"remote,omitzero"`
	Peer          string     `json:"peer,omitempty"` // the interface that has Remote, such as "h2:eth0"
	RemoteQPN     uint32     `json:"remote_qpn,omitempty"`
	PathMTU       int        `json:"path_mtu,omitempty"`
	DSCP          uint8      `json:"dscp"`
	UDPSourcePort uint16     `json:"udp_source_port,omitempty"`
	Class         string     `json:"class,omitempty"` // of the host's port that its packets are of

	// Of the requester.
	SQPSN          uint32      `json:"sq_psn"`                // the PSN to be sent next for the first time
	Unacknowledged uint32      `json:"sq_una"`                // the oldest PSN that is not acknowledged; sq_psn if none is
	Sends          int         `json:"sends"`                 // work requests that are posted and not completed
	Fetches        int         `json:"fetches"`               // READs and atomics of them under way
	InFlight       units.Bytes `json:"in_flight"`             // payload of SENDs and WRITEs sent and not acknowledged
	Timeout        units.Time  `json:"ack_timeout,omitempty"` // RC: the local ACK timeout
	AckTimer       units.Time  `json:"ack_timer,omitempty"`   // RC: until it expires
	RNRTimer       units.Time  `json:"rnr_timer,omitempty"`   // RC: until it may send again after an RNR NAK
	Retries        Retries     `json:"retries,omitzero"`      // RC
	RNRRetries     Retries     `json:"rnr_retries,omitzero"`  // RC

	// Of the responder.
	RQPSN    uint32 `json:"rq_psn"`   // the PSN that is expected next
	Receives int    `json:"receives"` // posted to its own receive queue and not begun
	Replies  int    `json:"replies"`  // READs and atomics whose response is not sent whole

	Bitmaps *Bitmaps `json:"bitmaps,omitempty"` // of a loss recovery that keeps packets out of order

	// Rate control.
	Rate     units.Rate    `json:"rate"`             // at which it may send now, on the wire: that of the line where nothing limits it
	LineRate units.Rate    `json:"line_rate"`        // of the port
	Window   units.Bytes   `json:"window,omitempty"` // most that may be in flight; 0 is without limit
	Gauges   []gauge.Value `json:"gauges,omitempty"` // of rate control, if there is one
	Control  string        `json:"cc"`               // rate control, as in the lab file
	CNPDue   bool          `json:"cnp_due,omitempty"`

	// Counts since it was made.
	TxPackets   uint64            `json:"tx_packets"` // requests and READ responses sent, for the first time or again
	TxBytes     uint64            `json:"tx_bytes"`   // of frames, without FCS
	RxPackets   uint64            `json:"rx_packets"` // all that came
	RxBytes     uint64            `json:"rx_bytes"`
	Marked      uint64            `json:"marked"` // of them with CE
	CNPsSent    uint64            `json:"cnps_sent"`
	CNPsHandled uint64            `json:"cnps_handled"`
	Counters    map[string]uint64 `json:"counters,omitempty"` // its part of the NIC's counters, where that is not 0
}

// Bitmaps are what loss recovery costs a NIC for each queue pair.
type Bitmaps struct {
	Count int         `json:"count"`
	Bits  int         `json:"bits"`  // of each
	Bytes units.Bytes `json:"bytes"` // of all
	Kept  int         `json:"kept"`  // packets that are out of order now and kept
}

// Retries is how often something is tried again.
type Retries struct {
	Left  uint8 `json:"left"`  // means nothing where Limit is without one
	Limit uint8 `json:"limit"` // of RNR retries 7 is without limit
}

// NICs gives every NIC, in the order of the plan.
func (f *Fabric) NICs() []NICStatus { return f.nicStatus(f.nics) }

// NICsOf gives the NICs of a host, or the one of an interface such as "h1:eth0".
// "" is all.
func (f *Fabric) NICsOf(name string) ([]NICStatus, error) {
	list, err := f.nicsOf(name)
	return f.nicStatus(list), err
}

// QPsOf gives the queue pairs of a host's NICs, or of that of an interface, by
// rising number. "" is all hosts, in the order of the plan.
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
			Counters: make(NICCounters, 0, len(nicemu.CounterInfos())),
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

// addPath says where a queue pair's packets go.
func (f *Fabric) addPath(s *QPStatus, n *nic, attr *qp.Attr, x *nicemu.QPStatus) {
	s.Local, s.Remote, s.RemoteQPN, s.PathMTU = x.Local, x.Remote, attr.DestQPN, attr.PathMTU.Bytes()
	s.DSCP, s.UDPSourcePort = x.TOS>>2, x.SourcePort
	s.Peer = f.holderOf(x.Remote)
	if !x.Loopback {
		s.Class = n.station.className(x.Priority)
	}
}

// holderOf names the port that has an address, "" if none has it.
func (f *Fabric) holderOf(a netip.Addr) string {
	e, ok := f.directory.byIP[a]
	if !ok {
		return ""
	}
	end := f.endpoints[e]
	return f.Plan.PortName(end.Node, end.Port)
}

// className is the name of a class of a station's port, "" if there is none.
func (s *Station) className(priority uint8) string {
	if c := s.fabric.Plan.Nodes[s.Node].Ports[s.Index].Class(priority); c != nil {
		return c.Name
	}
	return ""
}

// running is how long a timer still runs that ends at a time; 0 if it does not
// run.
func running(now, end units.Time) units.Time {
	if end == units.Never {
		return 0
	}
	return end - now
}
