package uverbs

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
)

// Processes share an XRC domain by a file: the domain of a device that belongs to its inode, as
// ib_uverbs has it (ib_uverbs_open_xrcd). Queue pairs of type XRC_RECV belong to the domain: a
// process opens one that another has made by its number, and each ends its own handle. The queue
// pair ends with the last handle, and the domain with the last process that has it open.

// inode identifies the file of an XRC domain of a device.
type inode struct {
	device    *nicemu.Device
	disk, ino uint64
}

// sharedXRCD is an XRC domain that processes have opened.
type sharedXRCD struct {
	*nicemu.XRCD
	file    inode // zero if no other process can open it
	handles []*openXRCD
	qps     map[uint32]*sharedQP // by number
}

// openXRCD is an XRC domain that a process has opened. Its descriptor keeps the inode from being
// reused for another file.
type openXRCD struct {
	*sharedXRCD
	memory  host // of the process
	context *opened
	fd      int // -1 without a file
	users   int // queue pairs and shared receive queues of the process
}

// sharedQP is a queue pair of type XRC_RECV, with the handles of processes.
type sharedQP struct {
	qp      *nicemu.QP
	handles []*queue
}

// Flags of openXRCDMsg.
const (
	flagCreate = 1 << iota
	flagExclusive
)

func (x *session) openXRCD(q *openXRCDMsg) answer {
	c, err := getObject[*opened](x, q.Context, "context")
	if err != nil {
		return failedAnswer(err)
	}
	o := &openXRCD{memory: x.memory, context: c, fd: -1}
	var file inode
	if q.FD >= 0 {
		if o.fd, err = x.memory.openFile(int(q.FD)); err != nil {
			return failedAnswer(err)
		}
		if file, err = inodeOf(c.Device, o.fd); err != nil {
			unix.Close(o.fd)
			return failedAnswer(err)
		}
	}
	if o.sharedXRCD, err = x.server.findXRCD(c.Device, file, q.Flags); err != nil {
		o.closeFile()
		return failedAnswer(err)
	}
	o.handles = append(o.handles, o)
	return x.madeAnswer(o)
}

func inodeOf(d *nicemu.Device, fd int) (inode, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return inode{}, fmt.Errorf("the file of an XRC domain: %w", err)
	}
	return inode{d, s.Dev, s.Ino}, nil
}

// findXRCD finds the XRC domain of a file, or makes one. Errors are those of the kernel.
func (s *Server) findXRCD(d *nicemu.Device, file inode, flags uint32) (*sharedXRCD, error) {
	if file.device != nil {
		known := s.xrcds[file]
		if known != nil && !known.isOpen() {
			known = nil // it ends with the last of its sessions
		}
		switch {
		case known != nil && flags&flagExclusive != 0:
			return nil, fmt.Errorf("%w: the file has an XRC domain already: leave O_EXCL out to open it", syscall.EINVAL)
		case known != nil:
			return known, nil
		case flags&flagCreate == 0:
			return nil, fmt.Errorf("%w: the file has no XRC domain: add O_CREAT to make it", syscall.EAGAIN)
		}
	}
	made, err := d.OpenXRCD()
	if err != nil {
		return nil, err
	}
	shared := &sharedXRCD{XRCD: made, file: file, qps: map[uint32]*sharedQP{}}
	if file.device != nil {
		s.xrcds[file] = shared
	}
	return shared, nil
}

// isOpen reports whether a process that still exists has the domain open.
func (d *sharedXRCD) isOpen() bool {
	return slices.ContainsFunc(d.handles, func(o *openXRCD) bool { return o.memory.isConnected() })
}

func (x *session) closeXRCD(q *handleMsg) answer {
	o, err := getObject[*openXRCD](x, q.Handle, "XRC domain")
	if err != nil {
		return failedAnswer(err)
	}
	return removeObject(x, q.Handle, func() error {
		if o.users > 0 {
			return fmt.Errorf("%w: the process has %d queue pairs and shared receive queues in the XRC domain: destroy them first", syscall.EBUSY, o.users)
		}
		x.server.leaveXRCD(o)
		x.releaseObject(o)
		return nil
	})
}

// leaveXRCD gives up a process's handle of an XRC domain, and closes the domain with the last one:
// then no process has objects in it.
func (s *Server) leaveXRCD(o *openXRCD) {
	d := o.sharedXRCD
	d.handles = slices.DeleteFunc(d.handles, func(h *openXRCD) bool { return h == o })
	if len(d.handles) > 0 {
		return
	}
	_ = d.Close()
	if s.xrcds[d.file] == d {
		delete(s.xrcds, d.file)
	}
}

func (o *openXRCD) closeFile() {
	if o.fd >= 0 {
		unix.Close(o.fd)
		o.fd = -1
	}
}

// createTarget makes a queue pair of type XRC_RECV.
func (x *session) createTarget(q *createQP) answer {
	o, err := getObject[*openXRCD](x, q.XRCD, "XRC domain")
	if err != nil {
		return failedAnswer(err)
	}
	made, err := o.CreateQP()
	if err != nil {
		return failedAnswer(err)
	}
	shared := &sharedQP{qp: made}
	o.qps[made.Number()] = shared
	x.server.targets[made] = shared
	return x.addTarget(o, shared)
}

// openQP opens a queue pair of type XRC_RECV that a process has made, by its number.
func (x *session) openQP(q *openQPMsg) answer {
	o, err := getObject[*openXRCD](x, q.XRCD, "XRC domain")
	if err != nil {
		return failedAnswer(err)
	}
	if q.Type != uint32(qp.XRCRecv) {
		return failedAnswer(fmt.Errorf("%w: qp_type is %d: only queue pairs of type IBV_QPT_XRC_RECV (10) can be opened", syscall.EINVAL, q.Type))
	}
	shared := o.qps[q.QPNum]
	if shared == nil {
		return failedAnswer(fmt.Errorf("%w: the XRC domain has no queue pair %d", syscall.EINVAL, q.QPNum))
	}
	return x.addTarget(o, shared)
}

// addTarget gives a process a handle of a queue pair of type XRC_RECV.
func (x *session) addTarget(o *openXRCD, shared *sharedQP) answer {
	k := &queue{session: x, context: o.context, qp: shared.qp, target: shared, xrcd: o}
	shared.handles = append(shared.handles, k)
	o.users++
	k.handle = x.addObject(k)
	return answer{body: qpAnswer{Handle: k.handle, QPNum: shared.qp.Number()}}
}

// leaveTarget gives up a process's handle of a queue pair of type XRC_RECV, and destroys the queue
// pair with the last one.
func (k *queue) leaveTarget() {
	t, s := k.target, k.session.server
	t.handles = slices.DeleteFunc(t.handles, func(h *queue) bool { return h == k })
	k.xrcd.users--
	if len(t.handles) == 0 {
		delete(s.targets, t.qp)
		delete(k.xrcd.qps, t.qp.Number())
		_ = t.qp.Destroy()
	}
}
