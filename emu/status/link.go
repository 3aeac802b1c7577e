package status

import (
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// Link is the state of one direction of a link.
type Link struct {
	Rate      units.Rate  `json:"rate"`
	Delay     units.Time  `json:"delay"`
	MTU       int         `json:"mtu"` // largest layer-3 packet in bytes
	State     links.State `json:"state"`
	InFlight  int         `json:"in_flight"`
	Delivered uint64      `json:"delivered"`

	Loss               units.Fraction     `json:"loss,omitempty"`
	Corrupt            units.Fraction     `json:"corrupt,omitempty"`
	Duplicate          units.Fraction     `json:"duplicate,omitempty"`
	Reorder            units.Fraction     `json:"reorder,omitempty"`
	ReorderBy          units.Time         `json:"reorder_by,omitempty"`
	Jitter             units.Time         `json:"jitter,omitempty"`
	JitterDistribution links.Distribution `json:"jitter_distribution,omitempty"`
	JitterReorder      bool               `json:"jitter_reorder,omitempty"`
	DropMatch          string             `json:"drop_match,omitempty"`

	Corrupted  uint64 `json:"corrupted,omitempty"`
	Duplicated uint64 `json:"duplicated,omitempty"`
	Reordered  uint64 `json:"reordered,omitempty"`
	Cut        uint64 `json:"cut,omitempty"`
}
