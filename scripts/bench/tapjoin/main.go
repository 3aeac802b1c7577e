// Command tapjoin is a reference for benchmarks: the simplest loop that carries
// packets between two TAPs. It opens eth0 in each of two network namespaces and
// copies frames from one to the other and back on one thread, with no queue, no
// clock and no accounting in between.
//
// With "offload" the devices hand over super-packets of up to 64 KB (IFF_VNET_HDR,
// TSO), which cross unsplit.
//
//	tapjoin NAMESPACE NAMESPACE MTU [offload]
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"github.com/songgao/water"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func main() {
	fmt.Fprintln(os.Stderr, "tapjoin:", joinDevices())
	os.Exit(1)
}

// joinDevices joins the devices until it is killed or fails.
func joinDevices() error {
	offload := len(os.Args) == 5 && os.Args[4] == "offload"
	if len(os.Args) != 4 && !offload {
		return fmt.Errorf("usage: tapjoin NAMESPACE NAMESPACE MTU [offload]")
	}
	mtu, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	var fds [2]int
	for i := range fds {
		if fds[i], err = openDevice(os.Args[1+i], offload); err != nil {
			return err
		}
	}
	buf := make([]byte, mtu+64)
	if offload {
		buf = make([]byte, 1<<16+64)
	}
	poll := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}, {Fd: int32(fds[1]), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			return err
		}
		for i := range poll {
			for n := 0; n < 32 && poll[i].Revents != 0; n++ {
				r, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fds[i]), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
				if errno != 0 {
					break
				}
				unix.RawSyscall(unix.SYS_WRITE, uintptr(fds[1-i]), uintptr(unsafe.Pointer(&buf[0])), r)
			}
		}
	}
}

// openDevice makes eth0 in a namespace and returns its fd, which is not registered with Go's poller.
func openDevice(namespace string, offload bool) (int, error) {
	ns, err := netns.GetFromName(namespace)
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	if err := netns.Set(ns); err != nil {
		return 0, err
	}
	if offload {
		return openOffload()
	}
	tap, err := water.New(water.Config{DeviceType: water.TAP, PlatformSpecificParams: water.PlatformSpecificParams{Name: "eth0"}})
	if err != nil {
		return 0, err
	}
	defer tap.Close()
	raw, err := tap.ReadWriteCloser.(*os.File).SyscallConn()
	if err != nil {
		return 0, err
	}
	fd := -1
	var derr error
	if err := raw.Control(func(f uintptr) { fd, derr = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return 0, err
	}
	return fd, derr
}

func openOffload() (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	request, err := unix.NewIfreq("eth0")
	if err != nil {
		return 0, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return 0, err
	}
	return fd, unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6|unix.TUN_F_TSO_ECN)
}
