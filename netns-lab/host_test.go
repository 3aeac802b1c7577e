package netnslab

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestValidate_NamesTheFault(t *testing.T) {
	if err := validateHosts("leaf-spine_2.x", hostsN(3)); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		lab   string
		spoil func(*Host)
		want  string
	}{
		{"a/b", nil, `lab name "a/b"`},
		{"..", nil, `lab name ".."`},
		{"", nil, `lab name ""`},
		{"lab", func(h *Host) { h.Name = "h 1" }, `host name "h 1"`},
		{"lab", func(h *Host) { h.Name = "h2" }, "duplicate host h2"},
		{"lab", func(h *Host) { h.Interfaces = append(h.Interfaces, h.Interfaces[0]) }, "host h1: duplicate interface eth0"},
		{"lab", func(h *Host) { h.Interfaces[0].Name = "lo" }, "duplicate interface lo"},
		{"lab", func(h *Host) { h.Interfaces[0].Name = "eth%d" }, `"eth%d" cannot name an interface`},
		{"lab", func(h *Host) { h.Interfaces[0].Name = "a-very-long-name" }, "1 to 15 characters"},
		{"lab", func(h *Host) { h.Interfaces[0].Kind = 7 }, "unknown kind of device DeviceKind(7)"},
		{"lab", func(h *Host) { h.Interfaces[0].Kind = TUN; h.Interfaces[0].MAC = net.HardwareAddr{2, 0, 0, 0, 0, 1} }, "has no MAC address"},
		{"lab", func(h *Host) { h.Interfaces[0].MTU = 576 }, "host h1: interface eth0: MTU 576 is too small for fd00::1/64"},
		{"lab", func(h *Host) { h.Interfaces[0].Rate = -1 }, "negative"},
		{"lab", func(h *Host) { h.Interfaces[0].Addresses = []netip.Prefix{{}} }, "empty"},
		{"lab", func(h *Host) {
			h.Routes = []Route{{netip.MustParsePrefix("::/0"), netip.MustParseAddr("10.0.0.1")}}
		}, "other address family"},
		{"lab", func(h *Host) { h.Routes = []Route{{}} }, "both a destination and a gateway"},
	} {
		hosts := hostsN(2)
		if c.spoil != nil {
			c.spoil(&hosts[0])
		}
		if err := validateHosts(c.lab, hosts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v", c.want, err)
		}
	}
}
