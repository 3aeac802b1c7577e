package netnslab

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// watchEvery is how often WatchHosts checks whether to stop.
const watchEvery = 500 * time.Millisecond

// WatchHosts calls ended when a host ends before its lab does, for example because its first
// process was killed or a program in it called reboot(2). It returns when stop is
// closed, which must happen before Close.
func (l *Lab) WatchHosts(stop <-chan struct{}, ended func(host string)) error {
	all, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	defer unix.Close(all)
	for i, ns := range l.hosts {
		if ns.init == nil {
			continue
		}
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(i)}
		if err := unix.EpollCtl(all, unix.EPOLL_CTL_ADD, ns.init.fd, &event); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	var events [16]unix.EpollEvent
	for {
		n, err := unix.EpollWait(all, events[:], int(watchEvery.Milliseconds()))
		select {
		case <-stop:
			return nil
		default:
		}
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			ended(l.info.Hosts[e.Fd].Name)
		}
	}
}
