package uverbs

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// TestResolveAddr_TakesTheDeviceOfTheSource: of a host with two NICs an ID gets the one with the
// local address of the request, which the routes of the kernel have chosen, whether the ID is
// bound to no address, to any, or to a loopback address; and not one that no NIC has.
func TestResolveAddr_TakesTheDeviceOfTheSource(t *testing.T) {
	w := newWorld(t)
	var priorities [64]uint8
	second, err := nicemu.New(nicemu.Settings{MTU: qp.MTU1024, AskEvery: 16, Timeout: 8, RetryCount: 1, RNRRetry: 1, Limits: qp.ConnectX5()}, nicemu.Env{
		Name: "h1:eth1", MAC: 0x020000000002, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.2.0.1")}, Line: 10 * units.Gbps,
		Priority: &priorities, Pool: packet.NewPools(1)[0], Now: w.engine.Now, Timer: w.engine.NewTimer(fire{w}), Port: nowhere{},
		Path: func(_, _ netip.Addr) (nicemu.Path, bool) { return nicemu.Path{}, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.server.devices = append(w.server.devices, Device{second, "eth1"})
	c := w.connect()
	defer c.close()
	c.greet()
	channel := must[handleMsg](c, opCMCreateChannel, none{}).Handle
	v4 := func(b ...byte) endpoint {
		e := endpoint{Family: unix.AF_INET}
		copy(e.IP[10:], append([]byte{0xff, 0xff}, b...))
		return e
	}
	remote := v4(10, 2, 0, 9)
	remote.Port = 7
	for name, bound := range map[string]*endpoint{"not bound": nil, "any": {Family: unix.AF_INET6}, "any IPv4": ptr(v4(0, 0, 0, 0)), "loopback": ptr(v4(127, 0, 0, 1))} {
		id := must[handleMsg](c, opCMCreateID, cmCreateID{Channel: channel, PortSpace: uint32(spaceTCP)}).Handle
		if bound != nil {
			must[cmAddress](c, opCMBind, cmAddress{ID: id, Local: *bound})
		}
		a := must[cmAddress](c, opCMResolveAddr, cmResolve{ID: id, Local: v4(10, 2, 0, 1), Remote: remote})
		if a.Device != 2 || a.Local.IP != v4(10, 2, 0, 1).IP || a.Local.Port == 0 {
			t.Errorf("%s: device %d, local %+v", name, a.Device, a.Local)
		}
		w.sound()
	}
	id := must[handleMsg](c, opCMCreateID, cmCreateID{Channel: channel, PortSpace: uint32(spaceTCP)}).Handle
	must[cmAddress](c, opCMBind, cmAddress{ID: id, Local: v4(0, 0, 0, 0)})
	if a := c.ask(opCMResolveAddr, cmResolve{ID: id, Local: v4(10, 3, 0, 1), Remote: remote}); errnoOf(a.err) != unix.EADDRNOTAVAIL {
		t.Errorf("a source that no NIC has: %v", a.err)
	}
	// An ID that is bound to an address keeps it.
	id = must[handleMsg](c, opCMCreateID, cmCreateID{Channel: channel, PortSpace: uint32(spaceTCP)}).Handle
	must[cmAddress](c, opCMBind, cmAddress{ID: id, Local: v4(10, 1, 0, 1)})
	if a := must[cmAddress](c, opCMResolveAddr, cmResolve{ID: id, Local: v4(10, 2, 0, 1), Remote: remote}); a.Local.IP != v4(10, 1, 0, 1).IP {
		t.Errorf("an ID bound to 10.1.0.1 has the local address %v", netip.AddrFrom16(a.Local.IP).Unmap())
	}
	w.sound()
}

func ptr[T any](x T) *T { return &x }
