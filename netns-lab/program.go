package netnslab

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runProgram starts a program in the host whose init is pidfd, and waits for its end. It
// uses a thread that waits as long as the program runs, since the program is killed
// when the thread ends. No other goroutine ever runs on that thread.
func runProgram(pidfd int, lab, host string, p Program) (status syscall.WaitStatus, err error) {
	done := make(chan struct{})
	go notMainThread(func() {
		defer close(done)
		var j *job
		if j, err = startProgram(pidfd, p); err != nil {
			err = fmt.Errorf("host %s of lab %s: %w", host, lab, err)
			return
		}
		status, err = j.awaitEnd()
	})
	<-done
	return status, err
}

// startProgram starts a program from the calling thread.
func startProgram(pidfd int, p Program) (*job, error) {
	report, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0) // its other end is inherited
	if err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	unix.CloseOnExec(report[0])
	reports := os.NewFile(uintptr(report[0]), "report")
	defer reports.Close()
	j := newJob()
	j.catchSignals()
	if err = enterHost(pidfd); err == nil {
		j.pid, err = syscall.ForkExec(self, entry{report[1], p}.encodeArgs(), &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: j.procAttributes(),
		})
	}
	unix.Close(report[1])
	if err != nil {
		j.releaseProcess()
		return nil, fmt.Errorf("enter it: %w", err)
	}
	j.forwardSignals()
	// See dieWithParent.
	if _, err := io.ReadFull(reports, make([]byte, 1)); err == nil {
		_, _ = unix.Write(report[0], []byte{0})
	}
	text, err := io.ReadAll(reports)
	if err == nil && len(text) == 0 {
		return j, nil // it has executed the program
	}
	_, _ = j.awaitEnd()
	return nil, decodeFailure(text)
}

// entry holds the orders for runEnter.
type entry struct {
	report int // descriptor for the error if the program cannot start
	Program
}

// encodeArgs returns the orders as a process's arguments, which may be any bytes.
func (e entry) encodeArgs() []string {
	return append([]string{enterName, strconv.Itoa(e.report), strconv.FormatBool(e.KernelRDMA), e.Dir}, e.Argv...)
}

func parseEntry(args []string) (e entry, err error) {
	if len(args) < 5 {
		return e, errors.New("too few arguments")
	}
	e.Dir, e.Argv = args[3], args[4:]
	if e.report, err = strconv.Atoi(args[1]); err == nil {
		e.KernelRDMA, err = strconv.ParseBool(args[2])
	}
	return e, err
}

// A report of why a program cannot start begins with its kind.
var kinds = map[byte]error{'n': fs.ErrNotExist, 'p': fs.ErrPermission, 'o': errors.New("")}

func decodeFailure(text []byte) error {
	if len(text) < 2 {
		return errors.New("the program did not start")
	}
	return &startError{kinds[text[0]], string(text[1:])}
}

// startError is an error from another process.
type startError struct {
	kind error
	text string
}

func (e *startError) Error() string { return e.text }
func (e *startError) Unwrap() error { return e.kind }

// runEnter executes a program in the process that start has made in a host.
func runEnter(args []string) {
	runtime.LockOSThread() // the parent's death signal is tied to the thread
	e, err := parseEntry(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", enterName, err)
		os.Exit(2)
	}
	unix.CloseOnExec(e.report)
	err = e.becomeProgram()
	kind := byte('o')
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		kind = 'n'
	case errors.Is(err, fs.ErrPermission):
		kind = 'p'
	}
	_, _ = unix.Write(e.report, fmt.Appendf(nil, "%c%v", kind, err))
	os.Exit(1)
}

// dieWithParent makes this process die with the thread that started it.
func (e entry) dieWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_PDEATHSIG): %w", err)
	}
	// The parent may be dead already. Its PID does not tell, as every parent outside the
	// host has PID 0; nor does the state of the socket, which other threads of a killed
	// parent still have for a while. So the thread must answer.
	b := []byte{0}
	if _, err := unix.Write(e.report, b); err != nil {
		os.Exit(1)
	}
	for {
		switch n, err := unix.Read(e.report, b); {
		case n == 1:
			return nil
		case err != unix.EINTR:
			os.Exit(1)
		}
	}
}

func (e entry) becomeProgram() error {
	// Killing weft exec must kill the program.
	if err := e.dieWithParent(); err != nil {
		return err
	}
	if e.KernelRDMA {
		if err := hideVerbs(); err != nil {
			return fmt.Errorf("show the machine's RDMA devices: %w", err)
		}
	}
	if os.Chdir(e.Dir) != nil {
		_ = os.Chdir("/")
	}
	path, err := exec.LookPath(e.Argv[0])
	if err != nil {
		return fmt.Errorf("program %s: %w", e.Argv[0], errors.Unwrap(err))
	}
	return fmt.Errorf("start %s: %w", path, syscall.Exec(path, e.Argv, os.Environ()))
}

// EndAs ends this process as a program has ended: with its exit code, or by the signal
// that killed it.
func EndAs(status syscall.WaitStatus) {
	if status.Signaled() {
		dieOf(status.Signal())
		os.Exit(128 + int(status.Signal()))
	}
	os.Exit(status.ExitStatus())
}

// dieOf ends this process by a signal, without a core dump: the program has dumped its own.
func dieOf(s syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	runtime.LockOSThread()
	defaultAction(s)
	_ = unix.Kill(os.Getpid(), s)
	_ = unix.Pause() // until the signal arrives
}
