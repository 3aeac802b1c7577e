package transport

import (
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Variants of IRN.
const (
	PaperTimeouts = "irn"  // RTO_low and RTO_high
	LocalTimeouts = "roce" // the local ACK timeout of the queue pair

	PlaceArrival = "arrival" // at once
	PlaceOrdered = "ordered" // when all earlier packets have arrived

	ResendLost   = "lost"   // all packets known to be missing
	ResendOldest = "oldest" // only the oldest
)

// IRNSettings are the parameters of IRN. Defaults are those of the paper's evaluation (§4.1): 40
// Gb/s and 2 us per link. The window depends on the network.
type IRNSettings struct {
	Window     int        `yaml:"window,omitempty" json:"window" jsonschema:"minimum=-1,maximum=16384" jsonschema_description:"maximum packets in flight (BDP-FC), 0 for no limit, -1 to fill the longest path"`
	Few        int        `yaml:"n,omitempty" json:"n" jsonschema:"minimum=0,maximum=16384" jsonschema_description:"N: rto_low applies while fewer packets are in flight, otherwise rto_high"`
	RTOLow     units.Time `yaml:"rto_low,omitempty" json:"rto_low" jsonschema_description:"timeout while few packets are in flight"`
	RTOHigh    units.Time `yaml:"rto_high,omitempty" json:"rto_high" jsonschema_description:"timeout otherwise"`
	Timeouts   string     `yaml:"timeouts,omitempty" json:"timeouts" jsonschema:"enum=irn,enum=roce" jsonschema_description:"irn uses rto_low and rto_high, roce the local ACK timeout of the queue pair"`
	Reordering int        `yaml:"reordering,omitempty" json:"reordering" jsonschema:"minimum=1,maximum=16384" jsonschema_description:"a packet counts as lost when one sent this many packets later has arrived; 1 is the paper's value, more is for networks that spray"`
	Placement  string     `yaml:"placement,omitempty" json:"placement" jsonschema:"enum=arrival,enum=ordered" jsonschema_description:"when payload is written to memory: at arrival, or ordered, when everything before it has arrived"`
	Resend     string     `yaml:"resend,omitempty" json:"resend" jsonschema:"enum=lost,enum=oldest" jsonschema_description:"what a NACK causes to be resent: lost, every packet that it shows to be missing, or oldest, only the oldest, like selective repeat without selective acknowledgements"`
}

// maxKept is the number of packets that a responder keeps if there is no limit of packets in
// flight.
const maxKept = 1 << 14

// responderBitmap returns the size of the responder's bitmap.
func (s *IRNSettings) responderBitmap() uint32 {
	if s.Window == 0 {
		return maxKept
	}
	return uint32(s.inFlightLimit())
}

// inFlightLimit returns how many packets may be in flight; 0 means no limit. If the path is unknown it is
// the paper's limit: 120 KB are some 110 packets of 1 KB with their headers.
func (s *IRNSettings) inFlightLimit() int {
	if s.Window == FromPath {
		return 110
	}
	return s.Window
}

// NeedsPath implements WindowFromPath.
func (s *IRNSettings) NeedsPath() bool { return s.Window == FromPath }

// SetWindow implements WindowFromPath.
func (s *IRNSettings) SetWindow(packets int) { s.Window = packets }

// Validate implements RecoverySettings.
func (s *IRNSettings) Validate(units.Rate) error {
	var c registry.Check
	c.CheckNumber("window", s.Window, FromPath, maxKept)
	c.CheckNumber("n", s.Few, 0, maxKept)
	c.CheckTime("rto_low", s.RTOLow, units.Picosecond)
	c.CheckTime("rto_high", s.RTOHigh, s.RTOLow)
	c.CheckNumber("reordering", s.Reordering, 1, maxKept)
	if s.Timeouts != PaperTimeouts && s.Timeouts != LocalTimeouts {
		c.AddRange("timeouts", s.Timeouts, "%s or %s", PaperTimeouts, LocalTimeouts)
	}
	if s.Placement != PlaceArrival && s.Placement != PlaceOrdered {
		c.AddRange("placement", s.Placement, "%s or %s", PlaceArrival, PlaceOrdered)
	}
	if s.Resend != ResendLost && s.Resend != ResendOldest {
		c.AddRange("resend", s.Resend, "%s or %s", ResendLost, ResendOldest)
	}
	return c.Err()
}

// New implements RecoverySettings.
func (s *IRNSettings) New() Recovery { return NewIRN(s) }

// irnDefaults returns the parameters of the paper's evaluation.
func irnDefaults(string, units.Rate) RecoverySettings {
	return &IRNSettings{
		Window: FromPath, Few: 3, RTOLow: 100 * units.Microsecond, RTOHigh: 320 * units.Microsecond,
		Timeouts: PaperTimeouts, Reordering: 1, Placement: PlaceArrival, Resend: ResendLost,
	}
}
func init() {
	Recoveries.Register("irn", RecoveryKind{
		Summary:  "packets out of order are kept, only missing ones are resent, and packets in flight are limited (Mittal et al., SIGCOMM 2018)",
		Settings: irnDefaults,
	})
}
