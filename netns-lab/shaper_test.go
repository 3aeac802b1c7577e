package netnslab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/sim/units"
)

// shapedPair makes a lab of two hosts joined by a wire; h1 sends no faster than r.
func shapedPair(t *testing.T, kind DeviceKind, mtu int, r units.Rate) (*Lab, *wire) {
	h1, h2 := hostN(1, kind, r), hostN(2, kind, 0)
	h1.Interfaces[0].MTU, h2.Interfaces[0].MTU = mtu, mtu
	l := makeLab(t, h1, h2)
	if kind == TAP {
		knowEachOther(t, l)
	}
	return l, join(t, l.Devices()[0], l.Devices()[1])
}

// shaped is what a device's shaper has let through, as the kernel counts it.
type shaped struct {
	packets int
	bytes   units.Bytes // that they occupy on the wire, at least
}

func shapedBy(t *testing.T, d *Device) (s shaped) {
	t.Helper()
	list, err := d.ns.links.QdiscList(d.linkID())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range list {
		if b := q.Attrs().Statistics; q.Attrs().Parent == netlink.HANDLE_ROOT && b != nil {
			s.packets = int(b.Basic.Packets)
			s.bytes = units.Bytes(b.Basic.Bytes) + units.Bytes(s.packets*(ethernetHeader-d.Kind.headerLen()+wireOverhead))
		}
	}
	s.bytes = max(s.bytes, units.Bytes(s.packets*wireMin))
	return s
}

// bucket returns what the shaper may let through at once, in bytes on the wire. The kernel adds
// the overhead of a packet to it.
func (d *Device) bucket() units.Bytes {
	overhead := units.Bytes(ethernetHeader - d.Kind.headerLen() + wireOverhead)
	return max(2*units.Bytes(d.shaper.tallest), d.shaper.rate.BytesIn(shaperMakeUp)) + overhead
}

// checkRate checks that d's packets take as long as the rate and the bucket demand, and that
// none is dropped by the queue. The kernel's timers are under test, so an emulated clock cannot be
// used. On a busy machine the packets take longer, so there is no other bound: that the rate is not
// too low follows from what TestShaper_IsAsTcShowsIt and TestShaper_ChargesWireBytes check.
func checkRate(t *testing.T, d *Device) {
	t.Helper()
	start, before := time.Now(), shapedBy(t, d)
	rate, bucket := d.shaper.rate, d.bucket()
	some := bucket + rate.BytesIn(units.Second/4)
	var got shaped
	await.True(t, fmt.Sprintf("%v from the shaper", some), func() bool {
		got = shapedBy(t, d)
		return got.bytes-before.bytes >= some
	})
	// The kernel rounds the time of a packet down to nanoseconds.
	took := units.FromDuration(time.Since(start)) + units.Time(got.packets-before.packets)*units.Nanosecond
	if maxBytes := bucket + rate.BytesIn(took); got.bytes-before.bytes > maxBytes {
		t.Errorf("at %s %v occupied the wire in %v, more than %v", rate, got.bytes-before.bytes, took, maxBytes)
	}
	if c := countersOf(t, d); c.QueueDrops != 0 {
		t.Errorf("%d packets dropped by the queue", c.QueueDrops)
	}
}

func countersOf(t *testing.T, d *Device) Counters {
	t.Helper()
	c, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func checkNothingDropped(t *testing.T, d *Device) {
	t.Helper()
	if c := countersOf(t, d); c.TxDropped != 0 || c.QueueDrops != 0 {
		t.Errorf("%d packets dropped by the device, %d by the queue", c.TxDropped, c.QueueDrops)
	}
}

func TestShaper_NeverExceedsItsRate(t *testing.T) {
	for _, c := range []struct {
		kind DeviceKind
		rate units.Rate
		mtu  int
		size int // bytes of UDP payload
	}{
		{TAP, 10 * units.Mbps, 1500, 1472},
		{TAP, 100 * units.Mbps, 1500, 1472},
		{TAP, units.Gbps, 9000, 8972},
		{TAP, 100 * units.Mbps, 1500, 500},
		{TAP, 5 * units.Mbps, 1500, 1}, // shorter than Ethernet's shortest
		{TUN, 100 * units.Mbps, 1500, 1472},
	} {
		t.Run(fmt.Sprintf("%v %s %dB", c.kind, c.rate, c.size), func(t *testing.T) {
			t.Parallel()
			l, _ := shapedPair(t, c.kind, c.mtu, c.rate)
			blast(t, l, c.size)
			checkRate(t, l.Devices()[0])
		})
	}
}

// standstill is a rate at which no packet's time comes before the test's end: only the content of
// the bucket passes.
const standstill = 8 // bits per second

// The shaper lets as many bytes through as its bucket has, and charges each packet what it
// occupies on the wire.
func TestShaper_ChargesWireBytes(t *testing.T) {
	for name, c := range map[string]struct {
		kind DeviceKind
		mtu  int
		send func(t *testing.T, l *Lab)
		wire units.Bytes // of a packet
	}{
		"TCP":             {TAP, 1500, stream, 1538},
		"TAP":             {TAP, 1500, func(t *testing.T, l *Lab) { blast(t, l, 500) }, 566},
		"TUN":             {TUN, 1500, func(t *testing.T, l *Lab) { blast(t, l, 500) }, 566},
		"shortest frames": {TAP, 1500, func(t *testing.T, l *Lab) { blast(t, l, 1) }, 84},
		"jumbo frames":    {TAP, 9000, func(t *testing.T, l *Lab) { blast(t, l, 1472) }, 1538},
		"UDP_SEGMENT": {TAP, 1500, func(t *testing.T, l *Lab) {
			listenIn(t, l, "h2", blastPort)
			conn := listenIn(t, l, "h1", 0)
			setOption(t, conn, unix.SOL_UDP, unix.UDP_SEGMENT, 200)
			blastFrom(t, conn, 10_000)
		}, 266},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			l, w := shapedPair(t, c.kind, c.mtu, standstill)
			d := l.Devices()[0]
			c.send(t, l)
			await.True(t, "a packet that waits for the shaper", func() bool { return countersOf(t, d).QueuePackets > 0 })
			await.True(t, "what the bucket lets through", func() bool { return w.frames.Load() == int64(shapedBy(t, d).packets) })
			got, bucket := units.Bytes(w.bytes.Load()), d.bucket()
			if maxBytes := bucket + units.Rate(standstill).BytesIn(units.FromDuration(time.Since(start))); got > maxBytes || got+c.wire <= bucket {
				t.Errorf("%v occupied the wire: the bucket of %v has room for less, or for one more packet of %v", got, bucket, c.wire)
			}
		})
	}
}

// TCP and UDP_SEGMENT hand the kernel many packets as one.
func TestShaper_ChargesEveryPacketOfAnOffload(t *testing.T) {
	const rate = 100 * units.Mbps
	t.Run("TCP", func(t *testing.T) {
		t.Parallel()
		l, w := shapedPair(t, TAP, 1500, rate)
		stream(t, l)
		checkRate(t, l.Devices()[0])
		checkLongest(t, w, 1514)
	})
	t.Run("TCP older than the shaper", func(t *testing.T) {
		t.Parallel()
		l, w := shapedPair(t, TAP, 1500, 0)
		stream(t, l)
		await.True(t, "packets without a limit", func() bool { return w.frames.Load() > 1000 })
		if err := l.Devices()[0].SetRate(rate); err != nil {
			t.Fatal(err)
		}
		checkRate(t, l.Devices()[0])
		checkLongest(t, w, 1514)
	})
	t.Run("UDP_SEGMENT", func(t *testing.T) {
		t.Parallel()
		l, w := shapedPair(t, TAP, 1500, rate)
		listenIn(t, l, "h2", blastPort)
		conn := listenIn(t, l, "h1", 0)
		setOption(t, conn, unix.SOL_UDP, unix.UDP_SEGMENT, 1000)
		blastFrom(t, conn, 50_000)
		checkRate(t, l.Devices()[0])
		checkLongest(t, w, 1042)
	})
}

// checkLongest checks the length of the longest frame on the wire.
func checkLongest(t *testing.T, w *wire, want int64) {
	t.Helper()
	await.True(t, fmt.Sprintf("a frame of %d bytes", want), func() bool { return w.longest.Load() >= want })
	if got := w.longest.Load(); got != want {
		t.Errorf("the longest frame has %d bytes, want %d", got, want)
	}
}

// stream sends from h1 to h2 over TCP until the test ends. Its congestion control,
// reno, fills the link; the machine's default may be bbr, which drains it now and
// then.
func stream(t *testing.T, l *Lab) {
	listener := socketIn(t, l, "h2", func() (net.Listener, error) { return net.Listen("tcp4", "10.0.0.2:0") })
	t.Cleanup(func() { listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
		})
		return errors.Join(cerr, err)
	}}
	conn := socketIn(t, l, "h1", func() (net.Conn, error) { return dialer.Dial("tcp4", listener.Addr().String()) })
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 1<<18); ; {
			if _, err := conn.Write(buf); err != nil {
				return
			}
		}
	}()
}

// A new rate applies to the packets that wait, and loses none.
func TestSetRate_AppliesToWaitingPackets(t *testing.T) {
	t.Parallel()
	l, _ := shapedPair(t, TAP, 1500, 100*units.Mbps)
	d := l.Devices()[0]
	blast(t, l, 1472)
	// The packet that waits longest has 152 ms at the last of these rates, and all of them
	// some minutes.
	for _, r := range []units.Rate{200 * units.Mbps, 20 * units.Mbps, 80 * units.Kbps} {
		if err := d.SetRate(r); err != nil {
			t.Fatal(err)
		}
		checkRate(t, d)
	}
	before := shapedBy(t, d).packets
	await.True(t, "a backlog", func() bool { return countersOf(t, d).QueuePackets > 2000 })
	if err := d.SetRate(0); err != nil {
		t.Fatal(err)
	}
	await.True(t, "thousands of packets without a limit", func() bool { return shapedBy(t, d).packets > before+10_000 })
	if c := countersOf(t, d); c.QueueDrops != 0 {
		t.Errorf("%+v: changing the rate lost packets", c)
	}
	if err := d.SetRate(-1); err == nil || !strings.Contains(err.Error(), "host h1: interface eth0: ") {
		t.Errorf("a negative rate: %v", err)
	}
}

// The kernel has the intended shaper, as `tc` shows.
func TestShaper_IsAsTcShowsIt(t *testing.T) {
	t.Parallel()
	fast := hostN(3, TUN, 100*units.Gbps) // more than 2^32 bytes per second
	l := makeLab(t, hostN(1, TAP, 10*units.Mbps), hostN(2, TAP, 0), fast)
	for _, c := range []struct{ host, want string }{
		{"h1", "rate 10Mbit burst 3Kb/1 mpu 84b peakrate 18014Tbit"},
		{"h1", "overhead 24 linklayer ethernet"},
		{"h3", "rate 100Gbit burst 25000000b/1 mpu 84b"},
		{"h3", "overhead 38 linklayer ethernet"},
	} {
		if out := inNetwork(t, l, c.host, "tc", "-s", "-d", "qdisc", "show", "dev", "eth0"); !strings.Contains(out, c.want) {
			t.Errorf("in %s tc says %q, want %q in it", c.host, out, c.want)
		}
	}
	if out := inNetwork(t, l, "h2", "tc", "qdisc", "show", "dev", "eth0"); strings.Contains(out, "tbf") {
		t.Errorf("an interface without a rate has a shaper: %s", out)
	}
}

// A bucket smaller than a waiting packet would hold it, and all packets after it, for ever.
func TestShaper_LetsLargePacketsThroughAfterASmallerMTU(t *testing.T) {
	t.Parallel()
	l, w := shapedPair(t, TAP, 9000, 10*units.Mbps)
	d := l.Devices()[0]
	blast(t, l, 8000)
	await.True(t, "large packets on the wire and in the queue", func() bool { return w.longest.Load() > 8000 && countersOf(t, d).QueuePackets > 0 })
	if err := d.SetMTU(1500); err != nil {
		t.Fatal(err)
	}
	checkRate(t, d)
}

// Packets beyond the link's rate wait where their sender is throttled.
func TestShaper_MakesSendersWait(t *testing.T) {
	t.Parallel()
	// So slow that the socket's buffer does not drain before its backlog is read.
	h1 := hostN(1, TUN, 10*units.Kbps)
	// The kernel sends nothing by itself.
	h1.Interfaces[0].Addresses = h1.Interfaces[0].Addresses[:1]
	h1.Sysctls = []Sysctl{{"net.ipv6.conf.eth0.disable_ipv6", "1"}}
	l := makeLab(t, h1, hostN(2, TUN, 0))
	conn := listenIn(t, l, "h1", 0)
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 1000)
	to := &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 2}, Port: blastPort}
	if cerr := raw.Control(func(fd uintptr) {
		for err == nil { // the socket is non-blocking
			err = unix.Sendto(int(fd), payload, 0, to)
		}
	}); cerr != nil || err != syscall.EAGAIN {
		t.Fatalf("a sender that outruns its link got %v, want EAGAIN", err)
	}
	c := countersOf(t, l.Devices()[0])
	if c.QueuePackets == 0 || c.QueueBytes != units.Bytes(c.QueuePackets)*1028 || c.QueueOverlimits == 0 || c.TxDropped+c.QueueDrops != 0 {
		t.Errorf("%+v: want a backlog of packets of 1028 bytes, and no drops", c)
	}
}
