package uverbs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// Server gives the programs of one host access to its NICs. Make it with New.
type Server struct {
	// ResolveTime is how long rdma_resolve_addr takes; 0 means no time. Set it before Serve. On
	// real hosts connecting takes some milliseconds before the first message leaves, and programs
	// rely on it: perftest -R crashes if its server does not listen yet.
	ResolveTime time.Duration
	// Start returns the zero of emulated time on the programs' clock, as computed now
	// (wall.Clock.Start). Set it before Serve; without it the zero is in 1970.
	Start func() time.Time
	// PortChanged, if set, is called on the engine's thread when a port has gone down or up, or its
	// GIDs have changed. Set it before Serve.
	PortChanged func()

	devices []Device
	do      func(func()) error
	warn    func(error)
	share   func(name string, size int) (shm, int, error) // newSHM, but in tests

	listener *net.UnixListener
	sessions sync.WaitGroup
	mu       sync.Mutex
	open     map[*session]bool
	closed   bool
	budget   *budget
	held     cost // of the budget, by sessions themselves
	admitted int  // sessions

	// The fields below belong to the engine's thread.
	epoll    int
	kick     int        // eventfd: there is more work than one turn does
	behind   []*session // waiting for a turn
	members  map[int32]*session
	next     int32
	events   [16]unix.EpollEvent
	qps      map[*nicemu.QP]*queue
	cqs      map[*nicemu.CQ]*completions
	srqs     map[*nicemu.SRQ]*queue
	contexts map[*opened]bool
	xrcds    map[inode]*sharedXRCD
	targets  map[*nicemu.QP]*sharedQP
	ports    ports

	// Room for the current entry.
	scratch []byte
	sges    []memory.SGE
	wr      transport.SendWR
}

// Device is a NIC as programs see it.
type Device struct {
	*nicemu.Device
	Netdev string // its interface, such as "eth0"
}

// What epoll reports, in an event's Pad.
const (
	bellRung    = iota // by a process, or by the server itself
	socketReady        // with a request, or the process has hung up
)

// bellEvents makes epoll report every write to an eventfd. The eventfd is never read: the process
// shares its flags, and could make reads block.
const bellEvents = unix.EPOLLIN | unix.EPOLLET

// nobody is the name of no session: of the server's own eventfd.
const nobody = -1

// New makes the server of a host whose NICs are devices, at most 16. do runs a function on the
// thread of their engine, with the engine's time at the present, and waits for it; an error means
// that the engine has ended.
func New(devices []Device, do func(func()) error) (*Server, error) {
	if len(devices) > maxDevices {
		return nil, fmt.Errorf("a host has %d NICs: programs can use at most %d", len(devices), maxDevices)
	}
	s := &Server{
		devices: devices, do: do, share: newSHM, open: map[*session]bool{}, members: map[int32]*session{},
		qps: map[*nicemu.QP]*queue{}, cqs: map[*nicemu.CQ]*completions{}, srqs: map[*nicemu.SRQ]*queue{}, contexts: map[*opened]bool{},
		xrcds: map[inode]*sharedXRCD{}, targets: map[*nicemu.QP]*sharedQP{},
		budget: machine(), Start: func() time.Time { return time.Unix(0, 0) },
	}
	s.ports.init()
	var err error
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if s.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = s.watchFD(s.kick, bellEvents, nobody, bellRung)
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

// watchFD makes epoll report events of a descriptor of a session.
func (s *Server) watchFD(fd int, events uint32, name, what int32) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: name, Pad: what})
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

// maxSessions is the number of programs that can use a host's NICs at once, if the budget of
// descriptors allows it.
const maxSessions = 1024

// acceptAgain is how long Serve waits when a connection cannot be accepted, for example for lack of
// descriptors.
const acceptAgain = 100 * time.Millisecond

// Serve accepts connections until Close. It calls warn for errors that do not end it.
func (s *Server) Serve(warn func(error)) {
	s.warn = warn
	troubled := false // and reported
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			if err = s.reserveSession(); err != nil {
				c.Close()
			}
		}
		if err != nil {
			if !troubled {
				warn(fmt.Errorf("socket for RDMA programs: %w", err))
			}
			troubled = true
			time.Sleep(acceptAgain)
			continue
		}
		troubled = false
		s.sessions.Add(1)
		go func() {
			defer s.sessions.Done()
			s.serveConn(c)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.admitted--
			s.budget.releaseCost(&s.held, ofSession)
		}()
	}
}

// reserveSession reserves room for one more session, if there is any.
func (s *Server) reserveSession() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted >= maxSessions {
		return fmt.Errorf("%d programs use the host's NICs, which is the maximum", s.admitted)
	}
	if err := s.budget.acquireCost(&s.held, ofSession); err != nil {
		return err
	}
	s.admitted++
	return nil
}

// serveConn runs a session.
func (s *Server) serveConn(c *net.UnixConn) {
	x, err := newSession(s, c)
	if errors.Is(err, syscall.ESRCH) {
		return // the program ended before its first request
	}
	if err != nil {
		s.warn(fmt.Errorf("an RDMA program: %w", err))
		return
	}
	s.mu.Lock()
	closed := s.closed
	s.open[x] = true
	s.mu.Unlock()
	if !closed {
		x.runDetached()
	}
	x.destroyObjects()
	s.mu.Lock()
	delete(s.open, x)
	s.mu.Unlock()
}

// Close ends all sessions and waits for that. The engine may have ended before.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for x := range s.open {
		x.hangUp()
	}
	s.mu.Unlock()
	if s.listener != nil {
		s.listener.Close()
	}
	s.sessions.Wait()
	unix.Close(s.kick)
	unix.Close(s.epoll)
}

// FD becomes ready when a process has rung its doorbell, or has sent a request (wall.Poller).
func (s *Server) FD() int { return s.epoll }

// PollInput takes the work requests that processes have posted and answers their control requests, on the
// engine's thread. It returns how many it took, where a control request counts as perRequest. It
// takes no more than the fabric can wait for, and ignores the requested number: a work request is
// less than a packet, and there are more of them.
func (s *Server) PollInput(units.Time, int) (taken int) {
	// Bells rung from here on, by the server itself too, are for the next turn.
	for i := range s.pollReady() {
		e := &s.events[i]
		if x := s.members[e.Fd]; x != nil {
			x.asked = x.asked || e.Pad == socketReady
			s.deferSession(x)
		}
	}
	for range len(s.behind) {
		if taken >= perPoll {
			break
		}
		x := s.behind[0]
		s.behind[0] = nil
		s.behind = s.behind[1:]
		x.behind = false
		if !x.ended {
			taken += x.serveOnce()
		}
	}
	if len(s.behind) > 0 {
		one := [8]byte{1}
		_, _ = unix.Write(s.kick, one[:]) // full: it has been rung
	}
	return taken
}

// pollReady asks epoll which doorbells have been rung and which sockets have requests.
func (s *Server) pollReady() int {
	var now unix.Timespec
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(s.epoll), uintptr(unsafe.Pointer(&s.events[0])), uintptr(len(s.events)), uintptr(unsafe.Pointer(&now)), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// deferSession queues a session's turn behind those of others.
func (s *Server) deferSession(x *session) {
	if !x.behind {
		x.behind = true
		s.behind = append(s.behind, x)
	}
}
