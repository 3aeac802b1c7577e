package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Name returns the device's name: that of its interface, such as "h1:eth0".
func (d *Device) Name() string { return d.env.Name }

// Settings returns the settings that the NIC was made with.
func (d *Device) Settings() Settings { return d.settings }

// Limits returns the limits of the device (ibv_query_device(3)).
func (d *Device) Limits() Limits { return d.settings.Limits }

// PortAttr describes a port (ibv_query_port(3)).
type PortAttr struct {
	Active    bool       // its state: ACTIVE, or DOWN, as its link is
	MaxMTU    MTU        // max_mtu: the largest possible
	ActiveMTU MTU        // active_mtu: the largest that fits the link's MTU
	Line      units.Rate // of the link now, instead of active_speed; 0 means no limit
	GIDs      int        // entries in the table, with gaps
	PKeys     int        // entries in the table
}

// QueryPort returns the attributes of the only port, number 1.
func (d *Device) QueryPort() PortAttr {
	return PortAttr{Active: !d.down, MaxMTU: qp.MTU4096, ActiveMTU: d.settings.MTU, Line: d.line, GIDs: len(d.gids.table), PKeys: 1}
}

// QueryPKey returns an entry of the port's P_Key table (ibv_query_pkey(3)), whose only entry is the
// default partition. EINVAL: there is no such entry.
func (d *Device) QueryPKey(index int) (uint16, error) {
	if index != 0 {
		return 0, fmt.Errorf("%w: %s has no P_Key %d: its only one has index 0", syscall.EINVAL, d.env.Name, index)
	}
	return roce.DefaultPKey, nil
}

// GUID returns the channel adapter's GUID: the MAC address with fffe in the middle, as rdma_rxe
// makes it.
func (d *Device) GUID() uint64 {
	m := uint64(d.env.MAC)
	return m>>24<<40 | 0xfffe<<24 | m&0xffffff
}

// Now returns the emulated time.
func (d *Device) Now() units.Time { return d.env.Now() }
