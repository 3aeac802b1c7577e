package gso

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/packet"
)

// TestKernel compares with the kernel. In a separate network namespace the kernel
// routes from one TUN, to which runs are written, to another. If the other TUN takes
// no super-packets, the output is the kernel's own segmentation and checksums of the
// joined packets; if it does, the output is super-packets as described by the
// kernel, which are split here. Both must equal the input, one hop further.
func TestKernel(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out tests with real devices")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: this test makes a network namespace and needs root")
	}
	t.Run("cuts", func(t *testing.T) { testKernel(t, false) })
	t.Run("passes on", func(t *testing.T) { testKernel(t, true) })
}

func testKernel(t *testing.T, offload bool) {
	// The thread keeps the namespace, and ends with this goroutine.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("SKIPPED: a network namespace: %v", err)
	}
	in := openTUN(t, "in", unix.IFF_VNET_HDR)
	var read func() ([]byte, error)
	if offload {
		fd := openTUN(t, "out", unix.IFF_VNET_HDR)
		const features = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN | unix.TUN_F_USO4 | unix.TUN_F_USO6
		if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, features); err != nil {
			t.Skipf("SKIPPED: the kernel does not know all of these offloads: %v", err)
		}
		read = (&splitter{t: t, fd: fd}).read
	} else {
		fd := openTUN(t, "out", 0)
		read = func() ([]byte, error) { return readPacket(fd, 0) }
	}
	for _, path := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		if err := os.WriteFile("/proc/sys/net/"+path, []byte("1"), 0o644); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
	}
	up(t, "in", "10.0.0.254/32", "fd00::fe/128")
	up(t, "out", "10.0.0.253/24", "fd00::fd/64")
	// The return route must exist, for rp_filter.
	route(t, "in", "10.0.0.1/32", "fd00::1/128")

	for _, c := range []struct {
		name string
		do   func(m *model)
		lost int // piece
		runs int
	}{
		{"TCP", func(m *model) {}, -1, 1},
		{"TCP, a piece lost", func(m *model) {}, 7, 2},
		{"TCP, ECE and FIN", func(m *model) { m.flags |= 0x41 }, -1, 45},
		{"TCP, CWR", func(m *model) { m.flags |= cwr }, -1, 2},
		{"TCP, IPv6, PSH", func(m *model) { m.v6, m.label, m.flags = true, 77, ack|psh }, -1, 1},
		{"TCP, IPv6, an extension header", func(m *model) { m.v6, m.extended, m.extension = true, 60, make([]byte, 8) }, -1, 45},
		{"TCP, options", func(m *model) { m.options = bytesOf(1, 10) }, -1, 1},
		{"UDP", func(m *model) { m.udp = true }, -1, 1},
		{"UDP, IPv6, a datagram lost", func(m *model) { m.udp, m.v6 = true, true }, 3, 2},
	} {
		var pool packet.Pool
		m := base()
		m.payload = bytesOf(9, 44*1400+33)
		c.do(&m)
		k := &device{t: t, fd: in}
		j := NewJoiner(&pool, k, true)
		var want [][]byte
		for i, p := range m.pieces(t, &pool, 1400) {
			if i == c.lost {
				pool.Free(p)
				continue
			}
			p.TTL-- // as the kernel will
			want = append(want, bytes.Clone(RenderPacket(p, nil)[p.L3:]))
			p.TTL++
			j.AddPacket(0, p)
		}
		j.Flush()
		if k.runs != c.runs {
			t.Errorf("%s: %d writes, want %d", c.name, k.runs, c.runs)
		}
		for i, w := range want {
			got, err := read()
			if err != nil {
				t.Errorf("%s: packet %d of %d: %v", c.name, i, len(want), err)
				break
			}
			if !bytes.Equal(w, got) {
				t.Errorf("%s: packet %d is\n%x, the kernel's\n%x", c.name, i, w[:min(80, len(w))], got[:min(80, len(got))])
				break
			}
		}
		for { // drain after a failure
			if _, err := read(); err != nil {
				break
			}
			if !t.Failed() {
				t.Errorf("%s: a packet too many", c.name)
			}
		}
	}
}

// device writes runs to a TUN.
type device struct {
	t    *testing.T
	fd   int
	runs int
}

func (d *device) WriteRun(r *Run) {
	d.runs++
	n, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(d.fd), uintptr(unsafe.Pointer(&r.Iov[0])), uintptr(len(r.Iov)))
	if errno != 0 {
		d.t.Errorf("a write of %+v: %d, %v", r.Header, n, errno)
	}
}

func openTUN(t *testing.T, name string, flags uint16) int {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	return fd
}

func up(t *testing.T, name string, addresses ...string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			t.Fatal(err)
		}
	}
	// No router solicitations among the packets.
	if err := os.WriteFile(fmt.Sprintf("/proc/sys/net/ipv6/conf/%s/addr_gen_mode", name), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetTxQLen(link, 1000); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
}

func route(t *testing.T, name string, to ...string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, dst := range to {
		n, err := netlink.ParseIPNet(dst)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: n}); err != nil {
			t.Fatal(err)
		}
	}
}

// splitter reads super-packets and returns their pieces.
type splitter struct {
	t       *testing.T
	fd      int
	waiting [][]byte
}

func (c *splitter) read() ([]byte, error) {
	if len(c.waiting) == 0 {
		b, err := readPacket(c.fd, HeaderLen)
		if err != nil {
			return nil, err
		}
		h := DecodeHeader(b)
		kind := []byte{0x08, 0x00}
		if b[HeaderLen]>>4 == 6 {
			kind = []byte{0x86, 0xdd}
		}
		f := slices.Concat(make([]byte, 12), kind, b[HeaderLen:])
		if h.GSOType == GSONone {
			p := packet.Packet{Frame: f}
			p.Parse()
			if err := MarkPartial(&p, h, 14); err != nil {
				c.t.Error(err)
			}
			return RenderPacket(&p, nil)[14:], nil
		}
		var pool packet.Pool
		for _, p := range pieces(c.t, &pool, f, h) {
			c.waiting = append(c.waiting, RenderPacket(p, nil)[14:])
		}
	}
	next := c.waiting[0]
	c.waiting = c.waiting[1:]
	return next, nil
}

// readPacket reads the next packet after a header of header bytes, and skips packets
// that the kernel itself multicasts.
func readPacket(fd, header int) ([]byte, error) {
	b := make([]byte, 1<<17)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 200)
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil {
			return nil, fmt.Errorf("nothing within 200 ms, %v", err)
		}
		if n, err = unix.Read(fd, b); err != nil {
			return nil, err
		}
		if ip := b[header:n]; ip[0]>>4 == 4 || ip[24] != 0xff {
			return b[:n], nil
		}
	}
}
