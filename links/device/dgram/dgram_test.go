package dgram

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// fabric is the fabric that a NIC is connected to: a queue that the test fills and empties.
type fabric struct {
	engine             sim.Engine
	pool               packet.Pool
	queued             units.Bytes
	entered            [][]byte
	malformed, refused int
}

func (f *fabric) Enter(_ units.Time, p *packet.Packet) {
	f.entered = append(f.entered, bytes.Clone(p.Frame))
	f.queued += p.Size
	f.pool.Free(p)
}

func (f *fabric) Malformed(_ units.Time, p *packet.Packet)            { f.malformed++; f.pool.Free(p) }
func (f *fabric) Refused(units.Time, *packet.Packet)                  { f.refused++ }
func (f *fabric) QueueLength(units.Time) (packets int, b units.Bytes) { return 0, f.queued }

// newNIC returns a NIC and the guest's end of its socket.
func newNIC(t testing.TB, f *fabric) (n *NIC, guest int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err = New(Config{FD: fds[0], Pool: &f.pool, Entrance: f, Queue: f, High: 30_000, Low: 10_000, Rate: units.Gbps, Engine: &f.engine})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[1]); n.Close() })
	return n, fds[1]
}

// frame returns an Ethernet frame of n bytes of no known protocol.
func frame(n int, tag byte) []byte {
	b := bytes.Repeat([]byte{tag}, n)
	copy(b, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5})
	return b
}

func send(t testing.TB, fd int, b []byte) {
	t.Helper()
	if err := unix.Sendto(fd, b, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func TestNIC_FramesEnterTheFabric(t *testing.T) {
	f := &fabric{}
	n, guest := newNIC(t, f)
	var want [][]byte
	for i, size := range []int{60, 1514, 9014, 14, 61} {
		want = append(want, frame(size, byte(i)))
		send(t, guest, want[i])
	}
	if got := n.PollInput(0, 2); got != 2 || len(f.entered) != 2 {
		t.Errorf("%d read, %d entered, want 2", got, len(f.entered))
	}
	if got := n.PollInput(0, 100); got != 3 {
		t.Errorf("%d read, want the other 3", got)
	}
	for i := range want {
		if !bytes.Equal(f.entered[i], want[i]) {
			t.Errorf("frame %d differs", i)
		}
	}
	send(t, guest, frame(13, 1))                // no Ethernet header
	send(t, guest, frame(packet.MaxFrame+1, 1)) // longer than any
	send(t, guest, nil)
	if got := n.PollInput(0, 100); got != 3 || f.malformed != 3 || len(f.entered) != 5 {
		t.Errorf("%d read, %d malformed, %d entered", got, f.malformed, len(f.entered))
	}
	if got := n.PollInput(0, 100); got != 0 {
		t.Errorf("%d read of nothing", got)
	}
}

func TestNIC_ReadsManyFramesInOrder(t *testing.T) {
	f := &fabric{}
	n, guest := newNIC(t, f)
	total := 0
	for len(f.entered) < 1000 {
		for unix.Sendto(guest, frame(60+total%40, byte(total)), 0, nil) == nil {
			total++
		}
		f.queued = 0
		n.PollInput(0, 32)
	}
	for i, b := range f.entered {
		if !bytes.Equal(b, frame(60+i%40, byte(i))) {
			t.Fatalf("frame %d differs", i)
		}
	}
}

// readable reports whether the engine's thread would poll the NIC.
func readable(t *testing.T, n *NIC) bool {
	t.Helper()
	got, err := unix.Poll([]unix.PollFd{{Fd: int32(n.FD()), Events: unix.POLLIN}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return got == 1
}

// While the port's queue is long, frames stay in the
// socket, which is not polled; when the queue has drained they are read.
func TestNIC_HoldsTheGuestWhileTheQueueIsLong(t *testing.T) {
	f := &fabric{}
	n, guest := newNIC(t, f)
	if readable(t, n) {
		t.Error("readable with nothing to read")
	}
	send(t, guest, frame(1514, 1))
	if !readable(t, n) {
		t.Error("not readable")
	}
	f.queued = 30_001
	if got := n.PollInput(0, 32); got != 0 || readable(t, n) || n.HeldCount() != 1 {
		t.Errorf("%d read into a long queue; readable %v, %d holds", got, readable(t, n), n.HeldCount())
	}
	// 20 KB at 1 Gb/s take 160 us.
	if due := f.engine.Next(); due < 150*units.Microsecond || due > 170*units.Microsecond {
		t.Errorf("the queue is looked at again at %v", due)
	}
	f.queued = 10_001 // it was paused meanwhile
	f.engine.Run(200*units.Microsecond, 10)
	if readable(t, n) {
		t.Error("let go too early")
	}
	f.queued = 10_000
	f.engine.Run(units.Millisecond, 10)
	if !readable(t, n) || f.engine.Next() != units.Never {
		t.Errorf("not let go, or still looking: %v", f.engine.Next())
	}
	if got := n.PollInput(f.engine.Now(), 32); got != 1 || len(f.entered) != 1 {
		t.Errorf("%d read", got)
	}
	n.AdoptLink(100, 50, units.Gbps)
	send(t, guest, frame(1514, 1))
	if got := n.PollInput(f.engine.Now(), 32); got != 0 || n.HeldCount() != 2 {
		t.Errorf("%d read beyond the new bound, %d holds", got, n.HeldCount())
	}
}

func TestNIC_DeliversWhatTheGuestReads(t *testing.T) {
	f := &fabric{}
	n, guest := newNIC(t, f)
	writes := 0
	n.Delivered = func(_ units.Time, packets int) { writes += packets }
	deliver := func(b []byte) {
		p := f.pool.NewFrame(len(b))
		copy(p.Frame, b)
		if !p.Parse() {
			t.Fatal("no frame")
		}
		n.DeliverPacket(0, p)
	}
	b := make([]byte, packet.MaxFrame)
	for i, size := range []int{60, 1514, 9014} {
		deliver(frame(size, byte(i)))
		got, err := unix.Read(guest, b)
		if err != nil || !bytes.Equal(b[:got], frame(size, byte(i))) {
			t.Errorf("frame %d: %d bytes, %v", i, got, err)
		}
	}
	// A guest that does not read gets the frames that fit, in order, and the rest are refused.
	const many = 2000
	for i := range many {
		deliver(frame(1514, byte(i)))
	}
	taken := 0
	for ; ; taken++ {
		got, err := unix.Read(guest, b)
		if err != nil {
			break
		}
		if !bytes.Equal(b[:got], frame(1514, byte(taken))) {
			t.Fatalf("frame %d differs", taken)
		}
	}
	if f.refused == 0 || taken == 0 || taken+f.refused != many || writes != many+3 {
		t.Errorf("%d taken, %d refused, %d writes", taken, f.refused, writes)
	}
	// A guest that is gone takes nothing.
	f.refused = 0
	unix.Shutdown(guest, unix.SHUT_RDWR)
	deliver(frame(60, 1))
	if f.refused != 1 || n.PollInput(0, 10) != 0 {
		t.Errorf("%d refused by a guest that has ended", f.refused)
	}
}

func TestNIC_PacketsDoNotAllocate(t *testing.T) {
	f := &fabric{}
	n, guest := newNIC(t, f)
	b := frame(1514, 1)
	got := make([]byte, 2000)
	f.entered = make([][]byte, 0, 1)
	n.Entrance = drop{f}
	if a := testing.AllocsPerRun(100, func() {
		_ = unix.Sendto(guest, b, 0, nil)
		n.PollInput(0, 32)
		p := f.pool.NewFrame(len(b))
		copy(p.Frame, b)
		n.DeliverPacket(0, p)
		_, _ = unix.Read(guest, got)
	}); a > 0 {
		t.Errorf("%v allocations for a packet in and one out", a)
	}
}

// drop is an entrance that frees every packet.
type drop struct{ *fabric }

func (d drop) Enter(_ units.Time, p *packet.Packet) { d.pool.Free(p) }
