package netnslab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftlab/weft/sim/units"
	"golang.org/x/sys/unix"
)

// shapedPair makes a lab of two hosts joined by a wire; h1 sends no faster than r.
func shapedPair(t *testing.T, kind DeviceKind, mtu int, r units.Rate) (*Lab, *wire) {
	h1, h2 := hostN(1, kind, r), hostN(2, kind, 0)
	h1.Interfaces[0].MTU, h2.Interfaces[0].MTU = mtu, mtu
	l := makeLab(t, h1, h2)
	return l, join(t, l.Devices()[0], l.Devices()[1])
}

// checkRate checks, over a second of real time, the rate at which d's packets occupy
// the wire, and that none is dropped. The kernel's timers are under test, so an
// emulated clock cannot be used. How close the wire comes to the rate depends on the
// machine's other load: one measurement within some seconds between half the rate and
// the rate shows that the shaper is not wrong by a factor. The log has the figure.
func checkRate(t *testing.T, d *Device, w *wire, want units.Rate) {
	t.Helper()
	const attempts = 20
	time.Sleep(300 * time.Millisecond) // the first burst, TCP's start
	for range attempts {
		start, before, bytes := time.Now(), countersOf(t, d), w.bytes.Load()
		time.Sleep(time.Second)
		sent, took, after := w.bytes.Load()-bytes, time.Since(start), countersOf(t, d)
		got := float64(sent) * 8 / took.Seconds()
		off := got/float64(want) - 1
		dropped := after.TxDropped - before.TxDropped
		t.Logf("%s: %.4f Mb/s on the wire, %+.3f%%, %d packets dropped by the device", want, got/1e6, 100*off, dropped)
		if after.QueueDrops != 0 {
			t.Fatalf("%d packets dropped by the queue", after.QueueDrops)
		}
		// The wire is read by a goroutine: packets already waiting for it at the
		// start of the second add to those that came during it, tens of
		// milliseconds' worth on a busy machine, sometimes more, and the device
		// drops what does not fit. TestShaperAsTcShowsIt checks with the kernel that
		// overhead and padding are exact to the byte.
		if off > -0.5 && off < 0.05 && dropped == 0 {
			return
		}
	}
	t.Errorf("%d times the wire carried less than half of %s, or more than it, or lost packets", attempts, want)
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

func TestShaperKeepsTheRate(t *testing.T) {
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
			l, w := shapedPair(t, c.kind, c.mtu, c.rate)
			blast(t, l, c.size)
			checkRate(t, l.Devices()[0], w, c.rate)
		})
	}
}

// TCP and UDP_SEGMENT hand the kernel many packets as one.
func TestShaperChargesEveryPacketOfASegmentationOffload(t *testing.T) {
	rate := 100 * units.Mbps
	if runtime.NumCPU() == 1 {
		// The programs and the wire between them take turns on one processor, and
		// TCP waits for each: it does not fill 100 Mb/s.
		rate = 5 * units.Mbps
	}
	t.Run("TCP", func(t *testing.T) {
		l, w := shapedPair(t, TAP, 1500, rate)
		stream(t, l)
		checkRate(t, l.Devices()[0], w, rate)
		checkFrames(t, w)
	})
	t.Run("TCP older than the shaper", func(t *testing.T) {
		l, w := shapedPair(t, TAP, 1500, 0)
		stream(t, l)
		time.Sleep(100 * time.Millisecond)
		if err := l.Devices()[0].SetRate(rate); err != nil {
			t.Fatal(err)
		}
		checkRate(t, l.Devices()[0], w, rate)
		checkFrames(t, w)
	})
	t.Run("UDP_SEGMENT", func(t *testing.T) {
		l, w := shapedPair(t, TAP, 1500, rate)
		listenIn(t, l, "h2", blastPort)
		conn := listenIn(t, l, "h1", 0)
		setOption(t, conn, unix.SOL_UDP, unix.UDP_SEGMENT, 1000)
		blastFrom(t, conn, 50_000)
		checkRate(t, l.Devices()[0], w, rate)
		if got := w.longest.Load(); got != 1042 {
			t.Errorf("the longest frame has %d bytes, want 1042", got)
		}
	})
}

func checkFrames(t *testing.T, w *wire) {
	t.Helper()
	if got := w.longest.Load(); got != 1514 {
		t.Errorf("the longest frame has %d bytes, want 1514", got)
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

func TestSetRate(t *testing.T) {
	l, w := shapedPair(t, TAP, 1500, 100*units.Mbps)
	d := l.Devices()[0]
	blast(t, l, 1472)
	for _, r := range []units.Rate{200 * units.Mbps, 20 * units.Mbps} {
		if err := d.SetRate(r); err != nil {
			t.Fatal(err)
		}
		checkRate(t, d, w, r)
	}
	if err := d.SetRate(0); err != nil {
		t.Fatal(err)
	}
	before := w.bytes.Load()
	for start := time.Now(); units.Rate(float64(8*(w.bytes.Load()-before))/time.Since(start).Seconds()) < 40*units.Mbps; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatal("without a limit the wire carries no more than with one of 20 Mb/s")
		}
	}
	if c, err := d.Counters(); err != nil || c.QueueDrops != 0 {
		t.Errorf("%+v, %v: changing the rate lost packets", c, err)
	}
	if err := d.SetRate(-1); err == nil || !strings.Contains(err.Error(), "host h1: interface eth0: ") {
		t.Errorf("a negative rate: %v", err)
	}
}

// The kernel has the intended shaper, as `tc` shows.
func TestShaperAsTcShowsIt(t *testing.T) {
	fast := hostN(3, TUN, 100*units.Gbps) // more than 2^32 bytes per second
	l := makeLab(t, hostN(1, TAP, 10*units.Mbps), hostN(2, TAP, 0), fast)
	for _, c := range []struct{ host, want string }{
		{"h1", "rate 10Mbit burst 3Kb/1 mpu 84b peakrate 18014Tbit"},
		{"h1", "overhead 24 linklayer ethernet"},
		{"h3", "rate 100Gbit burst 25000000b/1 mpu 84b"},
		{"h3", "overhead 38 linklayer ethernet"},
	} {
		if out := inside(t, l, c.host, "tc", "-s", "-d", "qdisc", "show", "dev", "eth0"); !strings.Contains(out, c.want) {
			t.Errorf("in %s tc says %q, want %q in it", c.host, out, c.want)
		}
	}
	if out := inside(t, l, "h2", "tc", "qdisc", "show", "dev", "eth0"); strings.Contains(out, "tbf") {
		t.Errorf("an interface without a rate has a shaper: %s", out)
	}
}

// A bucket smaller than a waiting packet would hold it, and all packets after it, for ever.
func TestSmallerMTUDoesNotBlockTheShaper(t *testing.T) {
	l, w := shapedPair(t, TAP, 9000, 10*units.Mbps)
	blast(t, l, 8000)
	waitFor(t, "large packets on the wire", func() bool { return w.longest.Load() > 8000 })
	if err := l.Devices()[0].SetMTU(1500); err != nil {
		t.Fatal(err)
	}
	checkRate(t, l.Devices()[0], w, 10*units.Mbps)
}

// Packets beyond the link's rate wait where their sender is throttled.
func TestSendersWaitInTheQueue(t *testing.T) {
	l := makeLab(t, hostN(1, TUN, 10*units.Mbps), hostN(2, TUN, 0))
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
	c, err := l.Devices()[0].Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c.QueuePackets == 0 || c.QueueBytes != units.Bytes(c.QueuePackets)*1028 || c.QueueOverlimits == 0 || c.TxDropped+c.QueueDrops != 0 {
		t.Errorf("%+v: want a backlog of packets of 1028 bytes, and no drops", c)
	}
}
