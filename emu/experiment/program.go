package experiment

import (
	"github.com/weftlab/weft/sim/units"
)

// Program is a program that an experiment runs on a host, under the wall clock.
type Program struct {
	Name    string     `json:"name"`
	Host    string     `json:"host"`
	Command string     `json:"command"`           // for sh -c
	At      units.Time `json:"at"`                // emulated, since the lab came up
	Dilated bool       `json:"dilated,omitempty"` // its clock is the lab's
	// Server tells that the program serves others: it is ended when all others have.
	Server bool   `json:"server,omitempty"`
	Read   string `json:"read,omitempty"`   // how its output is read: a name of Readers, or "" for not at all
	Regexp string `json:"regexp,omitempty"` // Read is "regexp": named groups become columns
}
