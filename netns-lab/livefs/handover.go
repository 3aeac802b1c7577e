package livefs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Listen makes the socket by which others hand over what Mount gave them as device; see
// Hand and Take. It is for this process's user alone.
func Listen(path string) (*net.UnixListener, error) {
	// A socket's address has 107 bytes, less than a path may have.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), Net: "unixpacket"})
	unix.Umask(old)
	if err == nil {
		l.SetUnlinkOnClose(false) // by then the name means something else
	}
	return l, err
}

// Hand gives a device to who listens at a socket, to be served.
func Hand(socket string, device int) error {
	at, err := unix.Open(socket, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: socket, Err: err}
	}
	defer unix.Close(at)
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Connect(s, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d", at)}); err != nil {
		return fmt.Errorf("connect to %s: %w", socket, err)
	}
	return unix.Sendmsg(s, []byte{1}, unix.UnixRights(device), nil, 0)
}

// Take waits for a device. An error that is net.ErrClosed is that l was closed.
func Take(l *net.UnixListener) (device int, err error) {
	c, err := l.AcceptUnix()
	if err != nil {
		return -1, err
	}
	defer c.Close()
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return -1, err
	}
	list, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return -1, err
	}
	if len(list) != 1 {
		return -1, errors.New("no descriptor has come")
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(err, errors.New("no descriptor has come"))
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}
