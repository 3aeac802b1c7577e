package uverbs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/transport"
)

// Server gives the programs of one host its NICs. Make it with New.
type Server struct {
	devices []Device
	do      func(func()) error
	warn    func(error)

	listener *net.UnixListener
	sessions sync.WaitGroup
	mu       sync.Mutex
	open     map[*session]bool
	closed   bool

	// What follows is the engine's thread's.
	epoll  int
	kick   int // eventfd: there is more to do than one turn has done
	behind []*session
	bells  map[int32]*session
	next   int32
	events [16]unix.EpollEvent
	qps    map[*nicemu.QP]*queue
	cqs    map[*nicemu.CQ]*completions
	srqs   map[*nicemu.SRQ]*queue
	ports  ports

	// Room for the entry that is being dealt with.
	scratch []byte
	sges    []memory.SGE
	wr      transport.SendWR
}

// Device is a NIC as programs see it.
type Device struct {
	*nicemu.Device
	Netdev string // the interface that it is of, such as "eth0"
}

// kickBell names the server's own eventfd among the doorbells.
const kickBell = -1

// New makes the server of a host whose NICs are devices, at most 16. do runs a
// function on the thread of their engine, with the engine's time at the present, and
// waits for it; its error says that the engine has ended.
func New(devices []Device, do func(func()) error) (*Server, error) {
	if len(devices) > maxDevices {
		return nil, fmt.Errorf("a host has %d NICs: programs can use %d", len(devices), maxDevices)
	}
	s := &Server{
		devices: devices, do: do, open: map[*session]bool{}, bells: map[int32]*session{},
		qps: map[*nicemu.QP]*queue{}, cqs: map[*nicemu.CQ]*completions{}, srqs: map[*nicemu.SRQ]*queue{},
		ports: newPorts(),
	}
	var err error
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if s.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = s.watch(s.kick, kickBell)
	}
	if err != nil {
		unix.Close(s.epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	for _, d := range devices {
		d.NotifyEvents(func() { s.takeEvents(d) })
	}
	return s, nil
}

// watch has epoll tell of an eventfd whenever it is written to. It is never read: its
// flags are the process's as well, which could make reading block.
func (s *Server) watch(fd int, name int32) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: name})
}

// Listen makes the socket, for the owner of the lab alone.
func (s *Server) Listen(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// A socket's address has 107 bytes, less than a path may have.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: short, Net: "unixpacket"})
	unix.Umask(old)
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // by then the name means something else; the directory goes with the lab
	s.listener = l
	return nil
}

// Serve takes connections until Close. warn is told of what goes wrong without
// ending it.
func (s *Server) Serve(warn func(error)) {
	s.warn = warn
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			warn(fmt.Errorf("socket for RDMA programs: %w", err))
			return
		}
		s.sessions.Add(1)
		go func() {
			defer s.sessions.Done()
			s.serve(c)
		}()
	}
}

// serve is the life of a session.
func (s *Server) serve(c *net.UnixConn) {
	defer c.Close()
	x, err := newSession(s, c)
	if err != nil {
		s.warn(fmt.Errorf("an RDMA program: %w", err))
		return
	}
	s.mu.Lock()
	closed := s.closed
	s.open[x] = true
	s.mu.Unlock()
	if !closed {
		x.run()
	}
	x.end()
	s.mu.Lock()
	delete(s.open, x)
	s.mu.Unlock()
}

// Close ends all sessions and waits for that. The engine may have ended before.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for x := range s.open {
		_ = x.conn.CloseRead() // run comes back
	}
	s.mu.Unlock()
	if s.listener != nil {
		s.listener.Close()
	}
	s.sessions.Wait()
	unix.Close(s.kick)
	unix.Close(s.epoll)
}

// FD is ready when a process has rung its doorbell (wall.Poller).
func (s *Server) FD() int { return s.epoll }

// Poll takes the work requests that processes have posted, on the engine's thread,
// and says how many. max is for each process that has rung.
func (s *Server) Poll(_ units.Time, max int) (taken int) {
	// What is rung from here on, by the server itself too, is for the next turn.
	n := s.rung()
	behind := s.behind
	s.behind = nil
	for _, x := range behind {
		x.behind = false
		if !x.ended {
			taken += x.take(max)
		}
	}
	for i := range n {
		if x := s.bells[s.events[i].Fd]; x != nil && !x.behind {
			taken += x.take(max)
		}
	}
	return taken
}

// rung looks which doorbells have been rung.
func (s *Server) rung() int {
	var now unix.Timespec
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(s.epoll), uintptr(unsafe.Pointer(&s.events[0])), uintptr(len(s.events)), uintptr(unsafe.Pointer(&now)), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// later has a session's turn come again.
func (s *Server) later(x *session) {
	if x.behind {
		return
	}
	x.behind = true
	s.behind = append(s.behind, x)
	one := [8]byte{1}
	_, _ = unix.Write(s.kick, one[:]) // full: it has been rung
}
