package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/links"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// These tests drive NICs of real hosts with verbs, as programs do.

// nicsOfHosts returns a plan of two real hosts with NICs and one without, at
// two switches.
func nicsOfHosts(t *testing.T, workers int) *plan.Plan {
	t.Helper()
	p, err := resolve.Parse("nics.yaml", fmt.Appendf(nil, `
name: %s
topology:
  kinds: {link: {rate: 200Mbps, delay: 10us}, host: {nic: {cc: dcqcn, timeout: 16ms, retries: 4}}}
  nodes: {h1: {kind: host}, h3: {kind: host, nic: none}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "s2:2"], delay: 200us}
    - {endpoints: ["h2:eth0", "s2:1"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
`, labName("nics")))
	if err != nil {
		t.Fatal(err)
	}
	p.Engine.Workers = workers
	return p
}

// on runs f while the engines are held.
func (l *Lab) on(t *testing.T, f func() error) {
	t.Helper()
	var failed error
	if err := l.Do(func() { failed = f() }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// capturing captures a port into a file. stop ends the capture.
func (l *Lab) capturing(t *testing.T, port, filter string) (stop func() (file string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "capture.pcapng")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer out.Close()
		_, err := NewClient(l.Dir()).Capture(ctx, CaptureRequest{Ports: []string{port}, Direction: Both, Filter: filter}, out)
		ended <- err
	}()
	t.Cleanup(end)
	await.True(t, "capture", func() bool {
		s, err := out.Stat()
		return err != nil || s.Size() > 0
	})
	return func() string {
		end()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		return file
	}
}

// verbs is a program's state on a NIC: a buffer and queues.
type verbs struct {
	*nicemu.Device
	pd  *nicemu.PD
	cq  *nicemu.CQ
	qp  *nicemu.QP
	mr  *nicemu.MR
	buf []byte
}

func (l *Lab) open(host string, kind nicemu.QPType, room int) (*verbs, error) {
	v := &verbs{buf: make([]byte, room)}
	var err error
	if v.Device, err = l.fabric.DeviceOf(host); err != nil {
		return nil, err
	}
	if v.pd, err = v.AllocPD(); err != nil {
		return nil, err
	}
	if v.cq, err = v.CreateCQ(64, nil); err != nil {
		return nil, err
	}
	if v.mr, err = v.pd.Register(v.buf, nicemu.LocalWrite|nicemu.RemoteWrite|nicemu.RemoteRead); err != nil {
		return nil, err
	}
	v.qp, err = v.pd.CreateQP(nicemu.QPConfig{
		Type: kind, SendCQ: v.cq, RecvCQ: v.cq, SignalAll: true,
		Cap: nicemu.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	})
	return v, err
}

// wait waits for one completion.
func (v *verbs) wait(p *sim.Process, want cq.Opcode) error {
	var c [1]nicemu.Completion
	if _, err := v.cq.Wait(p, c[:], units.Never); err != nil {
		return err
	}
	if c[0].Status != nicemu.Success || c[0].Opcode != want {
		return fmt.Errorf("completed: %v %v, want %v", c[0].Opcode, c[0].Status, want)
	}
	return nil
}

// run posts a work request and waits for it.
func (v *verbs) run(p *sim.Process, want cq.Opcode, wr nicemu.SendWR) error {
	if err := v.qp.PostSend(&wr); err != nil {
		return err
	}
	return v.wait(p, want)
}

// receive posts a receive of n bytes at an offset of the buffer.
func (v *verbs) receive(offset, n units.Bytes) error {
	return v.qp.PostRecv(&nicemu.RecvWR{SGL: []nicemu.SGE{v.mr.SGE(offset, n)}})
}

// The rounds of rping, its messages, and the parts of its buffers: for received
// data, for reading from, for writing to.
const (
	rounds            = 4
	rpingSize         = 10_001
	rpingIn           = 16
	rpingFrom         = rpingIn
	rpingTo           = rpingFrom + rpingSize
	rpingRoom         = rpingTo + rpingSize
	rpingPort         = 7174
	rpingMessage      = "rdma-ping"
	rpingGo, rpingEnd = "go", "end"
)

// serve is the server of rping(1): it reads the client's data and writes it
// back to another place.
func serve(p *sim.Process, v *verbs, l *nicemu.Listener) error {
	if err := v.qp.Init(nicemu.RemoteWrite, 0); err != nil {
		return err
	}
	if err := v.receive(0, rpingIn); err != nil {
		return err
	}
	request, err := l.Next(p)
	if err != nil {
		return err
	}
	if err := request.Conn.Accept(v.qp, nicemu.ConnParam{ResponderResources: 1, InitiatorDepth: 1}); err != nil {
		return err
	}
	if _, err := request.Conn.WaitEstablished(p); err != nil {
		return err
	}
	if got := string(request.PrivateData[:len(rpingMessage)]); got != rpingMessage {
		return fmt.Errorf("the client says %q", got)
	}
	move := func(op transport.Op, done cq.Opcode, answer string) error {
		if err := v.wait(p, nicemu.WCRecv); err != nil {
			return err
		}
		va, key := binary.BigEndian.Uint64(v.buf), binary.BigEndian.Uint32(v.buf[8:])
		if err := v.receive(0, rpingIn); err != nil {
			return err
		}
		if err := v.run(p, done, nicemu.SendWR{Op: op, SGL: []nicemu.SGE{v.mr.SGE(rpingFrom, rpingSize)}, RemoteVA: va, RKey: key}); err != nil {
			return err
		}
		return v.run(p, nicemu.WCSend, nicemu.SendWR{Op: nicemu.OpSend, Inline: []byte(answer)})
	}
	for range rounds {
		if err := move(nicemu.OpRead, nicemu.WCRead, rpingGo); err != nil {
			return err
		}
		if err := move(nicemu.OpWrite, nicemu.WCWrite, rpingEnd); err != nil {
			return err
		}
	}
	request.Conn.WaitDisconnected(p)
	return nil
}

// ping is the client of rping(1), with the bytes to send in each round.
func ping(p *sim.Process, v *verbs, server netip.Addr, data [][]byte) error {
	c, err := v.Connect(v.qp, netip.AddrPortFrom(server, rpingPort), nicemu.ConnParam{
		PrivateData: []byte(rpingMessage), ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7,
	}, nil)
	if err != nil {
		return err
	}
	if err := v.receive(0, rpingIn); err != nil {
		return err
	}
	if _, err := c.WaitEstablished(p); err != nil {
		return err
	}
	// The two completions of a step may arrive in either order.
	step := func(offset units.Bytes, want string) error {
		message := binary.BigEndian.AppendUint64(nil, v.mr.Addr(offset))
		message = binary.BigEndian.AppendUint32(message, v.mr.RKey())
		if err := v.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpSend, Inline: message}); err != nil {
			return err
		}
		var all []nicemu.Completion
		for len(all) < 2 {
			var some [2]nicemu.Completion
			n, err := v.cq.Wait(p, some[:], units.Never)
			if err != nil {
				return err
			}
			all = append(all, some[:n]...)
		}
		for _, c := range all {
			if c.Status != nicemu.Success || c.Opcode == nicemu.WCRecv && string(v.buf[:c.ByteLen]) != want {
				return fmt.Errorf("%v %v, the server says %q", c.Opcode, c.Status, v.buf[:c.ByteLen])
			}
		}
		return v.receive(0, rpingIn)
	}
	for i, d := range data {
		copy(v.buf[rpingFrom:], d)
		if err := step(rpingFrom, rpingGo); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if err := step(rpingTo, rpingEnd); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if !bytes.Equal(v.buf[rpingTo:], d) {
			return fmt.Errorf("round %d: what came back is not what was sent", i)
		}
	}
	if err := c.Disconnect(); err != nil {
		return err
	}
	c.WaitDisconnected(p)
	return nil
}

// result is how a process ended, and when, in its engine's time.
type result struct {
	who string
	err error
	at  units.Time
}

// Two processes on the NICs of real hosts connect, read and write real
// bytes in wall-clock time, on one engine and on two, over both versions of IP. The
// bytes are correct in memory and in a capture, which has each packet that a NIC
// counts.
func TestRping_RunsInWallClockTime(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			t.Parallel()
			p := nicsOfHosts(t, workers)
			l, _, stop := startTwo(t, p)
			h1, _ := p.Node("h1")
			h2, _ := p.Node("h2")
			if workers == 2 && l.fabric.ShardOf(h1) == l.fabric.ShardOf(h2) {
				t.Fatal("both hosts are one worker's")
			}
			end := l.capturing(t, "s1:1", "udp port 4791")
			var data [][]byte
			random := rand.NewChaCha8([32]byte{byte(workers)})
			for range rounds {
				d := make([]byte, rpingSize)
				_, _ = random.Read(d)
				data = append(data, d)
			}
			var pairs []pair
			for _, six := range []bool{false, true} {
				pairs = append(pairs, rping(t, l, six, data))
			}
			file := end()

			frames := oracle.RoCE(t, file)
			if workers == 1 { // more of them do not change the packets
				count := oracle.CheckTshark(t, file, "4", "6", "7", "8", "12", "13", "14", "15", "17", "100")
				// REQ, REP, RTU, DREQ, DREP.
				if count["100"] < 2*5 {
					t.Errorf("%d datagrams of connection managers are in the capture: %v", count["100"], count)
				}
				oracle.CheckICRC(t, frames)
			}
			var want []byte
			for _, d := range data {
				want = append(want, d...)
			}
			for _, s := range pairs {
				if got := payloads(frames, s.server, 13, [3]int{4, 0, 4}); !bytes.Equal(got, want) {
					t.Errorf("the READ responses to queue pair %d in the capture have %d bytes, and not those that were sent", s.server, len(got))
				}
				if got := payloads(frames, s.client, 6, [3]int{16, 0, 0}); !bytes.Equal(got, want) {
					t.Errorf("the WRITEs to queue pair %d in the capture have %d bytes, and not those that were sent", s.client, len(got))
				}
			}
			var sent, came uint64
			l.on(t, func() error {
				d, err := l.fabric.DeviceOf("h1")
				c, _ := d.Counters()
				sent, came = c.XmitPackets, c.RcvPackets
				return err
			})
			if uint64(len(frames)) != sent+came {
				t.Errorf("%d packets are in the capture; the NIC has sent %d and received %d", len(frames), sent, came)
			}
			stop()
			if a := l.Report().Accounts; !a.Balanced() || a.Dropped > a.Drops["no-receiver"] {
				t.Errorf("%+v", a)
			}
		})
	}
}

// pair is the numbers of the two queue pairs.
type pair struct{ client, server uint32 }

// rping runs server and client.
func rping(t *testing.T, l *Lab, six bool, data [][]byte) (numbers pair) {
	t.Helper()
	results := make(chan result, 2)
	var began, clock units.Time
	start := func(v *verbs, who string, f func(p *sim.Process) error) {
		e := l.fabric.EngineOf(v.Device)
		e.Go(who, func(p *sim.Process) {
			err := f(p) // does not use t, which must not end the engine's goroutine
			results <- result{who, err, p.Now()}
		})
	}
	l.on(t, func() error {
		s, err := l.open("h2", nicemu.RC, rpingRoom)
		if err != nil {
			return err
		}
		c, err := l.open("h1", nicemu.RC, rpingRoom)
		if err != nil {
			return err
		}
		numbers = pair{c.qp.Number(), s.qp.Number()}
		listener, err := s.Listen(netip.AddrPortFrom(netip.Addr{}, rpingPort), 1, nil)
		if err != nil {
			return err
		}
		to := s.Addresses()[0]
		for _, a := range s.Addresses() {
			if a.Is6() == six {
				to = a
			}
		}
		start(s, "server", func(p *sim.Process) error { defer listener.Close(); return serve(p, s, listener) })
		start(c, "client", func(p *sim.Process) error { return ping(p, c, to, data) })
		// Work posted from outside does not get a time stamp in the future.
		began, clock = c.Now(), l.elapsed()
		return nil
	})
	if began > clock {
		t.Errorf("at %v by the clock verbs are called at %v", clock, began)
	}
	for range 2 {
		r := await.Receive(t, "the end of rping", results)
		if r.err != nil {
			t.Errorf("%s, IPv6 %v: %v", r.who, six, r.err)
		}
		// 8 times rpingSize bytes at 200 Mb/s take 3.2 ms.
		if r.at < began+3200*units.Microsecond || r.at > l.elapsed() {
			t.Errorf("%s began at %v and ended at %v, by the clock before %v", r.who, began, r.at, l.elapsed())
		}
	}
	return numbers
}

// elapsed returns the emulated time that would have passed if the clock had never stood still.
// No engine is ever ahead of it.
func (l *Lab) elapsed() units.Time { return l.clock.Now() + l.clock.StoodStill() }

// payloads joins the payloads of packets to a queue pair that have one of three
// opcodes, for the first, a middle and the last packet of a message, with that
// many bytes of headers after the BTH.
func payloads(frames []oracle.Frame, number uint32, first uint8, headers [3]int) (all []byte) {
	for i := range frames {
		if f := &frames[i]; f.QP() == number && f.Opcode() >= first && f.Opcode() < first+3 {
			all = append(all, f.Payload(headers[f.Opcode()-first])...)
		}
	}
	return all
}

// Changes of a host's link with weft set reach its NIC, whose queue pairs time out while
// the link is down, and recover or fail.
func TestNIC_FollowsItsLink(t *testing.T) {
	t.Parallel()
	p := nicsOfHosts(t, 1)
	l, _, _ := startTwo(t, p)
	var a, b *verbs
	l.on(t, func() (err error) {
		if a, err = l.open("h1", nicemu.RC, 100_000); err != nil {
			return err
		}
		if b, err = l.open("h2", nicemu.RC, 100_000); err != nil {
			return err
		}
		return connect(a, b)
	})
	set := func(patch change.LinkPatch) {
		t.Helper()
		if _, err := NewClient(l.Dir()).Set(t.Context(), "h1:eth0", Both, patch); err != nil {
			t.Fatal(err)
		}
	}
	for _, rate := range []units.Rate{200 * units.Mbps, 50 * units.Mbps, 100 * units.Mbps} {
		set(change.LinkPatch{Rate: &rate})
		var got units.Rate
		l.on(t, func() error { got, _ = a.qp.Rate(); return nil })
		if got != rate {
			t.Errorf("on a line of %v the queue pair may send at %v", rate, got)
		}
	}
	state := func(s links.State) { set(change.LinkPatch{State: &s}) }
	counters := func() (c transport.Counters) {
		l.on(t, func() error { c, _ = a.qp.Counters(); return nil })
		return c
	}
	write := func(n units.Bytes) func() (nicemu.Status, bool) {
		l.on(t, func() error {
			return a.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{a.mr.SGE(0, n)}, RemoteVA: b.mr.Addr(0), RKey: b.mr.RKey()})
		})
		return func() (s nicemu.Status, done bool) {
			var c [1]nicemu.Completion
			l.on(t, func() error {
				n, err := a.cq.Poll(c[:])
				done = n > 0
				return err
			})
			return c[0].Status, done
		}
	}
	ends := func(done func() (nicemu.Status, bool), want nicemu.Status) {
		t.Helper()
		var s nicemu.Status
		await.True(t, "completion", func() bool {
			var is bool
			s, is = done()
			return is
		})
		if s != want {
			t.Errorf("the WRITE ended with %v, want %v", s, want)
		}
	}
	copy(a.buf, "before")
	ends(write(100_000), nicemu.Success)
	if string(b.buf[:6]) != "before" || counters().LocalAckTimeoutErr != 0 {
		t.Errorf("%q has come, %+v", b.buf[:6], counters())
	}
	state(links.Down)
	state(links.Up)
	ends(write(100_000), nicemu.Success)
	state(links.Down)
	copy(a.buf, "behind")
	// The link comes up at the first timeout, in emulated time: soon enough for the retries, however
	// late this test is.
	l.on(t, func() error {
		link, up := p.Nodes[nodeOf(p, "h1")].Ports[0].Link, links.Up
		l.fabric.EngineOf(a.Device).Go("repair", func(p *sim.Process) {
			for timeouts := uint64(0); timeouts == 0; {
				p.Sleep(units.Millisecond)
				c, _ := a.qp.Counters()
				timeouts = c.LocalAckTimeoutErr
			}
			if err := l.fabric.Set(link, [2]bool{true, true}, change.LinkPatch{State: &up}); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	ends(write(100_000), nicemu.Success)
	if string(b.buf[:6]) != "behind" || counters().LocalAckTimeoutErr == 0 {
		t.Errorf("%q has come, %+v", b.buf[:6], counters())
	}
	state(links.Down)
	ends(write(1), cq.RetryExcErr)
	var now nicemu.State
	l.on(t, func() error { now = a.qp.State(); return nil })
	if n := counters().ReqTransportRetriesExceeded; now != nicemu.StateErr || n != 1 {
		t.Errorf("state %v, retries exceeded %d times", now, n)
	}
}

// connect connects the queue pairs of two programs.
func connect(a, b *verbs) error {
	for _, x := range [][2]*verbs{{a, b}, {b, a}} {
		j := nicemu.Join{Local: x[0].Addresses()[0], Remote: x[1].Addresses()[0], RemoteQPN: x[1].qp.Number(), RdAtomic: 1, QKey: 0x1234}
		if k, config := x[0].qp.Query(); config.Type == nicemu.RC && k.State == nicemu.StateReset {
			j.Access = nicemu.RemoteWrite | nicemu.RemoteRead
		}
		if err := x[0].qp.Join(j); err != nil {
			return err
		}
	}
	return nil
}

// packetsIn returns a function that sends frames from a host's interface, bypassing its IP.
func packetsIn(t *testing.T, lab, host string) (send func(frame []byte)) {
	t.Helper()
	fd := -1
	inside(t, lab, host, func() error {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: i.Index})
	})
	t.Cleanup(func() { unix.Close(fd) })
	return func(frame []byte) {
		t.Helper()
		if _, err := unix.Write(fd, frame); err != nil {
			t.Fatal(err)
		}
	}
}

// kernelCounter reads a counter of a host's kernel, such as UdpNoPorts.
func kernelCounter(t *testing.T, lab, host, name string) int {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", netnslab.NamespaceName(lab, host), "nstat", "-asz", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in\n%s", name, out)
	return 0
}

// RoCEv2 packets that programs send to a host with a NIC go to
// the NIC, correct or damaged, and never to the host's kernel; packets from a NIC
// to a host without one are UDP to that host's kernel.
func TestNIC_ReceivesRoCEOfPrograms(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"ip", "nstat"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: this test needs %s of iproute2", program)
		}
	}
	p := nicsOfHosts(t, 1)
	l, _, stop := startTwo(t, p)
	var a, b *verbs
	var to *nicemu.AH
	l.on(t, func() (err error) {
		if a, err = l.open("h1", nicemu.UD, 4096); err != nil {
			return err
		}
		if b, err = l.open("h2", nicemu.UD, 4096); err != nil {
			return err
		}
		if err = connect(a, b); err != nil {
			return err
		}
		index, _ := b.GIDIndex(b.Addresses()[0])
		to, err = b.pd.CreateAH(nicemu.AV{Global: true, Port: 1, DGID: nicemu.GID(a.Addresses()[0]), SGIDIndex: index})
		return err
	})
	const text, grh = "datagram", nicemu.GRHLen
	received := func() {
		t.Helper()
		var c [1]nicemu.Completion
		await.True(t, "datagram", func() bool {
			n := 0
			l.on(t, func() (err error) { n, err = a.cq.Poll(c[:]); return err })
			return n > 0
		})
		if c[0].Status != nicemu.Success || c[0].ByteLen != uint32(grh+len(text)) || string(a.buf[grh:grh+len(text)]) != text {
			t.Errorf("%+v, %q has come", c[0], a.buf[grh:grh+len(text)])
		}
		clear(a.buf)
	}
	l.on(t, func() error {
		for range 2 {
			if err := a.receive(0, 1000); err != nil {
				return err
			}
		}
		return nil
	})
	end := l.capturing(t, "s1:1", "udp port 4791")
	l.on(t, func() error {
		return b.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpSend, Inline: []byte(text), Path: to.Path(), DestQP: a.qp.Number(), QKey: 0x1234})
	})
	received()
	frames := oracle.RoCE(t, end())
	if len(frames) != 1 {
		t.Fatalf("%d packets are in the capture", len(frames))
	}

	// The same packet from a program in the same host, and damaged.
	noPorts := kernelCounter(t, p.Name, "h1", "UdpNoPorts")
	send := packetsIn(t, p.Name, "h2")
	frame := frames[0].Data
	send(frame)
	received()
	damaged := bytes.Clone(frame)
	damaged[len(damaged)-6] ^= 1
	send(damaged)
	// From a kernel without RoCE.
	h1, h3 := a.Addresses()[0], netip.Addr{}
	plain := udpIn(t, p.Name, "h3", 0, 4791)
	for _, n := range []int{0, 1, 15, 16, 1000} {
		if _, err := plain.WriteToUDP(make([]byte, n), &net.UDPAddr{IP: h1.AsSlice(), Port: oracle.RoCEPort}); err != nil {
			t.Fatal(err)
		}
	}
	counters := func() (c nicemu.Counters) {
		l.on(t, func() error { c, _ = a.Counters(); return nil })
		return c
	}
	await.True(t, "damaged packets", func() bool { return counters().RxICRCErrors == 6 })
	if c := counters(); c.RcvPackets != 8 || c.RcvErrors != 0 || c.NoQP != 0 {
		t.Errorf("%+v", c)
	}
	if s, err := NewClient(l.Dir()).NICs(t.Context(), "h1"); err != nil || len(s) != 1 || s[0].Counters.Of("rx_icrc_encapsulated") != 6 {
		t.Errorf("the lab says %+v, %v", s, err)
	}
	if n := kernelCounter(t, p.Name, "h1", "UdpNoPorts"); n != noPorts {
		t.Errorf("the kernel of a host with a NIC has got %d datagrams", n-noPorts)
	}

	// From a NIC to a kernel: a program that listens there gets the datagrams;
	// without one they are refused with ICMP.
	n, _ := p.Node("h3")
	h3 = p.Nodes[n].Ports[0].Addresses[0].Addr()
	fails := func() {
		t.Helper()
		var c *verbs
		l.on(t, func() (err error) {
			if c, err = l.open("h1", nicemu.RC, 1000); err != nil {
				return err
			}
			if err = c.qp.Join(nicemu.Join{Local: h1, Remote: h3, RemoteQPN: 0x123, Access: nicemu.RemoteWrite}); err != nil {
				return err
			}
			return c.qp.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, Inline: []byte(text), RemoteVA: 1, RKey: 1})
		})
		var done [1]nicemu.Completion
		await.True(t, "end of the retries", func() bool {
			n := 0
			l.on(t, func() (err error) { n, err = c.cq.Poll(done[:]); return err })
			return n > 0
		})
		if done[0].Status != cq.RetryExcErr {
			t.Errorf("a WRITE to a host without a NIC: %v", done[0].Status)
		}
	}
	fails()
	buf := make([]byte, 2000)
	for range 5 { // the first and 4 retries
		if err := plain.SetReadDeadline(time.Now().Add(await.Limit)); err != nil {
			t.Fatal(err)
		}
		n, from, err := plain.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		// WRITE ONLY: BTH, RETH, 8 bytes, ICRC.
		if n != 12+16+8+4 || buf[0] != 10 || string(buf[28:36]) != text || from.Addr().Unmap() != h1 {
			t.Errorf("%d bytes from %v: %x", n, from, buf[:n])
		}
	}
	plain.Close()
	// A child that another test forks has a copy of the socket until it runs its program.
	await.True(t, "the end of the socket", func() bool {
		out, err := exec.Command("ip", "netns", "exec", netnslab.NamespaceName(p.Name, "h3"), "cat", "/proc/net/udp").Output()
		if err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(out), fmt.Sprintf(":%04X ", oracle.RoCEPort))
	})
	refused := kernelCounter(t, p.Name, "h3", "UdpNoPorts")
	fails()
	await.True(t, "five refused datagrams", func() bool { return kernelCounter(t, p.Name, "h3", "UdpNoPorts")-refused == 5 })
	await.True(t, "ICMP to the host with the NIC", func() bool { return kernelCounter(t, p.Name, "h1", "IcmpInDestUnreachs") > 0 })
	stop()
	if a := l.Report().Accounts; !a.Balanced() {
		t.Errorf("%+v", a)
	}
}
