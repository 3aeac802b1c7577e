package netnslab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/switches/class"
)

// threeClasses maps DSCP 26 and PCP 3 to priority 3, DSCP 46 and PCP 5 and 6 to
// priority 5, and everything else to priority 0.
func threeClasses() *Classes {
	c := &Classes{Priorities: []uint8{0, 3, 5}}
	c.Map.DSCP[26], c.Map.DSCP[46] = 3, 5
	c.Map.PCP[3], c.Map.PCP[5], c.Map.PCP[6] = 3, 5, 5
	return c
}

func TestClasses_AreValidated(t *testing.T) {
	for _, c := range []struct {
		change func(*Classes)
		want   string
	}{
		{func(c *Classes) { c.Priorities = nil }, "0 traffic classes: a device has 1 to 8"},
		{func(c *Classes) { c.Priorities = make([]uint8, 9) }, "9 traffic classes"},
		{func(c *Classes) { c.Priorities[0] = 8 }, "priority 8 of a traffic class: priorities are 0 to 7"},
		{func(c *Classes) { c.Priorities[0] = 3 }, "two traffic classes have priority 3"},
		{func(c *Classes) { c.Flows = 86 }, "86 queues for each of 3 traffic classes: a device has at most 256"},
		{func(c *Classes) { c.Map.DSCP[63] = 7 }, "priority 7, but no traffic class has it"},
		{func(c *Classes) { c.Map.Untagged = 7 }, "priority 7, but no traffic class has it"},
	} {
		classes := threeClasses()
		c.change(classes)
		h := hostN(1, TAP, 0)
		h.Interfaces[0].Classes = classes
		if err := h.validateHost(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// want returns the queue of a frame according to its layers, as gopacket reads them.
func (c *Classes) want(frame []byte, kind DeviceKind) int {
	first := gopacket.LayerType(layers.LayerTypeEthernet)
	if kind == TUN {
		switch {
		case len(frame) > 0 && frame[0]>>4 == 4:
			first = layers.LayerTypeIPv4
		case len(frame) > 0 && frame[0]>>4 == 6:
			first = layers.LayerTypeIPv6
		default:
			return c.firstQueue(c.Map.Untagged)
		}
	}
	p := gopacket.NewPacket(frame, first, gopacket.Default)
	if ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok {
		return c.firstQueue(c.Map.DSCP[ip.TOS>>2])
	}
	if ip, ok := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6); ok {
		return c.firstQueue(c.Map.DSCP[ip.TrafficClass>>2])
	}
	if tag, ok := p.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q); ok { // the outermost
		return c.firstQueue(c.Map.PCP[tag.Priority])
	}
	return c.firstQueue(c.Map.Untagged)
}

// ipWith returns the headers of an IP packet.
func ipWith(v6 bool, dscp uint8) []byte {
	if v6 {
		b := make([]byte, 40)
		binary.BigEndian.PutUint32(b, 6<<28|uint32(dscp)<<22|3<<20|0xabcde)
		b[6] = 59 // no next header
		return b
	}
	b := make([]byte, 20)
	b[0], b[1], b[3], b[9] = 0x45, dscp<<2|3, 20, 253
	return b
}

// frameWith returns an Ethernet frame with tags of these priorities before a payload
// of this type.
func frameWith(tags []uint8, ether uint16, payload []byte) []byte {
	f := []byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01")
	for i, pcp := range tags {
		kind := uint16(unix.ETH_P_8021Q)
		if i+1 < len(tags) {
			kind = unix.ETH_P_8021AD
		}
		f = binary.BigEndian.AppendUint16(f, kind)
		f = binary.BigEndian.AppendUint16(f, uint16(pcp)<<13|1<<12|42)
	}
	f = binary.BigEndian.AppendUint16(f, ether)
	return append(f, payload...)
}

// The program and gopacket agree about any packet, for any classes.
func TestSteering_AgreesWithGopacket(t *testing.T) {
	needSteering(t)
	rapid.Check(t, func(t *rapid.T) {
		priority := rapid.Uint8Range(0, class.Count-1)
		c := &Classes{Priorities: rapid.SliceOfNDistinct(priority, 1, class.Count, rapid.ID).Draw(t, "priorities")}
		known := rapid.SampledFrom(c.Priorities)
		for i := range c.Map.DSCP {
			c.Map.DSCP[i] = known.Draw(t, "dscp")
		}
		for i := range c.Map.PCP {
			c.Map.PCP[i] = known.Draw(t, "pcp")
		}
		c.Map.Untagged = known.Draw(t, "untagged")
		c.Flows = rapid.IntRange(0, MaxQueues/class.Count).Draw(t, "flows")
		for _, kind := range []DeviceKind{TAP, TUN} {
			p, err := newSteering(c, kind)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for range 20 {
				f := anyFrame(t, kind)
				// A test run takes an Ethernet frame and passes the bytes after its
				// header to the program (bpf_prog_test_run_skb, net/bpf/test_run.c).
				got, _, err := p.Test(slices.Concat(make([]byte, 14), f, make([]byte, 20)))
				if err != nil {
					t.Fatal(err)
				}
				want := c.want(f, kind)
				if isIP := f[0]>>4 > 2 || kind == TAP && len(f) > 14+28; int(got) < want || int(got) >= want+c.perClass() || !isIP && int(got) != want {
					t.Fatalf("%v %x: queue %d, want %d or one of the %d from there", kind, f, got, want, c.perClass())
				}
			}
		}
	})
}

func anyFrame(t *rapid.T, kind DeviceKind) []byte {
	ip := ipWith(rapid.Bool().Draw(t, "v6"), rapid.Uint8Range(0, 63).Draw(t, "dscp"))
	ether := uint16(unix.ETH_P_IP)
	if ip[0]>>4 == 6 {
		ether = unix.ETH_P_IPV6
	}
	if rapid.Bool().Draw(t, "other") {
		ether = unix.ETH_P_ARP
		ip = make([]byte, 28)
	}
	if kind == TUN {
		return ip
	}
	return frameWith(rapid.SliceOfN(rapid.Uint8Range(0, 7), 0, 3).Draw(t, "tags"), ether, ip)
}

// Packets of a flow use one queue, and flows are distributed over the queues of their class.
func TestSteering_SpreadsFlowsOverQueues(t *testing.T) {
	needSteering(t)
	const n = 16
	c := threeClasses()
	c.Flows = n
	for _, kind := range []DeviceKind{TAP, TUN} {
		p, err := newSteering(c, kind)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		queue := func(tags []uint8, ip []byte) int {
			f := ip
			if kind == TAP {
				ether := uint16(unix.ETH_P_IP)
				if ip[0]>>4 == 6 {
					ether = unix.ETH_P_IPV6
				}
				f = frameWith(tags, ether, ip)
			}
			got, _, err := p.Test(slices.Concat(make([]byte, 14), f))
			if err != nil {
				t.Fatal(err)
			}
			return int(got)
		}
		for _, v6 := range []bool{false, true} {
			for _, proto := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP} {
				used := map[int]bool{}
				for port := range uint16(200) {
					ip := ipWith(v6, 26)
					at := len(ip)
					ip = append(ip, make([]byte, 40)...)
					if v6 {
						ip[6], ip[23], ip[39] = proto, 1, 2
					} else {
						ip[9], ip[12], ip[15], ip[16], ip[19] = proto, 10, 1, 10, 2
					}
					binary.BigEndian.PutUint16(ip[at:], 40000+port)
					binary.BigEndian.PutUint16(ip[at+2:], 5201)
					q := queue(nil, ip)
					used[q] = true
					if q < n || q >= 2*n {
						t.Fatalf("%v: queue %d", kind, q)
					}
					for i := range 20 { // sequence numbers, lengths, TTL
						ip[at+4+i] ^= 0xa5
					}
					if v6 {
						ip[5], ip[7] = 99, 7
					} else {
						ip[3], ip[4], ip[8] = 60, 1, 7
					}
					if again := queue([]uint8{0}, ip); again != q {
						t.Fatalf("%v: a flow's packets take queues %d and %d", kind, q, again)
					}
					if v6 {
						continue
					}
					ip[6] = 0x20 // the ports of a fragmented packet's parts are unknown
					first := queue(nil, ip)
					ip[6], ip[7], ip[at] = 0, 100, 7
					if other := queue(nil, ip); other != first {
						t.Fatalf("%v: fragments take queues %d and %d", kind, first, other)
					}
				}
				if proto == unix.IPPROTO_ICMP && len(used) != 1 || proto != unix.IPPROTO_ICMP && len(used) < n*3/4 {
					t.Errorf("%v, protocol %d: flows take %d queues", kind, proto, len(used))
				}
			}
		}
	}
}

// A device of each kind with classes sorts the packets that its host really sends.
func TestDevices_SortWhatTheirHostSends(t *testing.T) {
	needSteering(t)
	for _, kind := range []DeviceKind{TAP, TUN} {
		for _, offload := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v offload %v", kind, offload), func(t *testing.T) {
				t.Parallel()
				h := hostN(1, kind, 0)
				h.Interfaces[0].Classes, h.Interfaces[0].Offload = threeClasses(), offload
				l := makeLab(t, h)
				d := l.Devices()[0]
				raw := rawSocket(t, l, d)
				for i, f := range steered(kind) {
					f = append(f, fmt.Sprintf("frame %2d", i)...)
					if _, err := unix.Write(raw, f); err != nil {
						t.Fatal(err)
					}
					if got, want := queueOf(t, d, f[len(f)-8:]), d.classes.want(f, kind); got != want {
						t.Errorf("%x came from queue %d, want %d", f, got, want)
					}
				}
				for i, c := range []struct {
					to         string
					dscp, want int
				}{{"10.0.0.9", 0, 0}, {"10.0.0.9", 26, 1}, {"10.0.0.9", 46, 2}, {"fd00::9", 26, 1}, {"fd00::9", 46, 2}} {
					knowNeighbour(t, l, kind, c.to)
					payload := bytes.Repeat(fmt.Appendf(nil, "%8d", i), 500) // several packets
					conn := dscpSocket(t, l, "h1", c.dscp)
					setOption(t, conn, unix.SOL_UDP, unix.UDP_SEGMENT, 1000)
					if _, err := conn.WriteTo(payload, &net.UDPAddr{IP: net.ParseIP(c.to), Port: 9}); err != nil {
						t.Fatal(err)
					}
					if got := queueOf(t, d, payload[:16]); got != c.want {
						t.Errorf("DSCP %d to %s came from queue %d, want %d", c.dscp, c.to, got, c.want)
					}
				}
			})
		}
	}
}

// steered returns packets of all kinds.
func steered(kind DeviceKind) (frames [][]byte) {
	for _, dscp := range []uint8{0, 25, 26, 27, 46, 63} {
		for _, v6 := range []bool{false, true} {
			ip := ipWith(v6, dscp)
			ether := uint16(unix.ETH_P_IP)
			if v6 {
				ether = unix.ETH_P_IPV6
			}
			if kind == TUN {
				frames = append(frames, ip)
				continue
			}
			frames = append(frames, frameWith(nil, ether, ip), frameWith([]uint8{5}, ether, ip), frameWith([]uint8{5, 3}, ether, ip))
		}
	}
	if kind == TAP {
		other := make([]byte, 28)
		for pcp := range uint8(8) {
			frames = append(frames, frameWith([]uint8{pcp}, unix.ETH_P_ARP, other), frameWith([]uint8{pcp, 3}, unix.ETH_P_ARP, other))
		}
		frames = append(frames, frameWith(nil, unix.ETH_P_ARP, other))
	}
	return frames
}

// A tag beside the frame, not in it, counts: a bridge forwards tagged frames like
// this, and a VLAN device its own tags.
func TestSteering_SeesTagsBesideTheFrame(t *testing.T) {
	needSteering(t)
	t.Parallel()
	h := hostN(1, TAP, 0)
	h.Interfaces = append(h.Interfaces, Interface{Name: "eth1", Kind: TAP})
	h.Interfaces[0].Classes = threeClasses()
	h.Interfaces[0].Classes.Map.Untagged = 3
	l := makeLab(t, h)
	for _, args := range []string{"add br0 type bridge", "set eth0 master br0", "set eth1 master br0", "set br0 up"} {
		inNetwork(t, l, "h1", append([]string{"ip", "link"}, strings.Fields(args)...)...)
	}
	out, in := l.Devices()[0], l.Devices()[1]
	for i, c := range []struct {
		tags    []uint8
		ether   uint16
		payload []byte
	}{
		{nil, 0x88b5, nil},
		{[]uint8{0}, 0x88b5, nil},
		{[]uint8{5}, 0x88b5, nil},
		{[]uint8{3}, 0x88b5, nil},
		{[]uint8{4}, 0x88b5, nil},
		{[]uint8{5, 3}, 0x88b5, nil},
		{[]uint8{5}, unix.ETH_P_IP, ipWith(false, 26)},
		{[]uint8{5, 5}, unix.ETH_P_IPV6, ipWith(true, 26)},
	} {
		f := append(frameWith(c.tags, c.ether, c.payload), fmt.Sprintf("frame %2d%20s", i, "")...)
		want := out.classes.want(f, TAP)
		await.True(t, "the bridge forwards", func() bool { // it is learning first
			if _, err := unix.Write(in.FD, f); err != nil {
				t.Fatal(err)
			}
			got := findQueue(out, f[len(f)-28:])
			if got >= 0 && got != want {
				t.Errorf("%x came from queue %d, want %d", f, got, want)
			}
			return got >= 0
		})
	}
}

// rawSocket returns a socket that sends whole frames from h1, or IP packets for a TUN.
func rawSocket(t testing.TB, l *Lab, d *Device) int {
	fd := socketIn(t, l, "h1", func() (int, error) {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: d.index})
	})
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// findQueue reads all packets from the device and returns the queue of a packet with
// the given bytes, -1 if there is none.
func findQueue(d *Device, with []byte) int {
	found := -1
	for i, fd := range d.FDs {
		for buf := make([]byte, 1<<17); ; {
			n, err := unix.Read(fd, buf)
			if err != nil {
				break
			}
			if bytes.Contains(buf[:n], with) {
				found = i
			}
		}
	}
	return found
}

func queueOf(t testing.TB, d *Device, with []byte) (queue int) {
	t.Helper()
	await.True(t, "a packet from the device", func() bool {
		queue = findQueue(d, with)
		return queue >= 0
	})
	return queue
}

// knowNeighbour spares h1 resolving an address.
func knowNeighbour(t testing.TB, l *Lab, kind DeviceKind, address string) {
	if kind == TAP {
		inNetwork(t, l, "h1", "ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:09", "dev", "eth0")
	}
}

// dscpSocket returns a UDP socket in a host whose packets have this DSCP.
func dscpSocket(t testing.TB, l *Lab, host string, dscp int) *net.UDPConn {
	t.Helper()
	conn := socketIn(t, l, host, func() (*net.UDPConn, error) { return net.ListenUDP("udp", nil) })
	t.Cleanup(func() { conn.Close() })
	setOption(t, conn, unix.IPPROTO_IP, unix.IP_TOS, dscp<<2)
	setOption(t, conn, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, dscp<<2)
	return conn
}

// Without the right to load programs a device has one queue, and says why.
func TestDevice_WithoutSteeringHasOneQueue(t *testing.T) {
	refuseSteering(t)
	h := hostN(1, TAP, 0)
	h.Interfaces[0].Classes = threeClasses()
	l := makeLab(t, h, hostN(2, TAP, 0))
	d := l.Devices()[0]
	if len(d.FDs) != 1 || !errors.Is(d.Unsteered, ErrNoSteering) {
		t.Errorf("%d queues, %v", len(d.FDs), d.Unsteered)
	}
	for priority, want := range []int{0, -1, -1, 0, -1, 0, -1, -1} {
		if got, n := d.Queues(uint8(priority)); n == 0 && want >= 0 || n > 0 && got != want {
			t.Errorf("priority %d waits in queue %d, want %d", priority, got, want)
		}
	}
	if got, n := l.Devices()[1].Queues(0); n != 0 {
		t.Errorf("a device without classes: queue %d", got)
	}
}

// needSteering skips a test that keeps classes apart if that is not possible.
func needSteering(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out devices with several queues")
	}
	needRoot(t)
	program, err := newSteering(&Classes{Priorities: []uint8{0, 1}}, TAP)
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	program.Close()
}

// The check agrees with what a lab finds, and leaves nothing behind.
func TestCheckSteering_AgreesWithWhatALabFinds(t *testing.T) {
	l := makeLab(t, Host{Name: "h1"})
	check := func() error {
		return onSparedThread(func() error {
			if err := joinNamespace(l.Info().Hosts[0].Namespace); err != nil {
				t.Error(err)
			}
			err := CheckSteering("check0")
			if _, err := net.InterfaceByName("check0"); err == nil {
				t.Error("the device is still there")
			}
			return err
		})
	}
	if err := check(); err != nil && !errors.Is(err, ErrNoSteering) {
		t.Error(err)
	}
	refuseSteering(t)
	if err := check(); !errors.Is(err, ErrNoSteering) {
		t.Error(err)
	}
}

// refuseSteering makes a test run as on a machine that refuses BPF.
func refuseSteering(t *testing.T) {
	old := newSteering
	newSteering = func(*Classes, DeviceKind) (*ebpf.Program, error) {
		return nil, fmt.Errorf("%w: %w", ErrNoSteering, unix.EPERM)
	}
	t.Cleanup(func() { newSteering = old })
}
