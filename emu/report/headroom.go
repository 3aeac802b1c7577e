package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/pfc"
)

// SwitchMemory says how the buffer of a switch is divided, and when its ports pause.
type SwitchMemory struct {
	Switch   string         `json:"switch"`
	Buffer   units.Bytes    `json:"buffer,omitempty"` // 0 without a limit
	Headroom units.Bytes    `json:"headroom"`         // of all ports
	Reserve  units.Bytes    `json:"reserve"`          // of all ingress ports and classes
	Shared   units.Bytes    `json:"shared,omitempty"` // what is left; 0 without a limit
	Ports    []PortHeadroom `json:"ports"`
}

// PortHeadroom says how one lossless class of a port pauses, or with PAUSE the whole port.
type PortHeadroom struct {
	Port     string      `json:"port"`
	Peer     string      `json:"peer"`
	Class    string      `json:"class,omitempty"` // "" for the whole port
	Priority uint8       `json:"priority,omitempty"`
	Headroom units.Bytes `json:"headroom"`
	Needed   units.Bytes `json:"needed"`
	Follows  string      `json:"follows"`         // how Needed follows from the link
	Xoff     units.Bytes `json:"xoff,omitempty"`  // static threshold
	Alpha    float64     `json:"alpha,omitempty"` // or dynamic one, and
	Alone    units.Bytes `json:"alone,omitempty"` // where it is when one port alone fills the shared part
	Xon      units.Bytes `json:"xon"`             // how far below the threshold a pause ends
	Obeyed   bool        `json:"obeyed"`          // by the peer
}

// Headrooms returns how the switches of a plan divide their buffers among the classes that
// pause, for switches that have such.
func Headrooms(p *plan.Plan) (all []SwitchMemory) {
	reach := p.Extremes()
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Kind != plan.Switch || n.QoS == nil {
			continue
		}
		m := SwitchMemory{Switch: n.Name, Buffer: n.QoS.Buffer, Shared: n.SharedBuffer()}
		for j := range n.Ports {
			port := &n.Ports[j]
			for _, h := range port.Headroom {
				m.Headroom += h
			}
			add := func(name string, priority uint8, c *pfc.Config) {
				far := p.Links[port.Link].Ends[1-port.End]
				need := plan.HeadroomFor(reach[port.Link][1-port.End], reach[port.Link][port.End])
				obeys := p.Nodes[far.Node].Ports[far.Port].Obeys
				row := PortHeadroom{
					Port: p.PortName(i, j), Peer: p.PortName(far.Node, far.Port), Class: name, Priority: priority,
					Headroom: port.Headroom[priority], Needed: need.Bytes(), Follows: need.String(),
					Xoff: c.Xoff, Alpha: c.Alpha, Xon: c.Offset, Obeyed: obeys.Classes>>priority&1 != 0,
				}
				if name == "" {
					row.Obeyed = obeys.Pause
				}
				if c.Alpha > 0 {
					row.Alone = units.Bytes(float64(m.Shared) * c.Alpha / (1 + c.Alpha))
				}
				m.Ports = append(m.Ports, row)
			}
			for k := range port.Classes {
				c := &port.Classes[k]
				m.Reserve += c.Ingress.Reserve
				if c.PFC != nil && port.Link >= 0 {
					add(c.Name, c.Priority, c.PFC)
				}
			}
			if n.QoS.Pause != nil && port.Link >= 0 {
				add("", 0, n.QoS.Pause)
			}
		}
		if len(m.Ports) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// WriteHeadrooms prints a table for each switch.
func WriteHeadrooms(w io.Writer, all []SwitchMemory) {
	bytes := func(b units.Bytes) string { return size(float64(b)) }
	for i := range all {
		m := &all[i]
		if m.Buffer > 0 {
			fmt.Fprintf(w, "%s: a buffer of %s = %s headroom + %s ingress reserves + %s to share\n", m.Switch, bytes(m.Buffer), bytes(m.Headroom), bytes(m.Reserve), bytes(m.Shared))
		} else {
			fmt.Fprintf(w, "%s: a buffer without limit, of it %s headroom\n", m.Switch, bytes(m.Headroom))
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "port\tpeer\tclass\txoff\txon\theadroom\tneeds\t")
		for j := range m.Ports {
			r := &m.Ports[j]
			class, xoff := "all", bytes(r.Xoff)
			if r.Class != "" {
				class = fmt.Sprintf("%s (%d)", r.Class, r.Priority)
			}
			if r.Alpha > 0 {
				xoff = fmt.Sprintf("alpha %g: %s alone", r.Alpha, bytes(r.Alone))
			}
			var note string
			switch {
			case r.Headroom < r.Needed:
				note = "too small"
			case !r.Obeyed:
				note = "the peer ignores pauses"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s less\t%s\t%s = %s\t%s\n", r.Port, r.Peer, class, xoff, bytes(r.Xon), bytes(r.Headroom), bytes(r.Needed), r.Follows, note)
		}
		t.Flush()
	}
}
