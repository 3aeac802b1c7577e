package netnslab

import (
	"bytes"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftlab/weft/sim/units"
	"golang.org/x/sys/unix"
)

// frameTo returns an Ethernet frame of an experimental type (RFC 5342) to d's host.
func frameTo(d *Device) []byte {
	frame := append(append([]byte{}, d.MAC...), 2, 0, 0, 0, 0, 99, 0x88, 0xb5)
	return append(frame, make([]byte, 46)...)
}

func TestCountersAgreeWithTheDevice(t *testing.T) {
	h := hostN(1, TAP, 0)
	h.Interfaces[0].TxQueueLen = 50
	l := makeLab(t, h, hostN(2, TAP, 0))
	d := l.Devices()[0]
	const written = 7
	for range written {
		if _, err := unix.Write(d.FD, frameTo(d)); err != nil {
			t.Fatal(err)
		}
	}
	// The device is not read, so that its ring fills up and drops.
	inside(t, l, "h1", "ip", "neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0")
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

func TestCarrier(t *testing.T) {
	l, w := shapedPair(t, TAP, 1500, units.Gbps)
	d := l.Devices()[0]
	sender := listenIn(t, l, "h1", 0)
	for _, c := range []struct {
		up   bool
		want string
	}{{false, "<NO-CARRIER,"}, {true, "UP,LOWER_UP>"}} {
		if err := d.SetCarrier(c.up); err != nil {
			t.Fatal(err)
		}
		if out := inside(t, l, "h1", "ip", "-o", "link", "show", "eth0"); !strings.Contains(out, c.want) {
			t.Errorf("with carrier %v: %s", c.up, out)
		}
		before := w.frames.Load()
		if err := send(sender, nil); err != nil {
			t.Fatal(err)
		}
		if !c.up {
			time.Sleep(20 * time.Millisecond)
			if n := w.frames.Load() - before; n > 0 {
				t.Errorf("%d frames without a carrier", n)
			}
			continue
		}
		waitFor(t, "a frame from the host", func() bool { return w.frames.Load() > before })
	}
	if out := inside(t, l, "h1", "tc", "qdisc", "show", "dev", "eth0"); !strings.Contains(out, "tbf") {
		t.Errorf("the shaper went with the carrier: %s", out)
	}
}

func TestSetMTU(t *testing.T) {
	l := makeLab(t, hostsN(1)...)
	if err := l.Devices()[0].SetMTU(4000); err != nil {
		t.Fatal(err)
	}
	if out := inside(t, l, "h1", "ip", "-o", "link", "show", "eth0"); !strings.Contains(out, "mtu 4000 ") {
		t.Error(out)
	}
	if err := l.Devices()[0].SetMTU(70000); err == nil || !strings.Contains(err.Error(), "68 to 65521") {
		t.Errorf("an MTU out of range: %v", err)
	}
}

// Programs started on the emulator's machine must not inherit the devices: these
// would outlive the lab.
func TestDevicesAreNotInherited(t *testing.T) {
	l := makeLab(t, hostsN(2)...)
	for _, d := range l.Devices() {
		flags, err := unix.FcntlInt(uintptr(d.FD), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor flags %#x, %v", flags, err)
		}
	}
}

// A thread that worked in a host must not run other goroutines there.
func TestThreadsComeBack(t *testing.T) {
	home, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	makeLab(t, hostsN(20)...)
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

func TestFramesReachTheHost(t *testing.T) {
	l := makeLab(t, hostN(1, TUN, 0), hostN(2, TUN, 0))
	join(t, l.Devices()[0], l.Devices()[1])
	at := listenIn(t, l, "h2", blastPort)
	if err := send(listenIn(t, l, "h1", 0), []byte("over the wire")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if err := at.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, from, err := at.ReadFrom(buf)
	if err != nil || !bytes.Equal(buf[:n], []byte("over the wire")) || !from.(*net.UDPAddr).IP.Equal(net.IPv4(10, 0, 0, 1)) {
		t.Errorf("got %q from %v, %v", buf[:n], from, err)
	}
}
