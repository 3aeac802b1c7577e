package netnslab

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// virtioHeader is the length of the header that precedes every packet of a
// device with offload: struct virtio_net_hdr.
const virtioHeader = 10

// The offloads that a device can offer to the host's kernel
// (include/uapi/linux/if_tun.h).
const (
	offloadCsum   = 0x01
	offloadTSO4   = 0x02
	offloadTSO6   = 0x04
	offloadTSOECN = 0x08 // without it, flows with ECN lose TSO
	offloadUSO4   = 0x20 // both or neither; since Linux 6.2
	offloadUSO6   = 0x40
	offloadTCP    = offloadCsum | offloadTSO4 | offloadTSO6 | offloadTSOECN
	offloadTCPUDP = offloadTCP | offloadUSO4 | offloadUSO6
)

// openOffload opens a device that carries super-packets (IFF_VNET_HDR). The water
// package does not support the flag, so this is done by hand. The device is
// non-blocking and not registered with Go's poller.
func openOffload(name string, kind DeviceKind, several bool) (fd int, err error) {
	fd, err = unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open a %v device through %s: %w", kind, tunPath, err)
	}
	if err := setUpOffload(fd, name, kind, several); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func setUpOffload(fd int, name string, kind DeviceKind, several bool) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if kind == TUN {
		flags = unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR
	}
	if several {
		flags |= unix.IFF_MULTI_QUEUE
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("make a %v device with segmentation offload: %w (not needed with offload: off)", kind, err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, virtioHeader); err != nil {
		return fmt.Errorf("set the length of the virtio header: %w (not needed with offload: off)", err)
	}
	// Kernels before 6.2 refuse USO.
	for _, offload := range []int{offloadTCPUDP, offloadTCP} {
		if err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offload); err == nil {
			return nil
		}
	}
	return fmt.Errorf("turn on segmentation offload: %w (not needed with offload: off)", err)
}
