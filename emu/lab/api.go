package lab

import (
	"time"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// SocketName is the control socket in a lab's state directory. It serves HTTP
// with JSON bodies; docs/api.md is its reference.
const SocketName = "control.sock"

// Status is the answer to GET /v1/lab: a description of the lab and its state.
type Status struct {
	Name     string             `json:"name"`
	File     string             `json:"file"`
	PID      int                `json:"pid"`
	Started  time.Time          `json:"started"`
	Dilation int                `json:"dilation"`          // real time over emulated time; 1 is real time
	Emulated units.Time         `json:"emulated"`          // time since the start
	Trouble  string             `json:"trouble,omitempty"` // why the machine cannot keep up at the moment
	Hosts    []Host             `json:"hosts"`
	Clocks   []report.NodeClock `json:"node_clocks,omitempty"` // of nodes whose clocks are not exact
	Switches []string           `json:"switches"`              // routers included
	Routers  []Router           `json:"routers,omitempty"`
}

// Router is a switch of a running lab that is a router.
type Router struct {
	Name      string      `json:"name"`
	Addresses []string    `json:"addresses"` // of the router itself
	Ports     []Interface `json:"ports"`
}

// Host is a host of a running lab.
type Host struct {
	Name       string      `json:"name"`
	Attach     string      `json:"attach"`              // tap, tun, none or vm
	Namespace  string      `json:"namespace,omitempty"` // as ip netns knows it
	Interfaces []Interface `json:"interfaces"`
	VM         *Machine    `json:"vm,omitempty"` // of a virtual machine
}

// Machine is a virtual machine of a running lab.
type Machine struct {
	Running bool   `json:"running"`
	Ended   string `json:"ended,omitempty"` // how it ended, if it is not running
	PID     int    `json:"pid"`             // of its QEMU
	Agent   bool   `json:"agent"`           // weft's agent answers in it, so programs can run there
	Console string `json:"console"`         // socket of its console, for one client at a time
	Log     string `json:"log"`             // file with all of its console output
}

// Interface is a connection of a host or a router to the fabric.
type Interface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"`
	Peer      string   `json:"peer,omitempty"`
}

// SetResult is the answer to PATCH /v1/links/{endpoint}: the current state of
// both directions.
type SetResult struct {
	Ports []status.Port `json:"ports"`
}

// Table is the answer to GET /v1/tables/{switch}: for every destination the
// ports that lead there at the moment, and the ports of the tree for frames
// that go to all hosts; for a router, the ports and the next routers of every prefix.
type Table struct {
	Switch string   `json:"switch"`
	Routes []Route  `json:"routes"`
	Tree   []string `json:"tree"`

	Learned []Learned      `json:"learned,omitempty"` // Ethernet addresses, the newest first
	Counts  *status.Switch `json:"counts,omitempty"`  // of learning and flooding; of a switch that is not a router

	Router   bool     `json:"router,omitempty"` // Prefixes replaces Routes and Tree
	Prefixes []Prefix `json:"prefixes,omitempty"`
}

// Prefix is one destination in the Table of a router.
type Prefix struct {
	To      string   `json:"to"`
	Local   bool     `json:"local,omitempty"`   // it is an address of the router itself
	Ports   []string `json:"ports"`             // ports to choose from; empty if there is none
	Weights []int    `json:"weights,omitempty"` // of Ports, if they are not all equal
	Static  bool     `json:"static,omitempty"`  // set by a static route
	Via     []string `json:"via,omitempty"`     // the next routers' ports; empty if the router itself is in the prefix
}

// Route is one destination in a Table.
type Route struct {
	Host      string   `json:"host"` // "h1:eth0", or a router's port
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"`
	Ports     []string `json:"ports"`             // ports to choose from; empty if there is none
	Weights   []int    `json:"weights,omitempty"` // of Ports, if they are not all equal
	Static    bool     `json:"static,omitempty"`  // set by a static route
}

// Learned is an Ethernet address that a switch has learned.
type Learned struct {
	MAC   string     `json:"mac"`
	VLAN  uint16     `json:"vlan"`            // of the tag of its frames; 0 for frames without one
	Host  string     `json:"host"`            // "h1:eth0": the interface behind which it is
	Ports []string   `json:"ports"`           // that lead there, to choose from; empty if there is none
	Age   units.Time `json:"age"`             // since its last frame
	Moved bool       `json:"moved,omitempty"` // the lab file has it elsewhere
}

// errorBody is the body of every answer that reports an error.
type errorBody struct {
	Error string `json:"error"`
}

// The directions of a link that a change applies to, as seen from the named port.
const (
	Both    = "both"
	Egress  = "out"
	Ingress = "in"
)
