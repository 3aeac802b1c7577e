package rdma

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
)

// bump forwards frames between the two interfaces of a host and flips a bit in a share
// of the RoCE packets, where the ICRC covers it. It is an ordinary program: its links
// have to be slow, or frames wait in it for longer than a local ACK timeout.
func bump(l *testlab.Lab, host string, share float64) (damaged *atomic.Uint64, stop func()) {
	l.T.Helper()
	var fds [2]int
	for i := range fds {
		fds[i] = testlab.SocketIn(l, host, func() (int, error) {
			ifr, err := unix.NewIfreq("eth" + strconv.Itoa(i))
			if err != nil {
				return 0, err
			}
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return 0, err
			}
			if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
				return 0, err
			}
			const all = unix.ETH_P_ALL << 8 // big-endian
			if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(ifr.Uint32())}); err != nil {
				return 0, err
			}
			wait := unix.NsecToTimeval(int64(50 * time.Millisecond))
			return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
		})
	}
	damaged = &atomic.Uint64{}
	var ended atomic.Bool
	var running sync.WaitGroup
	for i := range fds {
		running.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -15)
			random := rand.New(rand.NewPCG(1, uint64(i)))
			frame := make([]byte, 10000)
			for !ended.Load() {
				n, from, err := unix.Recvfrom(fds[i], frame, 0)
				if err != nil || from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING {
					continue
				}
				// Ethernet, IPv4 and UDP; the ICRC excludes the byte of FECN and BECN.
				const transport, udpPort, becn = 42, 36, 42 + 4
				if n > transport && string(frame[12:14]) == "\x08\x00" && string(frame[udpPort:udpPort+2]) == "\x12\xb7" && random.Float64() < share {
					at := transport + random.IntN(n-transport)
					if at == becn {
						at++
					}
					frame[at] ^= 1 << random.IntN(8)
					if _, err := unix.Write(fds[1-i], frame[:n]); err == nil {
						damaged.Add(1)
					}
					continue
				}
				_, _ = unix.Write(fds[1-i], frame[:n]) // lost if the device is full
			}
		})
	}
	stop = sync.OnceFunc(func() {
		ended.Store(true)
		running.Wait()
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	l.T.Cleanup(stop)
	return damaged, stop
}
