package trim

import (
	"bytes"
	"net"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

var (
	macA = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	macB = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// datagram returns a packet with a UDP payload of n bytes.
func datagram(t *testing.T, pool *packet.Pool, v6 bool, n int) *packet.Packet {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: 1111, DstPort: 4791}
	var ip gopacket.SerializableLayer
	if v6 {
		eth.EthernetType = layers.EthernetTypeIPv6
		l := &layers.IPv6{Version: 6, TrafficClass: 26<<2 | 2, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2")}
		_ = udp.SetNetworkLayerForChecksum(l)
		ip = l
	} else {
		l := &layers.IPv4{Version: 4, TOS: 26<<2 | 2, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
		_ = udp.SetNetworkLayerForChecksum(l)
		ip = l
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, ip, udp, gopacket.Payload(bytes.Repeat([]byte{7}, n))); err != nil {
		t.Fatal(err)
	}
	p := pool.NewFrame(len(buf.Bytes()))
	copy(p.Frame, buf.Bytes())
	if !p.Parse() {
		t.Fatal("not a frame")
	}
	return p
}

// TestCut checks the remaining bytes, the headers, and the header checksum with
// gopacket.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		name   string
		v6     bool
		config Config
		size   units.Bytes
		length uint16 // in the IP header
	}{
		{"IPv4", false, Config{Keep: 24, DSCP: 10}, 14 + 20 + 24, 20 + 8 + 1000},
		{"IPv4, length corrected", false, Config{Keep: 24, DSCP: 10, FixLength: true}, 14 + 20 + 24, 20 + 24},
		{"IPv6", true, Config{Keep: 64, DSCP: 0}, 14 + 40 + 64, 8 + 1000},
		{"IPv6, length corrected", true, Config{Keep: 64, DSCP: 63, FixLength: true}, 14 + 40 + 64, 64},
	} {
		pool := packet.NewPools(1)[0]
		pool.Render = gso.RenderPacket
		p := datagram(t, pool, c.v6, 1000)
		whole := bytes.Clone(p.Frame)
		got := TrimPacket(pool, p, &c.config)
		if got == nil {
			t.Errorf("%s: not cut", c.name)
			continue
		}
		if got.Size != c.size || len(got.Frame) != int(c.size) || !got.Trimmed || got.Whole != units.Bytes(len(whole)) || got.TOS != c.config.DSCP<<2|2 {
			t.Errorf("%s: %d bytes, frame %d, whole %d, ToS %#x", c.name, got.Size, len(got.Frame), got.Whole, got.TOS)
		}
		g := gopacket.NewPacket(got.Frame, layers.LayerTypeEthernet, gopacket.Default)
		var length uint16
		var tos uint8
		if c.v6 {
			ip := g.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
			length, tos = ip.Length, ip.TrafficClass
		} else {
			ip := g.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
			length, tos = ip.Length, ip.TOS
			sum := uint32(0)
			for i := 14; i < 34; i += 2 {
				sum += uint32(got.Frame[i])<<8 | uint32(got.Frame[i+1])
			}
			if sum = sum>>16 + sum&0xffff; sum != 0xffff {
				t.Errorf("%s: the header checksum is wrong: %#x", c.name, sum)
			}
		}
		if length != c.length || tos != got.TOS {
			t.Errorf("%s: length %d, ToS %#x; want %d", c.name, length, tos, c.length)
		}
		// Nothing changes after the IP header.
		header := 34
		if c.v6 {
			header = 54
		}
		if !bytes.Equal(got.Frame[header:], whole[header:c.size]) {
			t.Errorf("%s: what was kept has changed", c.name)
		}
		if again := TrimPacket(pool, got, &c.config); again != nil {
			t.Errorf("%s: cut twice", c.name)
		}
		pool.Free(got)
		if pool.LivePackets() != 0 {
			t.Errorf("%s: %d live", c.name, pool.LivePackets())
		}
	}
}

// TestNotCut: packets with nothing to cut, and packets other than IP.
func TestNotCut(t *testing.T) {
	pool := packet.NewPools(1)[0]
	p := datagram(t, pool, false, 24-8)
	if TrimPacket(pool, p, &Config{Keep: 24}) != nil {
		t.Error("a packet of just what is kept was cut")
	}
	arp := pool.NewFrame(60)
	clear(arp.Frame)
	arp.Frame[12], arp.Frame[13] = 8, 6
	arp.Parse()
	if TrimPacket(pool, arp, &Config{Keep: 24}) != nil {
		t.Error("ARP was cut")
	}
}

// TestCutPartialChecksum: a checksum that a host left to be computed is that of the
// whole packet.
func TestCutPartialChecksum(t *testing.T) {
	pool := packet.NewPools(1)[0]
	pool.Render = gso.RenderPacket
	p := datagram(t, pool, false, 1000)
	want := bytes.Clone(p.Frame[40:42])
	// The sum of the pseudo-header only, as with checksum offload.
	sum := uint32(0x0a00+1) + uint32(0x0a00+2) + 17 + 1008
	p.Frame[40], p.Frame[41] = byte(sum>>8), byte(sum)
	p.Sum = 40
	got := TrimPacket(pool, p, &Config{Keep: 24})
	if !bytes.Equal(got.Frame[40:42], want) || got.Sum != 0 {
		t.Errorf("the checksum is %x, want %x", got.Frame[40:42], want)
	}
	pool.Free(got)
	if pool.LivePackets() != 0 {
		t.Errorf("%d live", pool.LivePackets())
	}
}

// TestReturn: addresses and ports are swapped, and a second time swapped back.
func TestReturn(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		pool := packet.NewPools(1)[0]
		p := datagram(t, pool, v6, 500)
		p.Origin, p.Dest, p.Src, p.Dst = 4, 9, 0xa, 0xb
		before := bytes.Clone(p.Frame)
		ReturnToSender(p)
		g := gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.Default)
		eth, udp := g.Layer(layers.LayerTypeEthernet).(*layers.Ethernet), g.Layer(layers.LayerTypeUDP).(*layers.UDP)
		src, dst := g.NetworkLayer().NetworkFlow().Endpoints()
		wantSrc, wantDst := "10.0.0.2", "10.0.0.1"
		if v6 {
			wantSrc, wantDst = "fd00::2", "fd00::1"
		}
		if eth.SrcMAC.String() != macB.String() || eth.DstMAC.String() != macA.String() || src.String() != wantSrc || dst.String() != wantDst || udp.SrcPort != 4791 || udp.DstPort != 1111 {
			t.Errorf("%v", g)
		}
		if p.Src != 0xb || p.Dst != 0xa {
			t.Errorf("Ethernet addresses of fields: from %v to %v", p.Src, p.Dst)
		}
		if p.Dest != 4 || p.Origin != 9 || p.SrcPort != 4791 || !p.Returned {
			t.Errorf("fields: from %d to %d, port %d", p.Origin, p.Dest, p.SrcPort)
		}
		ReturnToSender(p)
		if !bytes.Equal(p.Frame, before) {
			t.Error("there and back again is not the same")
		}
	}
}
