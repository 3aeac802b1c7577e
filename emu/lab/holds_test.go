package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/internal/await"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

func TestHeldAt_GrowsWithTheRate(t *testing.T) {
	for _, c := range []struct {
		rate     units.Rate
		dilation int
		want     units.Bytes
	}{
		{0, 1, 256 * units.KB}, {100 * units.Mbps, 1, 256 * units.KB}, {units.Gbps, 1, 256 * units.KB}, {10 * units.Gbps, 1, 2500 * units.KB},
		{100 * units.Gbps, 10, 2500 * units.KB}, {100 * units.Gbps, 1000, 256 * units.KB},
	} {
		if got := heldAt(c.rate, c.dilation); got != c.want {
			t.Errorf("at %s and dilation %d a class is held from %s on, want %s", c.rate, c.dilation, got, c.want)
		}
	}
}

func TestTogether_NamesTheHosts(t *testing.T) {
	h := newHolder()
	if err := h.sharedHoldError(); err != nil {
		t.Error(err)
	}
	for i := range 10 {
		d := &netnslab.Device{Unsteered: fmt.Errorf("%w: no BPF", netnslab.ErrNoSteering)}
		h.addDevice(&hosts.Interface{}, fmt.Sprintf("h%d:eth0", i), d, &netnslab.Classes{})
	}
	err := h.sharedHoldError()
	if !errors.Is(err, netnslab.ErrNoSteering) || !strings.Contains(err.Error(), "h7:eth0 and 2 more: ") || !strings.HasSuffix(err.Error(), ": no BPF") {
		t.Error(err)
	}
}

// insideRootless is, in namespaces like those of a rootless lab, the directory for EnterRootless.
const insideRootless = "WEFT_LAB_TEST_ROOTLESS"

// withoutRoot runs the test again in namespaces like those of a rootless lab and adopts
// its result. It returns true only inside.
func withoutRoot(t *testing.T) bool {
	t.Helper()
	if dir := os.Getenv(insideRootless); dir != "" {
		if err := netnslab.EnterRootless(dir); err != nil {
			t.Skipf("NOT TESTED: %v", err)
		}
		return true
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out real hosts")
	}
	dir, err := netnslab.PrepareRootless(labName("rootless"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), insideRootless+"="+dir)
	c.SysProcAttr = netnslab.NewNamespaces()
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "NOT TESTED") {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// labName returns a name that no other test's lab has, of this process or another.
func labName(kind string) string { return fmt.Sprintf("%s%d-%d", kind, os.Getpid(), labs.Add(1)) }

var labs atomic.Int64

// twoClasses returns a plan of two real hosts on a switch, each with a class of
// priority 3 for DSCP 26 and the default class.
func twoClasses(t *testing.T, attach string) *plan.Plan {
	t.Helper()
	p, err := resolve.Parse("holds.yaml", fmt.Appendf(nil, `
name: %s
topology:
  kinds: {host: {attach: %s}, link: {rate: 200Mbps}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links: [{endpoints: ["h1:eth0", "s1:1"]}, {endpoints: ["h2:eth0", "s1:2"]}]
`, labName("holds"), attach))
	if err != nil {
		t.Fatal(err)
	}
	for n := range p.Nodes {
		node := &p.Nodes[n]
		for i := range node.Ports {
			node.Ports[i].Queue.Limit = units.GB
		}
		if node.Kind == plan.Host {
			node.QoS = &plan.QoS{}
			node.QoS.Map.DSCP[26] = 3
			node.Ports[0].Classes = []class.Class{{Name: "rest"}, {Name: "lossless", Priority: 3}}
		}
	}
	return p
}

// startTwo runs a plan until the end of the test and then checks for residue.
func startTwo(t *testing.T, p *plan.Plan) (l *Lab, warnings *warnings, stop func()) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out real hosts")
	}
	if err := netnslab.CheckPrivileges(); err != nil {
		t.Skipf("NOT TESTED, this process may not make labs:\n%v", err)
	}
	l, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	w := newWarnings(t)
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := l.Run(context.Background(), units.Never, func() { close(ready) }, w.add); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case <-ended:
		t.FailNow()
	}
	stop = sync.OnceFunc(func() {
		l.Stop()
		<-ended
		for _, pattern := range []string{"/run/netns/weft-" + p.Name + "-*", "/run/weft/" + p.Name} {
			if left, _ := filepath.Glob(pattern); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	})
	t.Cleanup(stop)
	return l, w, stop
}

// warnings are the warnings of a lab.
type warnings struct {
	t  *testing.T
	mu sync.Mutex
	of []string
}

func newWarnings(t *testing.T) *warnings { return &warnings{t: t} }

func (w *warnings) add(err error) {
	w.t.Log(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of = append(w.of, err.Error())
}

// about reports whether a warning contains all of these texts.
func (w *warnings) about(texts ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.of, func(said string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(said, text) })
	})
}

// inside runs f on a thread inside a host, which then returns.
func inside(t *testing.T, lab, host string, f func() error) {
	t.Helper()
	made := make(chan error)
	go func() {
		made <- func() error {
			runtime.LockOSThread()
			home, err := netns.Get()
			if err != nil {
				return err
			}
			defer home.Close()
			there, err := netns.GetFromName(netnslab.NamespaceName(lab, host))
			if err != nil {
				return err
			}
			defer there.Close()
			if err := netns.Set(there); err != nil {
				return err
			}
			err = f()
			if netns.Set(home) == nil {
				runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
			}
			return err
		}()
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
}

// udpIn makes a UDP socket in a host.
func udpIn(t *testing.T, lab, host string, dscp, port int) (conn *net.UDPConn) {
	t.Helper()
	inside(t, lab, host, func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: port})
		return err
	})
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		err = errors.Join(
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, dscp<<2),
			// Room for some tens of datagrams.
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 50_000),
		)
		for _, option := range []int{unix.SO_RCVBUF, unix.SO_RCVBUFFORCE} { // the latter needs root
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 50_000_000)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return conn
}

// flow is datagrams of 1000 bytes from a host to another, counted at both ends.
type flow struct {
	sent, received atomic.Int64

	send func() bool // sends one; false if it cannot
}

func newFlow(t *testing.T, p *plan.Plan, src, dst string, dscp, fromPort, port int) *flow {
	t.Helper()
	f := &flow{}
	at, from := udpIn(t, p.Name, dst, 0, port), udpIn(t, p.Name, src, dscp, fromPort)
	to := &net.UDPAddr{IP: p.Nodes[nodeOf(p, dst)].Ports[0].Addresses[0].Addr().AsSlice(), Port: port}
	f.send = func() bool {
		_, err := from.WriteTo(make([]byte, 1000), to)
		if err == nil {
			f.sent.Add(1)
		}
		return err == nil
	}
	go func() {
		buf := make([]byte, 2000)
		for {
			if _, err := at.Read(buf); err != nil {
				return
			}
			f.received.Add(1)
		}
	}()
	return f
}

// sendAll sends n datagrams.
func (f *flow) sendAll(n int) {
	go func() {
		for i := 0; i < n && f.send(); i++ {
		}
	}()
}

// startFlow sends n datagrams from h1 to h2.
func startFlow(t *testing.T, p *plan.Plan, dscp, port, n int) *flow {
	t.Helper()
	f := newFlow(t, p, "h1", "h2", dscp, 0, port)
	f.sendAll(n)
	return f
}

// A class of a running lab whose queue is full stops in its host, another
// continues, and all packets arrive when the queue is short again.
func TestClassFull_StopsOnlyThatClass(t *testing.T) {
	t.Parallel()
	for _, attach := range []string{"tap", "tun"} {
		t.Run(attach, func(t *testing.T) {
			t.Parallel()
			p := twoClasses(t, attach)
			l, warned, stop := startTwo(t, p)
			h1, _ := p.Node("h1")
			full := func(priority uint8, is bool) {
				if err := l.doStopped(func() { l.classFull(l.fabric.Interface(h1, 0), priority, is) }); err != nil {
					t.Error(err)
				}
			}
			dev := l.holder.devices[l.fabric.Interface(h1, 0)]
			if err := dev.device.Unsteered; err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			held := func() bool {
				dev.mu.Lock()
				defer dev.mu.Unlock()
				return !dev.since[1].IsZero()
			}
			// Packets are lost while a neighbour is being resolved.
			first := startFlow(t, p, 0, 7000, 1)
			await.True(t, "first packet", func() bool { return first.received.Load() == 1 })
			full(3, true)
			await.True(t, "hold", held)
			const n = 2000
			stopped := startFlow(t, p, 26, 7001, n)
			free := startFlow(t, p, 0, 7002, n)
			await.True(t, "other class", func() bool { return free.received.Load() == n })
			if got := stopped.sent.Load(); got == n {
				t.Error("the sender of a class that is held was not stopped")
			}
			full(3, false)
			await.True(t, "class that goes on", func() bool { return stopped.received.Load() == n })
			full(3, true)
			await.True(t, "hold", held)
			// Twice because of the calls above, and whenever the backlog in
			// between was too long for the fabric.
			h := l.Report().Hosts[0]
			if len(h.Classes) != 2 || h.Classes[1].Holds < 2 || h.Classes[1].Held == 0 || h.Classes[1].Name != "lossless" || h.TxDropped+h.QueueDropped != 0 || h.Together != "" {
				t.Errorf("%+v", h)
			}
			if a := l.Report().Accounts; a.Dropped != 0 {
				t.Errorf("%+v", a)
			}
			stop() // while a class is held
			if warned.about("traffic") {
				t.Error("a warning of what works")
			}
		})
	}
}

// If BPF programs are refused, as in a rootless lab, the whole host is held,
// and the lab says so.
func TestClassFull_WithoutRootStopsTheHost(t *testing.T) {
	t.Parallel()
	if !withoutRoot(t) {
		return
	}
	p := twoClasses(t, "tun")
	l, warned, _ := startTwo(t, p)
	h1, _ := p.Node("h1")
	dev := l.holder.devices[l.fabric.Interface(h1, 0)]
	if dev.device.Unsteered == nil {
		t.Skip("NOT TESTED: this machine lets everybody load BPF programs")
	}
	if !warned.about("a pause of one traffic class", "h1:eth0, h2:eth0", "may not load BPF programs") {
		t.Error("no warning of what does not work")
	}
	first := startFlow(t, p, 0, 7000, 1)
	await.True(t, "first packet", func() bool { return first.received.Load() == 1 })
	full := func(priority uint8, is bool) {
		if err := l.doStopped(func() { l.classFull(l.fabric.Interface(h1, 0), priority, is) }); err != nil {
			t.Error(err)
		}
	}
	full(3, true)
	full(0, true)
	full(3, false) // the other is still full
	await.True(t, "hold", func() bool { return l.Report().Hosts[0].Classes[0].Held > 0 })
	const n = 150 // more than a sender's buffer holds, and less than a receiver's
	flows := []*flow{startFlow(t, p, 26, 7001, n), startFlow(t, p, 0, 7002, n)}
	await.True(t, "packets that wait in the host", func() bool { return l.Report().Hosts[0].QueuePackets > 0 })
	back := newFlow(t, p, "h2", "h1", 0, 0, 7003)
	for i := range int64(200) { // meanwhile the other direction is not held
		back.send()
		await.True(t, "a packet in the other direction", func() bool { return back.received.Load() > i })
	}
	for _, f := range flows {
		if f.sent.Load() == n || f.received.Load() > 100 {
			t.Errorf("a host that is held sent %d packets, of which %d arrived", f.sent.Load(), f.received.Load())
		}
	}
	full(0, false)
	for _, f := range flows {
		await.True(t, "class that goes on", func() bool { return f.received.Load() == n })
	}
	if h := l.Report().Hosts[0]; h.Together == "" || h.TxDropped+h.QueueDropped != 0 {
		t.Errorf("%+v", h)
	}
}

// BenchmarkClassFull measures what it costs the engine's thread to report a full class.
func BenchmarkClassFull(b *testing.B) {
	h := newHolder()
	var err error
	if h.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		b.Fatal(err)
	}
	defer unix.Close(h.wake)
	iface := &hosts.Interface{}
	h.addDevice(iface, "", &netnslab.Device{}, &netnslab.Classes{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.setHold(iface, 3, i&1 == 0)
	}
}
