package doctor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// virtioHeader is the size of the header before a frame with IFF_VNET_HDR:
// struct virtio_net_hdr of linux/virtio_net.h, TUN's default.
const virtioHeader = 10

// openTAP creates a TAP in the calling thread's namespace. Its descriptor is
// non-blocking and not registered with Go's poller; the device ends with it.
func openTAP(name string, offload bool) (fd int, err error) {
	const path = "/dev/net/tun"
	if fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if offload {
		flags |= unix.IFF_VNET_HDR
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(flags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil && offload {
		err = setOffloads(fd, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("make a TAP: %w", err)
	}
	return fd, nil
}

// setOffloads sets which super-packets the reader of a TAP accepts: TUN_F_* of
// linux/if_tun.h.
func setOffloads(fd, which int) error { return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, which) }
