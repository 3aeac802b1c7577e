package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/spec"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// A lab that an ordinary user starts needs a process that was born in
// namespaces of its own (netns-lab/rootless.go). weft up starts itself there,
// with --rootless; the other commands stay outside and find the lab's control
// socket in the file system, but for exec and shell, which go in by nsenter.

// upCommand is the command of another process that runs the lab, in namespaces
// of its own where this one has no power.
func upCommand(p *spec.Plan, file string, f upFlags, more ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"up"}, more...)
	attr := &syscall.SysProcAttr{}
	if netnslab.IsUnprivileged() {
		dir, err := netnslab.PrepareRootless(p.Name)
		if err != nil {
			return nil, err
		}
		args = append(args, "--rootless", dir)
		attr = netnslab.NewNamespaces()
	}
	if f.length > 0 {
		args = append(args, "--for", f.length.String())
	}
	if f.workload {
		args = append(args, "--workload")
	}
	if f.json {
		args = append(args, "--json")
	}
	args = append(args, f.series.args()...)
	c := exec.Command(self, append(args, "--", file)...)
	c.SysProcAttr = attr
	return c, nil
}

// start starts a command of upCommand.
func start(c *exec.Cmd) error {
	err := c.Start()
	if err != nil && c.SysProcAttr.Cloneflags != 0 {
		return netnslab.ExplainRootless(err)
	}
	return err
}

// upRootless runs a lab in a process inside namespaces of its own and stays to
// hand on its signals and its exit code.
func upRootless(ctx context.Context, p *spec.Plan, file string, f upFlags) error {
	c, err := upCommand(p, file, f)
	if err != nil {
		return err
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	// When this process is killed the lab ends in good order. The signal comes
	// at the end of the thread that starts it (prctl(2), PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr.Pdeathsig = unix.SIGTERM
	if err := start(c); err != nil {
		return err
	}
	// Ctrl-C reaches both; hearing it twice does no harm.
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(unix.SIGTERM) })
	defer stop()
	err = c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &exitError{exit.ExitCode(), errors.New("")} // it has said why
	}
	if err != nil {
		return fmt.Errorf("the lab's process ended without cleaning up: %w%s", err, leftover(netnslab.Sweep(p.Name)))
	}
	return nil
}

func leftover(err error) string {
	if err == nil || errors.Is(err, netnslab.ErrUnknown) {
		return ""
	}
	return fmt.Sprintf(" (and while removing what it left: %v)", err)
}

// enterLab starts this command anew inside a rootless lab; it returns only on an
// error.
func enterLab(info netnslab.Info, host string, argv []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	again := []string{self, "exec", "--directory", dir, "--lab", info.Name, host, "--"}
	return netnslab.EnterLab(info, append(again, argv...))
}
