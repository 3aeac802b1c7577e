package nicemu

import (
	"math/rand/v2"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Env is the world around a NIC.
type Env struct {
	Name      string       // of the device, for example "h1:eth0"
	MAC       wire.MAC     // of the port
	Addresses []netip.Addr // of the port at first: its GID table, in this order
	LinkLocal netip.Addr   // the default GID of the port, behind them; the zero Addr if there is none
	Line      units.Rate   // of the port; 0 means no limit
	Down      bool         // the link of the port is down at first (Device.SetLink)
	Priority  *[64]uint8   // class of the port's queues for each DSCP

	Pool  *packet.Pool
	Now   func() units.Time // emulated time
	Timer Timer
	Port  Port
	// Path returns the path to an address; false if no host has it.
	Path func(from, to netip.Addr) (Path, bool)
	// Trip returns the path to an address and back, for a packet and its acknowledgement of these
	// sizes on the wire, in a fabric without other traffic; the zero cc.Path if there is none.
	Trip func(to netip.Addr, packet, ack units.Bytes) cc.Path
	Rand *rand.Rand // for rate controls
	// Links knows which of the network's links go down. May be nil.
	Links *outage.Window
}

// Timer calls Device.Fire at the time it was armed for.
type Timer interface {
	Arm(at units.Time)
	Disarm()
}

// Port is the port that a NIC sends through. It calls Device.Next for the packets announced to it.
type Port interface {
	// AnnouncePacket announces a packet of a class to send, of size bytes as a frame; 0 means there is none.
	AnnouncePacket(now units.Time, prio uint8, size units.Bytes)
}

// Path is the path to an address.
type Path struct {
	Dest packet.Endpoint // where the Ethernet frame goes
	To   int32           // packet.Packet.To
	MAC  wire.MAC        // of that
}
