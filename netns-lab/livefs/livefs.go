// Package livefs provides file systems whose files are generated when they are read,
// like those of sysfs. They use FUSE, so nothing is computed or kept up to date unless
// a program reads.
package livefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Device is the kernel device for such file systems.
const Device = "/dev/fuse"

// ErrUnavailable means that the machine does not let the caller create such file systems.
var ErrUnavailable = errors.New("no FUSE")

// MountFS makes a file system that is not attached to a directory yet: mount is for
// move_mount(2), device for ServeFiles. It needs access to Device, the right to mount, and Linux
// 5.2; otherwise it returns ErrUnavailable.
func MountFS(name string) (mount, device int, err error) {
	if device, err = unix.Open(Device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return -1, -1, fmt.Errorf("%w: open %s: %w", ErrUnavailable, Device, err)
	}
	if mount, err = attachMount(name, device); err != nil {
		unix.Close(device)
		return -1, -1, fmt.Errorf("%w: make a file system: %w", ErrUnavailable, err)
	}
	return mount, device, nil
}

func attachMount(name string, device int) (mount int, err error) {
	c, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(c)
	for _, o := range [][2]string{
		{"source", name}, {"fd", fmt.Sprint(device)}, {"rootmode", "40000"}, {"user_id", "0"}, {"group_id", "0"}, {"max_read", fmt.Sprint(pageSize)},
	} {
		if err := unix.FsconfigSetString(c, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("%s: %w", o[0], err)
		}
	}
	for _, o := range []string{"allow_other", "default_permissions", "ro"} {
		if err := unix.FsconfigSetFlag(c, o); err != nil {
			return -1, fmt.Errorf("%s: %w", o, err)
		}
	}
	if err := unix.FsconfigCreate(c); err != nil {
		return -1, err
	}
	return unix.Fsmount(c, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// pageSize is the maximum content of a sysfs file, and the size that it reports.
const pageSize = 4096

// Files maps the paths of a file system, without a leading slash, to functions that
// return a file's text. They are called for one file at a time, by one goroutine for
// each FS; the reader sees an error as EIO.
type Files map[string]func() (string, error)

// FS is a file system being served.
type FS struct {
	device *os.File
	done   chan struct{}
}

// ServeFiles serves files to all users of the mount returned by MountFS, until Close or until it is no
// longer mounted anywhere. It takes over device.
func ServeFiles(device int, files Files) *FS {
	long := time.Hour // files are never added or removed
	raw := fs.NewNodeFS(&root{files: files}, &fs.Options{EntryTimeout: &long, AttrTimeout: &long, NegativeTimeout: &long, RootStableAttr: &fs.StableAttr{Ino: 1}})
	// Requests that are not supported are refused, which needs no log.
	quiet := log.New(io.Discard, "", 0)
	f := &FS{device: os.NewFile(uintptr(device), Device), done: make(chan struct{})}
	go f.serveProtocol(fuse.NewProtocolServer(raw, &fuse.MountOptions{MaxWrite: pageSize, Logger: quiet, DisableXAttrs: true}))
	return f
}

// buffers hold a request and its answer: the kernel requires more room than these need.
var buffers = sync.Pool{New: func() any { return &[2][]byte{make([]byte, 64<<10), make([]byte, 256<<10)} }}

func (f *FS) serveProtocol(s *fuse.ProtocolServer) {
	defer close(f.done)
	defer f.device.Close()
	c, err := f.device.SyscallConn()
	if err != nil {
		return
	}
	for {
		// Buffers are taken only when there is a request: most of the time there is none.
		var failed error
		err := c.Read(func(fd uintptr) bool {
			var again bool
			again, failed = answerRequest(int(fd), s)
			return !again
		})
		if err != nil || failed != nil {
			return
		}
	}
}

// answerRequest reads a request and answers it; again means that there is none yet. An error means
// that there will be no more.
func answerRequest(fd int, s *fuse.ProtocolServer) (again bool, err error) {
	b := buffers.Get().(*[2][]byte)
	defer buffers.Put(b)
	n, err := unix.Read(fd, b[0])
	switch {
	case errors.Is(err, unix.EAGAIN):
		return true, nil
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // the requester has gone
		return false, nil
	case err != nil:
		return false, err
	}
	if n, _ = s.HandleRequest([][]byte{b[0][:n]}, [][]byte{b[1]}); n > 0 {
		// An error means that the requester has gone.
		_, _ = unix.Write(fd, b[1][:n])
	}
	return false, nil
}

// Close stops serving. Readers get ENOTCONN from then on.
func (f *FS) Close() {
	f.device.Close()
	<-f.done
}

// Done is closed when serving has ended.
func (f *FS) Done() <-chan struct{} { return f.done }

type root struct {
	fs.Inode
	files Files
}

// OnAdd makes the tree.
func (r *root) OnAdd(ctx context.Context) {
	for name, text := range r.files {
		at := &r.Inode
		dir, base := path.Split(name)
		for _, d := range strings.FieldsFunc(dir, func(c rune) bool { return c == '/' }) {
			next := at.GetChild(d)
			if next == nil {
				next = at.NewPersistentInode(ctx, &directory{}, fs.StableAttr{Mode: unix.S_IFDIR})
				at.AddChild(d, next, true)
			}
			at = next
		}
		at.AddChild(base, at.NewPersistentInode(ctx, &file{text: text}, fs.StableAttr{Mode: unix.S_IFREG}), true)
	}
}

func (r *root) Getattr(context.Context, fs.FileHandle, *fuse.AttrOut) syscall.Errno { return 0 }

type directory struct{ fs.Inode }

func (d *directory) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = 0o755
	return 0
}

type file struct {
	fs.Inode
	text func() (string, error)
}

func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o444, pageSize
	return 0
}

// Open returns a file whose content is regenerated whenever it is read from its beginning, as
// in sysfs: programs keep it open and seek.
func (f *file) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		return nil, 0, unix.EACCES
	}
	return &handle{file: f}, fuse.FOPEN_DIRECT_IO, 0
}

// handle is an open file. Content that is read in several pieces is from one point in time.
type handle struct {
	file *file
	mu   sync.Mutex
	text string
}

func (h *handle) Read(_ context.Context, to []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if offset == 0 {
		text, err := h.file.text()
		if err != nil {
			return nil, unix.EIO
		}
		h.text = text
	}
	n := copy(to, h.text[min(offset, int64(len(h.text))):])
	return fuse.ReadResultData(to[:n]), 0
}
