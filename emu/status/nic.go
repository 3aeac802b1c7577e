package status

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// NIC is the state of one NIC at one moment, with its counts since the start.
type NIC struct {
	Name     string         `json:"name"` // "h1:eth0", as its port
	Node     string         `json:"node"`
	MAC      string         `json:"mac"`
	GIDs     []netip.Addr   `json:"gids"`                // by index
	MTU      int            `json:"mtu"`                 // largest path MTU
	LineRate units.Rate     `json:"line_rate"`           // of the port
	DSCP     uint8          `json:"dscp"`                // for packets whose address vector has no traffic class
	AckDSCP  *uint8         `json:"ack_dscp,omitempty"`  // of acknowledgements; absent if they use that of their data
	Control  string         `json:"cc"`                  // rate control, as in the lab file
	Preset   string         `json:"preset,omitempty"`    // of its parameters
	Layer    *Layer         `json:"layer,omitempty"`     // software above its queue pairs; absent if there is none
	Recovery string         `json:"recovery"`            // loss recovery, as in the lab file
	Delays   *nicemu.Delays `json:"delays,omitempty"`    // between it and its host; absent if there are none
	States   QPStates       `json:"queue_pairs"`         // number in each state
	Limited  int            `json:"limited_queue_pairs"` // held below the line rate by rate control now

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

// Layer is the state of the layer above a NIC's queue pairs.
type Layer struct {
	Name string      `json:"name"` // as in the lab file
	Work []LayerWork `json:"work"` // since the start
}

// LayerWork counts one kind of a layer's work.
type LayerWork struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
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
