package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/lab"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/netns-lab/vm/agent"
)

// runInGuest runs a program in a virtual machine with this process's terminal and signals.
func runInGuest(ctx context.Context, info netnslab.Info, host string, argv []string) error {
	stream, err := lab.NewClient(info.Dir).Agent(ctx, host)
	if err != nil {
		return err
	}
	c := agent.Command{Argv: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if isTerminal(os.Stdin) && isTerminal(os.Stdout) {
		restore, err := makeRaw(os.Stdin)
		if err != nil {
			return err
		}
		defer restore()
		size := sizeOf(os.Stdout)
		c.TTY, c.Env = &size, []string{"TERM=" + os.Getenv("TERM")}
		resized := make(chan agent.Terminal)
		c.Resize = resized
		defer onSignal(func(os.Signal) { resized <- sizeOf(os.Stdout) }, unix.SIGWINCH)()
	}
	signals := make(chan syscall.Signal)
	c.Signals = signals
	defer onSignal(func(s os.Signal) { signals <- s.(syscall.Signal) }, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)()
	r, err := agent.Run(stream, c)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", host, err)
	case r.Error != "":
		return &exitError{r.Code, errors.New(r.Error)}
	case r.Code != 0:
		return &exitError{r.Code, errors.New("")} // the program has said why
	}
	return nil
}

// onSignal calls f for each signal, one call at a time, until stop is called.
// stop does not end a call in progress.
func onSignal(f func(os.Signal), signals ...os.Signal) (stop func()) {
	come := make(chan os.Signal, 8)
	signal.Notify(come, signals...)
	go func() {
		for s := range come {
			f(s)
		}
	}()
	return func() { signal.Stop(come) }
}

// shellInGuest opens a shell in a virtual machine, or its console. done is false if
// the host is not a virtual machine.
func shellInGuest(ctx context.Context, name, host string, console bool) (done bool, err error) {
	name, host = splitLab(name, host)
	info, err := findLab(name)
	if err != nil {
		return false, err
	}
	if h, ok := info.Host(host); !ok || !h.Virtual {
		if console && ok {
			return false, badInput(fmt.Errorf("%s has no console: it is not a virtual machine", host))
		}
		return false, nil
	}
	if console {
		return true, openConsole(info, host)
	}
	s, err := lab.NewClient(info.Dir).Status(ctx)
	if err != nil {
		return false, err
	}
	for _, h := range s.Hosts {
		if h.Name == host && h.VM != nil && h.VM.Running && !h.VM.Agent {
			fmt.Fprintf(os.Stderr, "weft: weft's agent does not answer in %s: opening its console\n", host)
			return true, openConsole(info, host)
		}
	}
	return true, runInGuest(ctx, info, host, guestShell)
}

// guestShell starts bash if the guest has it, otherwise sh.
var guestShell = []string{"/bin/sh", "-c", "if [ -x /bin/bash ]; then exec /bin/bash -l; else exec /bin/sh -l; fi"}

// consoleError says why a console does not open. QEMU accepts one connection, and the next waits.
func consoleError(host string, err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		err = errors.New("it is open elsewhere, and others wait for it")
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		err = errors.New("the virtual machine has ended")
	}
	return fmt.Errorf("the console of %s: %w", host, err)
}

// leaveKey ends a console: Ctrl-].
const leaveKey = 0x1d

// openConsole connects this terminal to the console of a virtual machine until
// the machine or the input ends, or Ctrl-] is typed.
func openConsole(info netnslab.Info, host string) error {
	conn, err := net.Dial("unix", vm.ConsolePath(lab.GuestDir(info.Dir, host)))
	if err != nil {
		return consoleError(host, err)
	}
	defer conn.Close()
	if isTerminal(os.Stdin) {
		fmt.Fprintf(os.Stderr, "weft: the console of %s; Ctrl-] leaves it\r\n", host)
		restore, err := makeRaw(os.Stdin)
		if err != nil {
			return err
		}
		defer restore()
	}
	over := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(os.Stdout, conn)
		over <- struct{}{}
	}()
	go func() {
		typeInto(conn, os.Stdin)
		over <- struct{}{}
	}()
	<-over
	return nil
}

// typeInto copies the input to w until leaveKey is typed.
func typeInto(w io.Writer, r io.Reader) {
	b := make([]byte, 1024)
	for {
		n, err := r.Read(b)
		for i := range b[:n] {
			if b[i] == leaveKey {
				return
			}
		}
		if _, werr := w.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

// makeRaw puts a terminal into raw mode, as cfmakeraw(3) does.
func makeRaw(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

// sizeOf returns the size of a terminal, or 24 lines of 80 columns if it is unknown.
func sizeOf(f *os.File) agent.Terminal {
	s, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || s.Row == 0 || s.Col == 0 {
		return agent.Terminal{Rows: 24, Columns: 80}
	}
	return agent.Terminal{Rows: s.Row, Columns: s.Col}
}
