package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/internal/await"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// halves is a rate control for tests: half of the slowest link of the path, if that is
// slower than the host's own link; otherwise no limit.
type halves struct{}

func (*halves) Validate(units.Rate) error { return nil }
func (*halves) Traits() cc.Traits         { return cc.Traits{NeedsPath: true} }

func (*halves) New(f cc.Flow) cc.Control {
	if f.Path.Bottleneck < f.Line {
		return &half{rate: f.Path.Bottleneck / 2}
	}
	return cc.NopControl{}
}

type half struct {
	cc.NopControl
	rate units.Rate
}

func (h *half) Rate() units.Rate { return h.rate }

func init() {
	cc.Methods.Register("test-halves", cc.Method{
		Summary: "for tests", Presets: []string{"only"}, Preset: func(string, units.Rate) cc.Settings { return &halves{} },
	})
}

// limitedLab returns a lab with a host whose flows to h2 are limited to half of that host's
// rate, and its flows to h3 are not limited.
func limitedLab(t *testing.T, attach, offload string, rate units.Rate) *plan.Plan {
	t.Helper()
	p, err := resolve.Parse("edge.yaml", fmt.Appendf(nil, `
name: %s
topology:
  kinds: {host: {attach: %s, offload: %s}, link: {rate: 200Mbps}}
  nodes: {h1: {kind: host, edge: {limit: {cc: test-halves, age: 1h}}}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"], rate: %v}
    - {endpoints: ["h3:eth0", "s1:3"]}
`, labName("edge"), attach, offload, rate))
	if err != nil {
		t.Fatal(err)
	}
	// The device may be held late: the service has room for what comes until then.
	for i := range p.Nodes[nodeOf(p, "h1")].Ports[0].Classes {
		p.Nodes[nodeOf(p, "h1")].Ports[0].Classes[i].Limit = units.GB
	}
	return p
}

// stream is a TCP connection from h1 to another host that carries n bytes.
type stream struct{ received atomic.Int64 }

func startStream(t *testing.T, p *plan.Plan, to string, fromPort, toPort int, n int64) *stream {
	t.Helper()
	s := &stream{}
	var listener net.Listener
	inside(t, p.Name, to, func() (err error) {
		listener, err = net.Listen("tcp4", fmt.Sprint(":", toPort))
		return err
	})
	t.Cleanup(func() { listener.Close() })
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := c.Read(buf)
			s.received.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	node, _ := p.Node(to)
	var conn net.Conn
	inside(t, p.Name, "h1", func() (err error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: fromPort}}
		conn, err = dialer.Dial("tcp4", fmt.Sprintf("%v:%d", p.Nodes[node].Ports[0].Addresses[0].Addr(), toPort))
		return err
	})
	t.Cleanup(func() { conn.Close() })
	go func() {
		_, _ = io.CopyN(conn, zeros{}, n)
		conn.(*net.TCPConn).CloseWrite()
	}()
	return s
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// edgeFlow returns the flow from h1 to a port. It must be called while the engines are held, or
// by one of their processes.
func (l *Lab) edgeFlow(port uint16) (f status.EdgeFlow, err error) {
	flows, err := l.fabric.EdgeFlowsOf("h1")
	for _, x := range flows {
		if x.DstPort == port {
			f = x
		}
	}
	return f, err
}

// A limiter at a real host keeps a flow at its rate without losses.
func TestLimit_KeepsFlowsOfRealHostsAtTheirRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ attach, offload string }{{"tap", "on"}, {"tun", "off"}} {
		t.Run(c.attach, func(t *testing.T) {
			t.Parallel()
			checkLimit(t, limitedLab(t, c.attach, c.offload, 40*units.Mbps), 100)
		})
	}
}

// Without root the flows of a host cannot be separated in its device: the host is held
// as a whole, and loses nothing.
func TestLimit_WithoutRootLosesNothing(t *testing.T) {
	t.Parallel()
	if withoutRoot(t) {
		checkLimit(t, limitedLab(t, "tap", "on", 40*units.Mbps), 30)
	}
}

// measured is what a limiter has let through of a flow.
type measured struct {
	packets uint64
	time    units.Time
	flow    status.EdgeFlow // at the end
	err     error
}

// measure waits until a flow has a backlog of some packets in the limiter, and then counts the
// packets that leave while it lasts, all in emulated time. How fast the sender is does not matter.
func (l *Lab) measure(t *testing.T, host int, port uint16, backlog int) <-chan measured {
	t.Helper()
	result := make(chan measured, 1)
	l.on(t, func() error {
		l.fabric.ShardOf(host).Engine.Go("measure", func(p *sim.Process) {
			before, err := l.edgeFlow(port)
			for ; err == nil && before.QueuePackets < backlog; before, err = l.edgeFlow(port) {
				p.Sleep(units.Millisecond)
			}
			span := units.Time(backlog-2) * before.Rate.TimeOf(packet.OnWire(1042))
			p.Sleep(span)
			after, err2 := l.edgeFlow(port)
			result <- measured{after.TxPackets - before.TxPackets, span, after, errors.Join(err, err2)}
		})
		return nil
	})
	return result
}

// maxDatagrams is how many datagrams a flow has at most: fewer than the ring of a device holds,
// which drops what is too much while the engine waits for a core.
const maxDatagrams = netnslab.DefaultTxQueueLen / 2

// awaitHold waits until h1's device has been held.
func (l *Lab) awaitHold(t *testing.T) {
	t.Helper()
	await.True(t, "a hold of the device", func() bool { c := l.Report().Hosts[0].Classes[0]; return c.Holds > 0 && c.Held > 0 })
}

// checkLimit runs limited flows of TCP and UDP and one without a limit.
func checkLimit(t *testing.T, p *plan.Plan, backlog int) {
	l, warned, stop := startTwo(t, p)
	h1 := nodeOf(p, "h1")
	apart := l.skipUnless(t, os.Getenv(insideRootless) == "")
	const size = 1_000_000
	result := l.measure(t, h1, 5202, backlog)
	slow := startStream(t, p, "h2", 40001, 5201, size)
	slowUDP := startFlowBetween(t, p, "h2", 40002, 5202)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for range maxDatagrams {
			select {
			case <-over:
				return
			default:
				slowUDP.send()
			}
		}
	}()
	m := await.Receive(t, "a backlog of UDP in the limiter", result)
	if m.err != nil {
		t.Fatal(m.err)
	}
	if want := uint64(m.time / m.flow.Rate.TimeOf(packet.OnWire(1042))); m.packets < want-1 || m.packets > want+1 {
		t.Errorf("%d packets in %v of a flow that has %v, want %d", m.packets, m.time, m.flow.Rate, want)
	}
	if f := m.flow; f.Rate != 20*units.Mbps || f.Peer != "h2:eth0" || f.Protocol != "udp" || f.Class != "default" {
		t.Errorf("%+v", f)
	}
	free := startStream(t, p, "h3", 40003, 5203, size)
	await.True(t, "all of a flow without a limit", func() bool { return free.received.Load() == size })
	l.awaitHold(t)
	close(over)
	<-ended
	await.True(t, "all of a flow of TCP with a limit", func() bool { return slow.received.Load() == size })
	// On a busy machine its receiver's buffer may overflow.
	await.True(t, "all of a flow of UDP with a limit", func() bool {
		var f status.EdgeFlow
		l.on(t, func() (err error) { f, err = l.edgeFlow(5202); return err })
		return f.TxPackets == uint64(slowUDP.sent.Load())
	})
	l.checkNoLosses(t)
	stop()
	if apart && warned.about("traffic") {
		t.Error("a warning of what works")
	}
}

// skipUnless skips the test if the machine keeps flows apart in h1's device although it should
// not, or the other way round.
func (l *Lab) skipUnless(t *testing.T, apart bool) bool {
	t.Helper()
	switch err := l.holder.devices[l.fabric.Interface(nodeOf(l.plan, "h1"), 0)].device.Unsteered; {
	case err != nil && apart:
		t.Skipf("NOT TESTED: %v", err)
	case err == nil && !apart:
		t.Skip("NOT TESTED: this machine lets everybody load BPF programs")
	}
	return apart
}

// checkNoLosses checks that neither h1's device nor the fabric has dropped a packet.
func (l *Lab) checkNoLosses(t *testing.T) {
	t.Helper()
	r := l.Report()
	if h := r.Hosts[0]; h.TxDropped+h.QueueDropped != 0 {
		t.Errorf("%+v", h)
	}
	if a := r.Accounts; a.Dropped != 0 || !a.Balanced() {
		t.Errorf("%+v", a)
	}
}

// Another flow of the host is not affected by a limiter. The limit is so low that all that the
// device holds would wait for minutes.
func TestLimit_SparesOtherFlowsOfTheHost(t *testing.T) {
	t.Parallel()
	p := limitedLab(t, "tap", "on", 40*units.Kbps)
	l, _, _ := startTwo(t, p)
	l.skipUnless(t, true)
	slow := startStream(t, p, "h2", 40001, 5201, 3_000_000)
	slowUDP := startFlowBetween(t, p, "h2", 40002, 5202)
	slowUDP.sendAll(maxDatagrams)
	l.awaitHold(t)
	behind := slow.received.Load() + 1000*slowUDP.received.Load()
	const size = 3_000_000
	free := startStream(t, p, "h3", 40003, 5203, size)
	await.True(t, "all of a flow without a limit", func() bool { return free.received.Load() == size })
	if meanwhile := slow.received.Load() + 1000*slowUDP.received.Load() - behind; meanwhile > size/2 {
		t.Errorf("%d bytes of flows with a limit came while %d did without", meanwhile, size)
	}
	l.checkNoLosses(t)
}

func nodeOf(p *plan.Plan, name string) int {
	n, _ := p.Node(name)
	return n
}

// startFlowBetween returns a flow from h1 to a host of which the first datagram has come.
func startFlowBetween(t *testing.T, p *plan.Plan, host string, fromPort, port int) *flow {
	t.Helper()
	f := newFlow(t, p, "h1", host, 0, fromPort, port)
	f.send() // packets are lost while a neighbour is being resolved
	await.True(t, "the first packet", func() bool { return f.received.Load() == 1 })
	return f
}
