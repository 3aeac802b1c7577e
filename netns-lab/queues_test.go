package netnslab

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/sim/units"
)

// heldPair makes a lab of two hosts joined by a wire. h1 has three classes.
func heldPair(t *testing.T, kind DeviceKind, offload bool, r units.Rate) (*Lab, *wire) {
	h1, h2 := hostN(1, kind, r), hostN(2, kind, 0)
	h1.Interfaces[0].Classes = threeClasses()
	h1.Interfaces[0].Offload, h2.Interfaces[0].Offload = offload, offload
	l := makeLab(t, h1, h2)
	if kind == TAP {
		knowEachOther(t, l)
	}
	return l, join(t, l.Devices()[0], l.Devices()[1])
}

// knowEachOther spares h1 and h2 neighbour resolution, which may cost packets.
func knowEachOther(t *testing.T, l *Lab) {
	for i, d := range l.Devices() {
		inNetwork(t, l, []string{"h2", "h1"}[i], "ip", "neigh", "replace", fmt.Sprint("10.0.0.", i+1), "lladdr", d.MAC.String(), "dev", "eth0")
	}
}

// numbered is a numbered stream of datagrams from h1 to h2.
type numbered struct {
	sent, received atomic.Int64
	again          atomic.Int64 // received more than once
}

// number sends n datagrams of size bytes in a class. The sender blocks when its
// socket's buffer is full, which has room for some hundred of 1000 bytes.
func number(t *testing.T, l *Lab, dscp, port, n, size int) (*numbered, *sync.WaitGroup) {
	at := listenIn(t, l, "h2", port)
	setOption(t, at, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 100_000_000)
	s := &numbered{}
	seen := make([]bool, n)
	go func() {
		buf := make([]byte, 1<<16)
		for {
			k, err := at.Read(buf)
			if err != nil {
				return
			}
			i := binary.BigEndian.Uint32(buf)
			if k != size || seen[i] {
				s.again.Add(1)
				continue
			}
			seen[i] = true
			s.received.Add(1)
		}
	}()
	from := dscpSocket(t, l, "h1", dscp)
	setOption(t, from, unix.SOL_SOCKET, unix.SO_SNDBUF, 100_000)
	var done sync.WaitGroup
	done.Go(func() {
		payload := make([]byte, size)
		for i := range n {
			binary.BigEndian.PutUint32(payload, uint32(i))
			if _, err := from.WriteTo(payload, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: port}); err != nil {
				return
			}
			s.sent.Add(1)
		}
	})
	t.Cleanup(func() {
		from.Close()
		done.Wait()
		if t.Failed() {
			t.Logf("DSCP %d: %d of %d sent and %d received, %d twice", dscp, s.sent.Load(), n, s.received.Load(), s.again.Load())
		}
	})
	return s, &done
}

// waitAll waits until n are received.
func (s *numbered) waitAll(t *testing.T, what string, n int64) {
	t.Helper()
	await.True(t, what, func() bool { return s.received.Load() == n })
}

// checkHeld checks that the sender of more packets was stopped when its queue was held, at start
// or later, and that only the content of the bucket has come, and what may trickle.
func (s *numbered) checkHeld(t *testing.T, d *Device, n int64, start time.Time) {
	t.Helper()
	if s.sent.Load() == n {
		t.Error("a sender was not stopped")
	}
	got := 1000 * s.received.Load() // bytes
	if maxBytes := int64(d.shaper.tallest) + int64(trickle*time.Since(start).Seconds()); got > maxBytes {
		t.Errorf("%d bytes came from a queue that is held, more than %d", got, maxBytes)
	}
}

// One class stops, with its senders, and no other; after a resume all its packets arrive.
func TestHold_StopsOneClassOnly(t *testing.T) {
	needSteering(t)
	t.Parallel()
	for _, c := range []struct {
		kind    DeviceKind
		offload bool
		rate    units.Rate
	}{
		{TAP, false, 200 * units.Mbps}, {TAP, true, 200 * units.Mbps}, {TUN, true, 200 * units.Mbps}, {TUN, false, 0}, {TAP, true, 0},
	} {
		t.Run(fmt.Sprintf("%v offload %v %s", c.kind, c.offload, c.rate), func(t *testing.T) {
			t.Parallel()
			l, w := heldPair(t, c.kind, c.offload, c.rate)
			d := l.Devices()[0]
			queue, _ := d.Queues(3)
			start := time.Now()
			if err := d.HoldQueue(queue); err != nil {
				t.Fatal(err)
			}
			const n = 3000
			held, heldDone := number(t, l, 26, 7001, n, 1000)
			await.True(t, "packets that wait in the queue", func() bool { return countersOf(t, d).Queues[queue].Packets > 0 })
			free, freeDone := number(t, l, 0, 7002, n, 1000)
			freeDone.Wait()
			free.waitAll(t, "all packets of another class", n)
			if free.again.Load() != 0 {
				t.Error("packets of another class came twice")
			}
			held.checkHeld(t, d, n, start)
			counters := countersOf(t, d)
			if q := counters.Queues[queue]; q.Packets == 0 || q.Bytes < 1000 || q.Drops != 0 || counters.QueuePackets < q.Packets {
				t.Errorf("%+v of %+v waits in the host", q, counters)
			}
			before := held.received.Load()
			if err := d.ResumeQueue(queue); err != nil {
				t.Fatal(err)
			}
			heldDone.Wait()
			held.waitAll(t, "what was held", n)
			if before == n || held.again.Load() != 0 {
				t.Errorf("%d came before the end of the hold, %d twice", before, held.again.Load())
			}
			await.True(t, "the frame that wakes the queue", func() bool { return w.kicks.Load() == 1 })
			checkNothingDropped(t, d)
		})
	}
}

// A non-blocking sender gets an error.
func TestHold_TellsNonBlockingSenders(t *testing.T) {
	needSteering(t)
	t.Parallel()
	l, _ := heldPair(t, TAP, true, units.Gbps)
	d := l.Devices()[0]
	if err := d.HoldQueue(2); err != nil {
		t.Fatal(err)
	}
	conn := dscpSocket(t, l, "h1", 46)
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	to := &unix.SockaddrInet6{Addr: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 2}, Port: blastPort}
	if cerr := raw.Control(func(fd uintptr) {
		for err == nil {
			err = unix.Sendto(int(fd), make([]byte, 1000), 0, to)
		}
	}); cerr != nil || err != syscall.EAGAIN {
		t.Errorf("a sender in a class that is held got %v, want EAGAIN", err)
	}
	checkNothingDropped(t, d)
}

// transferred is a transfer by TCP.
type transferred struct {
	size     int64
	received atomic.Int64
	checked  sync.WaitGroup
}

// Write counts received bytes.
func (x *transferred) Write(b []byte) (int, error) {
	x.received.Add(int64(len(b)))
	return len(b), nil
}

// waitMore waits until some more bytes have been received, or all.
func (x *transferred) waitMore(t *testing.T, n int64) {
	t.Helper()
	want := min(x.received.Load()+n, x.size)
	await.True(t, "more bytes of TCP", func() bool { return x.received.Load() >= want })
}

// transfer sends size random bytes over TCP (reno) in a class, from h1 to h2, and
// checks the received bytes.
func transfer(t *testing.T, l *Lab, dscp, size int) *transferred {
	listener := socketIn(t, l, "h2", func() (net.Listener, error) { return net.Listen("tcp4", "10.0.0.2:0") })
	t.Cleanup(func() { listener.Close() })
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, dscp<<2),
				unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno"))
		})
		return errors.Join(cerr, err)
	}}
	conn := socketIn(t, l, "h1", func() (net.Conn, error) { return dialer.Dial("tcp4", listener.Addr().String()) })
	t.Cleanup(func() { conn.Close() })
	random := rand.NewChaCha8([32]byte{1})
	x := &transferred{size: int64(size)}
	var sent, received [sha256.Size]byte
	var all sync.WaitGroup
	all.Go(func() {
		defer conn.Close()
		h := sha256.New()
		if _, err := io.CopyN(io.MultiWriter(h, conn), random, int64(size)); err != nil {
			t.Error(err)
		}
		sent = [sha256.Size]byte(h.Sum(nil))
	})
	all.Go(func() {
		in, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer in.Close()
		h := sha256.New()
		if _, err = io.Copy(io.MultiWriter(h, x), in); err != nil {
			t.Error(err)
		}
		received = [sha256.Size]byte(h.Sum(nil))
	})
	x.checked.Go(func() {
		all.Wait()
		if n := x.received.Load(); n != x.size || sent != received {
			t.Errorf("%d bytes came of %d, or others", n, size)
		}
	})
	return x
}

// TCP continues after every hold and loses nothing. A hold lasts while another class goes on.
func TestHold_LosesNothingOfTCP(t *testing.T) {
	needSteering(t)
	t.Parallel()
	for _, rate := range []units.Rate{500 * units.Mbps, 0} {
		t.Run(rate.String(), func(t *testing.T) {
			t.Parallel()
			l, _ := heldPair(t, TAP, true, rate)
			d := l.Devices()[0]
			const size, some = 20_000_000, 200_000
			held, other := transfer(t, l, 46, size), transfer(t, l, 0, size)
			for held.received.Load() < size && other.received.Load() < size {
				if err := d.HoldQueue(2); err != nil {
					t.Fatal(err)
				}
				other.waitMore(t, some)
				if err := d.ResumeQueue(2); err != nil {
					t.Fatal(err)
				}
				held.waitMore(t, some)
			}
			held.checked.Wait()
			other.checked.Wait()
			checkNothingDropped(t, d)
		})
	}
}

// If classes cannot be kept apart, all are held together.
func TestHold_WithoutSteeringStopsAllClasses(t *testing.T) {
	refuseSteering(t)
	l, _ := heldPair(t, TAP, true, 200*units.Mbps)
	d := l.Devices()[0]
	start := time.Now()
	if err := d.HoldQueue(firstQueue(d, 3)); err != nil {
		t.Fatal(err)
	}
	const n = 3000
	var streams []*numbered
	for i, dscp := range []int{26, 0} {
		s, _ := number(t, l, dscp, 7001+i, n, 1000)
		streams = append(streams, s)
	}
	await.True(t, "packets that wait in the host", func() bool { return countersOf(t, d).QueuePackets > 0 })
	// Packets in the other direction pass meanwhile.
	from, at := listenIn(t, l, "h2", 0), listenIn(t, l, "h1", blastPort)
	for range 200 {
		if _, err := from.WriteTo(make([]byte, 100), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: blastPort}); err != nil {
			t.Fatal(err)
		}
		receive(t, at)
	}
	for _, s := range streams {
		s.checkHeld(t, d, n, start)
	}
	if err := d.ResumeQueue(firstQueue(d, 3)); err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		s.waitAll(t, "what was held", n)
	}
	checkNothingDropped(t, d)
}

// Rates and MTUs apply to all queues. A held queue adopts them when it is resumed.
func TestQueues_FollowRateAndMTU(t *testing.T) {
	needSteering(t)
	t.Parallel()
	l, w := heldPair(t, TAP, false, 100*units.Mbps)
	d := l.Devices()[0]
	buckets := func() (rates []string) {
		for line := range strings.Lines(inNetwork(t, l, "h1", "tc", "qdisc", "show", "dev", "eth0")) {
			if f := strings.Fields(line); f[1] == "tbf" {
				rates = append(rates, f[2]+f[6])
			}
		}
		slices.Sort(rates)
		return rates
	}
	check := func(want ...string) {
		t.Helper()
		if got := buckets(); !slices.Equal(got, want) {
			t.Errorf("token buckets %v, want %v", got, want)
		}
	}
	check("10:100Mbit", "11:100Mbit", "12:100Mbit")
	for _, change := range []func() error{
		func() error { return d.SetRate(50 * units.Mbps) },
		func() error { return d.HoldQueue(1) },
		func() error { return d.SetMTU(9000) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	check("10:50Mbit", "11:8Kbit", "12:50Mbit")
	if err := d.SetRate(20 * units.Mbps); err != nil {
		t.Fatal(err)
	}
	check("10:20Mbit", "11:8Kbit", "12:20Mbit")
	if err := d.ResumeQueue(1); err != nil {
		t.Fatal(err)
	}
	check("10:20Mbit", "11:20Mbit", "12:20Mbit")
	if err := l.Devices()[1].SetMTU(9000); err != nil {
		t.Fatal(err)
	}
	s, done := number(t, l, 26, 7001, 20, 8000)
	done.Wait()
	s.waitAll(t, "large packets", 20)
	if w.longest.Load() < 8000 {
		t.Errorf("the longest frame has %d bytes", w.longest.Load())
	}
	if err := d.SetRate(0); err != nil {
		t.Fatal(err)
	}
	unlimited := buckets()
	if len(unlimited) != 3 || strings.Contains(strings.Join(unlimited, " "), "Mbit") {
		t.Errorf("without a limit: %v", unlimited)
	}
	if out := inNetwork(t, l, "h1", "tc", "qdisc", "show", "dev", "eth0"); strings.Count(out, "qdisc") != 4 {
		t.Errorf("mq and three token buckets, and no more, are to be there:\n%s", out)
	}
	plug(t, l, false)
	plug(t, l, true)
	check(unlimited...)
	s, _ = number(t, l, 46, 7002, 20, 1000)
	s.waitAll(t, "packets after the cable was pulled", 20)
}

// In a device that is down there is nothing to wake.
func TestResume_WorksWhileTheDeviceIsDown(t *testing.T) {
	needSteering(t)
	t.Parallel()
	l, _ := heldPair(t, TAP, true, units.Gbps)
	d := l.Devices()[0]
	if err := d.HoldQueue(1); err != nil {
		t.Fatal(err)
	}
	inNetwork(t, l, "h1", "ip", "link", "set", "eth0", "down")
	if err := d.ResumeQueue(1); err != nil {
		t.Fatal(err)
	}
	inNetwork(t, l, "h1", "ip", "link", "set", "eth0", "up")
	s, _ := number(t, l, 26, 7001, 20, 1000)
	s.waitAll(t, "packets of a device that is up again", 20)
	if out := inNetwork(t, l, "h1", "tc", "qdisc", "show", "dev", "eth0"); strings.Count(out, "tbf") != 3 {
		t.Errorf("the shapers went with the link:\n%s", out)
	}
}

// BenchmarkResume measures the time from the call to the first packet at the device,
// which a thread with SCHED_FIFO polls, as an engine's may.
func BenchmarkResume(b *testing.B) {
	needSteering(b)
	runtime.LockOSThread() // and never unlocked: the thread ends, with its scheduling policy
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	h := hostN(1, TAP, units.Gbps)
	h.Interfaces[0].Classes = threeClasses()
	l := makeLab(b, h)
	d := l.Devices()[0]
	knowNeighbour(b, l, TAP, "10.0.0.2")
	blastFrom(b, dscpSocket(b, l, "h1", 26), 1000)
	buf := make([]byte, 1<<17)
	poll := []unix.PollFd{{Fd: int32(d.FDs[1]), Events: unix.POLLIN}}
	drain := func() {
		for {
			if n, _ := unix.Poll(poll, 20); n == 0 {
				return
			}
			for n := 1; n > 0; n, _ = unix.Read(d.FDs[1], buf) {
			}
		}
	}
	var took []time.Duration
	for b.Loop() {
		if err := d.HoldQueue(1); err != nil {
			b.Fatal(err)
		}
		drain()
		start := time.Now()
		resumed := make(chan error)
		go func() { resumed <- d.ResumeQueue(1) }() // it returns when all pending packets have come
		for {
			if n, err := unix.Read(d.FDs[1], buf); err == nil && !bytes.HasSuffix(buf[:n], Kick) {
				break
			}
		}
		took = append(took, time.Since(start))
		if err := <-resumed; err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "us/p99")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "us/max")
}

func firstQueue(d *Device, priority uint8) int {
	first, _ := d.Queues(priority)
	return first
}
