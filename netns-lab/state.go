package netnslab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// stateDir holds a directory for each lab of this user that is running or was left behind.
//
// A lab's directory is locked (flock) by its owner for the owner's life: a process that
// gets the lock knows that the owner is dead. Lab directories are made, locked,
// tested and removed only under the lock of stateDir itself, so that a lock is never on
// a directory that another process is removing, and a test of a lock is not mistaken
// for an owner.
var stateDir = stateDirOf(os.Geteuid(), "/run", os.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", os.Geteuid()))

// stateDirOf returns a directory in the first of the candidates that the user owns,
// else in /tmp: this is /run/weft for root, and for others it follows the XDG Base
// Directory Specification.
func stateDirOf(uid int, candidates ...string) string {
	for _, c := range candidates {
		var st unix.Stat_t
		if filepath.IsAbs(c) && unix.Stat(c, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Uid == uint32(uid) {
			return filepath.Join(c, "weft")
		}
	}
	return fmt.Sprintf("/tmp/weft-%d", uid)
}

// checkOwn makes sure that no other user can have put anything into dir.
func checkOwn(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a directory of the user %d that nobody else can write to: remove it", dir, os.Geteuid())
	}
	return nil
}

// Errors about the state of a lab, to be tested with errors.Is.
var (
	ErrRunning    = errors.New("the lab is running")
	ErrNotRunning = errors.New("the lab is not running")
	ErrUnknown    = errors.New("unknown lab")
	ErrNoHost     = errors.New("unknown host")
)

// state is the directory of a lab, locked by this process.
type state struct {
	name string
	lock *os.File
}

func (s *state) directory() string { return filepath.Join(stateDir, s.name) }

func (s *state) unlockState() { s.lock.Close() }

// lockDir locks a directory until the file it returns is closed.
func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
}

// runAlone runs f under the lock of stateDir.
func runAlone(f func() error) error {
	if err := checkOwn(stateDir); err != nil {
		return err
	}
	lock, err := lockDir(stateDir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	return f()
}

// acquireState locks the directory of a lab whose owner is dead, or that is new if create
// is set. It waits for an owner that is dying, or is just making or removing the
// lab.
func acquireState(name string, create bool) (*state, error) {
	for end := time.Now().Add(dyingWait); ; time.Sleep(5 * time.Millisecond) {
		s, err := tryAcquire(name, create)
		var held *heldError
		if !errors.As(err, &held) {
			return s, err
		}
		if !held.passing || time.Now().After(end) {
			return nil, held
		}
	}
}

func tryAcquire(name string, create bool) (*state, error) {
	s := &state{name: name}
	err := runAlone(func() (err error) {
		if create {
			if err := os.Mkdir(s.directory(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		s.lock, err = lockDir(s.directory(), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return unknownError(name)
		case errors.Is(err, unix.EWOULDBLOCK):
			return runningError(s.directory())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// heldError is an ErrRunning. It is passing if no owner is going to keep holding the lab.
type heldError struct {
	text    string
	passing bool
}

func (e *heldError) Error() string { return e.text }
func (e *heldError) Unwrap() error { return ErrRunning }

// runningError returns the error for a lab whose lock is held.
func runningError(dir string) error {
	name := filepath.Base(dir)
	info, err := readJournal(dir)
	switch {
	case err != nil || info.PID == 0:
		return &heldError{fmt.Sprintf("lab %s is being created or removed: try again", name), true}
	case isDying(info.PID):
		return &heldError{fmt.Sprintf("lab %s: its process %d was killed and does not end, so its devices still exist: try again, or look at /proc/%[2]d/stack", name, info.PID), true}
	}
	return &heldError{fmt.Sprintf("lab %s is already running (pid %d); stop it with: weft down %[1]s", info.Name, info.PID), false}
}

func unknownError(name string) error {
	return fmt.Errorf("%w: %s is neither running nor left by an owner that died: weft ps lists the labs", ErrUnknown, name)
}

// claimLab makes this process the owner of the lab info.Name: it removes what a dead
// owner left of it and writes the journal, before anything else is made.
func claimLab(info Info) (*state, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, err
	}
	s, err := acquireState(info.Name, true)
	if err != nil {
		return nil, err
	}
	if err := s.removeLeftovers(); err != nil {
		s.unlockState()
		return nil, fmt.Errorf("remove the rest of an earlier lab %s: %w", info.Name, err)
	}
	err = runAlone(func() error {
		if err := s.removeFiles(); err != nil {
			return err
		}
		if err := checkUnclaimed(info); err != nil {
			return err
		}
		return writeJournal(s.directory(), info)
	})
	if err != nil {
		return nil, errors.Join(err, s.removeState())
	}
	return s, nil
}

// removeFiles removes all files in the directory, but not the directory, since its lock is
// held. A dead owner has left its socket, its log and its hosts' view of their NICs
// there.
func (s *state) removeFiles() error {
	entries, err := os.ReadDir(s.directory())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.directory(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkUnclaimed makes sure that no namespace of the new lab belongs to another owner,
// because everything in the journal will be removed. Names of different labs can
// collide: host b-c of lab a, and host c of lab a-b.
func checkUnclaimed(info Info) error {
	wanted := info.namespaceNames()
	labs, err := listLocked()
	if err != nil {
		return err
	}
	for _, other := range labs {
		for _, h := range other.Hosts {
			if other.Name != info.Name && slices.Contains(wanted, h.Namespace) {
				return fmt.Errorf("the namespace %s is host %s of lab %s: rename a lab or a host, or weft down %s", h.Namespace, h.Name, other.Name, other.Name)
			}
		}
	}
	for _, ns := range wanted {
		if _, err := os.Lstat(namespacePath(ns)); err == nil {
			return fmt.Errorf("a namespace %s exists and belongs to no lab: ip netns del %s", ns, ns)
		}
	}
	return nil
}

// removeState deletes the directory and releases the lock.
func (s *state) removeState() error {
	defer s.unlockState()
	return runAlone(func() error { return os.RemoveAll(s.directory()) })
}

// ListLabs returns the labs that are running or were left behind.
func ListLabs() (labs []Info, err error) {
	err = runAlone(func() (err error) {
		labs, err = listLocked()
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was ever made
	}
	return labs, err
}

// listLocked is ListLabs under the lock of stateDir.
func listLocked() (labs []Info, err error) {
	entries, err := os.ReadDir(stateDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := readJournal(filepath.Join(stateDir, e.Name()))
		if err != nil {
			return nil, err
		}
		lock, err := lockDir(info.Dir, unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case err == nil:
			lock.Close()
		case errors.Is(err, unix.EWOULDBLOCK):
			info.Running = info.PID == 0 || !isDying(info.PID)
		default:
			return nil, err
		}
		labs = append(labs, info)
	}
	return labs, nil
}

// FindLab returns a lab. The error wraps ErrUnknown if there is none.
func FindLab(lab string) (Info, error) {
	labs, err := ListLabs()
	if err != nil {
		return Info{}, err
	}
	for _, i := range labs {
		if i.Name == lab {
			return i, nil
		}
	}
	return Info{}, unknownError(lab)
}
