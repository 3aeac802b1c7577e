package netnslab

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/sim/units"
)

// frameTo returns an Ethernet frame of an experimental type (RFC 5342) to d's host.
func frameTo(d *Device) []byte {
	frame := append(append([]byte{}, d.MAC...), 2, 0, 0, 0, 0, 99, 0x88, 0xb5)
	return append(frame, make([]byte, 46)...)
}

func TestCounters_AgreeWithTheDevice(t *testing.T) {
	t.Parallel()
	h := hostN(1, TAP, 0)
	h.Interfaces[0].TxQueueLen = 200
	l := makeLab(t, h, hostN(2, TAP, 0))
	d := l.Devices()[0]
	const written = 7
	for range written {
		if _, err := unix.Write(d.FD, frameTo(d)); err != nil {
			t.Fatal(err)
		}
	}
	// The device is not read, so that its ring fills up and drops.
	inNetwork(t, l, "h1", "ip", "neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0")
	conn := listenIn(t, l, "h1", 0)
	const sent = 200
	for range sent {
		if err := send(conn, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	var read, size int
	for buf := make([]byte, 2000); ; read++ {
		n, err := unix.Read(d.FD, buf)
		if err == syscall.EAGAIN { // the descriptor is non-blocking
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		size += n
	}
	c, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c.TxPackets != uint64(read) || c.TxBytes != uint64(size) || read == 0 {
		t.Errorf("%+v: read %d packets of %d bytes", c, read, size)
	}
	if c.TxDropped+c.TxPackets < sent || c.TxDropped == 0 {
		t.Errorf("%+v: %d sent, so %d at least were dropped", c, sent, sent-read)
	}
	if c.RxPackets != written || c.RxBytes != written*60 {
		t.Errorf("%+v: wrote %d packets of 60 bytes", c, written)
	}
}

// plug sets the carrier of h1 and waits until the host's kernel has acted on it.
func plug(t *testing.T, l *Lab, up bool) {
	t.Helper()
	flags, state := "<NO-CARRIER,", "state DOWN"
	if up {
		flags, state = "UP,LOWER_UP>", "state UP"
	}
	if err := l.Devices()[0].SetCarrier(up); err != nil {
		t.Fatal(err)
	}
	show := func() string { return inNetwork(t, l, "h1", "ip", "-o", "link", "show", "dev", "eth0") }
	if out := show(); !strings.Contains(out, flags) {
		t.Errorf("with carrier %v: %s", up, out)
	}
	await.True(t, state, func() bool { return strings.Contains(show(), state) })
}

func TestCarrier_LossStopsTheHost(t *testing.T) {
	t.Parallel()
	l, _ := shapedPair(t, TAP, 1500, units.Gbps)
	sender, receiver := listenIn(t, l, "h1", 0), listenIn(t, l, "h2", blastPort)
	for _, up := range []bool{false, true} {
		plug(t, l, up)
		if err := send(sender, fmt.Append(nil, up)); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := receive(t, receiver); got != "true" {
		t.Errorf("with carrier %s a datagram was sent", got)
	}
	if out := inNetwork(t, l, "h1", "tc", "qdisc", "show", "dev", "eth0"); !strings.Contains(out, "tbf") {
		t.Errorf("the shaper went with the carrier: %s", out)
	}
}

// receive returns the next datagram and its sender.
func receive(t *testing.T, at *net.UDPConn) (text string, from net.IP) {
	t.Helper()
	if err := at.SetReadDeadline(time.Now().Add(await.Limit)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, sender, err := at.ReadFromUDP(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n]), sender.IP
}

// TestCarrier_DropsWithoutItAreNotThoseOfTheRing: what a host sends while its cable is
// unplugged, and what it sends meanwhile, is not counted as lost by a full ring, before
// and after that either.
func TestCarrier_DropsWithoutItAreNotThoseOfTheRing(t *testing.T) {
	t.Parallel()
	h := hostN(1, TAP, 0)
	h.Interfaces[0].TxQueueLen = 200
	l := makeLab(t, h, hostN(2, TAP, 0))
	d := l.Devices()[0]
	inNetwork(t, l, "h1", "ip", "neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0", "nud", "permanent")
	conn := listenIn(t, l, "h1", 0)
	pour := func(packets int) {
		t.Helper()
		for range packets {
			_ = send(conn, make([]byte, 100)) // an interface without a carrier may refuse it
		}
	}
	counters := func() Counters {
		t.Helper()
		c, err := d.Counters()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pour(400) // of which the ring holds 200
	full := counters()
	if full.TxDropped == 0 || full.NoCarrier != 0 {
		t.Fatalf("with a carrier and a full ring: %+v", full)
	}
	for round := range 5 {
		// Room in the ring for what the kernel itself sends when the link is up again.
		for buf := make([]byte, 2000); ; {
			if _, err := unix.Read(d.FD, buf); err != nil {
				break
			}
		}
		before := counters()
		var meanwhile sync.WaitGroup
		meanwhile.Go(func() { pour(100) })
		plug(t, l, false)
		meanwhile.Wait()
		pour(100)
		down := counters()
		plug(t, l, true)
		up := counters()
		if down.TxDropped != before.TxDropped || up.TxDropped != before.TxDropped {
			t.Errorf("round %d: %d dropped by the ring before, %d while the cable was unplugged, %d after", round, before.TxDropped, down.TxDropped, up.TxDropped)
		}
		// Until it is plugged in the kernel may send something itself, such as an MLD report.
		if up.NoCarrier < down.NoCarrier || up.NoCarrier > down.NoCarrier+20 {
			t.Errorf("round %d: %d lost without a carrier, then %d", round, down.NoCarrier, up.NoCarrier)
		}
		t.Logf("round %d: the kernel counts %d packets without a carrier", round, down.NoCarrier-before.NoCarrier)
	}
	at := counters()
	pour(400)
	if last := counters(); last.TxDropped <= at.TxDropped || last.NoCarrier != at.NoCarrier {
		t.Errorf("after that: %+v", last)
	}
}

func TestSetMTU_ChangesTheInterface(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	if err := l.Devices()[0].SetMTU(4000); err != nil {
		t.Fatal(err)
	}
	if out := inNetwork(t, l, "h1", "ip", "-o", "link", "show", "eth0"); !strings.Contains(out, "mtu 4000 ") {
		t.Error(out)
	}
	if err := l.Devices()[0].SetMTU(70000); err == nil || !strings.Contains(err.Error(), "68 to 65521") {
		t.Errorf("an MTU out of range: %v", err)
	}
}

// Programs started on the emulator's machine must not inherit the devices: these
// would outlive the lab.
func TestDevices_AreNotInherited(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	for _, d := range l.Devices() {
		flags, err := unix.FcntlInt(uintptr(d.FD), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor flags %#x, %v", flags, err)
		}
	}
}

// A thread that worked in a host must not run other goroutines there.
func TestThreads_ReturnToTheirNamespace(t *testing.T) {
	home, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	makeLab(t, hostsN(8)...)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if ns, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net"); err == nil && ns != home {
			t.Errorf("thread %s is in %s", task.Name(), ns)
		}
	}
}

func TestFrames_ReachTheHost(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostN(1, TUN, 0), hostN(2, TUN, 0))
	join(t, l.Devices()[0], l.Devices()[1])
	at := listenIn(t, l, "h2", blastPort)
	if err := send(listenIn(t, l, "h1", 0), []byte("over the wire")); err != nil {
		t.Fatal(err)
	}
	if got, from := receive(t, at); got != "over the wire" || !from.Equal(net.IPv4(10, 0, 0, 1)) {
		t.Errorf("got %q from %v", got, from)
	}
}
