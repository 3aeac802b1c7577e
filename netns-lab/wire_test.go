package netnslab

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// wire joins two devices until the test ends, and counts the frames from the first.
type wire struct {
	ends    [2]*Device
	frames  atomic.Int64
	bytes   atomic.Int64 // on an Ethernet: with preamble, FCS, gap and padding
	longest atomic.Int64 // bytes of frame
	kicks   atomic.Int64 // not among the frames
}

func join(t *testing.T, a, b *Device) *wire {
	w := &wire{ends: [2]*Device{a, b}}
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { w.run(stop) })
	t.Cleanup(func() { // before the lab is closed
		close(stop)
		done.Wait()
	})
	return w
}

func (w *wire) run(stop chan struct{}) {
	// With priority over the programs that it serves, like an emulator's thread. The
	// thread ends with the goroutine.
	runtime.LockOSThread()
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	buf := make([]byte, 1<<17)
	var poll []unix.PollFd
	var from []int // the end of each
	for i, d := range w.ends {
		for _, fd := range d.FDs {
			poll, from = append(poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}), append(from, i)
		}
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		if _, err := unix.Poll(poll, 50); err != nil {
			continue
		}
		for i, p := range poll {
			for p.Revents&unix.POLLIN != 0 {
				n, err := unix.Read(int(p.Fd), buf)
				if err != nil {
					break
				}
				if bytes.HasSuffix(buf[:n], Kick) {
					w.kicks.Add(1)
					continue
				}
				if from[i] == 0 {
					w.count(n)
				}
				_, _ = unix.Write(w.ends[1-from[i]].FD, buf[:n])
			}
		}
	}
}

func (w *wire) count(frame int) {
	w.frames.Add(1)
	w.longest.Store(max(w.longest.Load(), int64(frame)))
	onEthernet := frame + ethernetHeader - w.ends[0].Kind.headerLen()
	w.bytes.Add(int64(max(onEthernet+wireOverhead, wireMin)))
}

// socketIn makes a socket in a host of l: a socket has the namespace of the thread
// that makes it.
func socketIn[T any](t testing.TB, l *Lab, host string, f func() (T, error)) (socket T) {
	t.Helper()
	i := slices.IndexFunc(l.info.Hosts, func(h HostInfo) bool { return h.Name == host })
	err := onSparedThread(func() (err error) {
		if err := joinNamespace(l.info.Hosts[i].Namespace); err != nil {
			return err
		}
		socket, err = f()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return socket
}

// listenIn makes a UDP socket in a host of l; port 0 is any.
func listenIn(t testing.TB, l *Lab, host string, port int) *net.UDPConn {
	conn := socketIn(t, l, host, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

// setOption sets an integer option of a socket.
func setOption(t testing.TB, conn *net.UDPConn, level, option, value int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, value) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}

// blast sends datagrams of the given size from h1 to h2, which receives them, as
// fast as the sender's socket takes them, until the test ends.
func blast(t testing.TB, l *Lab, size int) {
	listenIn(t, l, "h2", blastPort)
	blastFrom(t, listenIn(t, l, "h1", 0), size)
}

func blastFrom(t testing.TB, conn *net.UDPConn, size int) {
	// Enough to keep the queue filled while the sender waits for a processor.
	setOption(t, conn, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 8_000_000)
	var done sync.WaitGroup
	done.Go(func() {
		payload := make([]byte, size)
		for !errors.Is(send(conn, payload), net.ErrClosed) {
		}
	})
	t.Cleanup(func() {
		conn.Close()
		done.Wait()
	})
}

const blastPort = 9000

func send(conn *net.UDPConn, payload []byte) error {
	_, err := conn.WriteTo(payload, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: blastPort})
	return err
}
