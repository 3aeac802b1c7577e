package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/plan"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// A lab that an ordinary user starts needs a process that was created in its
// own namespaces (netns-lab/rootless.go). weft up starts itself there, with
// --rootless. The other commands stay outside and find the lab's control socket
// in the file system, except exec and shell, which enter with nsenter.

// upCommand returns the command for another process that runs the lab, in its
// own namespaces if this process is unprivileged. The new process reports to
// ready, if not nil, that the lab is up.
func upCommand(p *plan.Plan, file string, f upFlags, ready *os.File) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"up"}
	var files []*os.File
	hand := func(flag string, file *os.File) {
		args = append(args, flag, strconv.Itoa(3+len(files)))
		files = append(files, file)
	}
	if ready != nil {
		hand("--ready-fd", ready)
	}
	if f.listener != nil {
		socket, err := f.listener.File()
		if err != nil {
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		hand("--metrics-fd", socket)
	}
	attr := &syscall.SysProcAttr{}
	if netnslab.IsUnprivileged() {
		dir, err := netnslab.PrepareRootless(p.Name)
		if err != nil {
			return nil, err
		}
		args = append(args, "--rootless", dir)
		attr = netnslab.NewNamespaces()
	}
	if o := originHere(); o.Terminal != "" {
		args = append(args, "--terminal", o.Terminal)
	}
	if f.length > 0 {
		args = append(args, "--for", f.length.String())
	}
	if f.workers > 0 {
		args = append(args, "--workers", strconv.Itoa(f.workers))
	}
	if f.dilation > 0 {
		args = append(args, "--dilation", f.dilation.String())
	}
	if f.workload {
		args = append(args, "--workload")
	}
	if f.json {
		args = append(args, "--json")
	}
	args = append(args, f.series.toArguments()...)
	args = append(args, f.flows.toArguments()...)
	c := exec.Command(self, append(args, "--", file)...)
	c.SysProcAttr, c.ExtraFiles = attr, files
	if file == standardInput {
		text, err := readStdin(context.Background()) // this process has already read it
		if err != nil {
			return nil, err
		}
		c.Stdin = bytes.NewReader(text)
	}
	return c, nil
}

// startCommand starts a command made by upCommand.
func startCommand(c *exec.Cmd) error {
	err := c.Start()
	if err != nil && c.SysProcAttr.Cloneflags != 0 {
		return netnslab.ExplainRootless(err)
	}
	return err
}

// upRootless runs a lab in a process with its own namespaces and stays to
// forward signals to it and its exit code to the caller.
func upRootless(ctx context.Context, p *plan.Plan, file string, f upFlags) error {
	c, err := upCommand(p, file, f, nil)
	if err != nil {
		return err
	}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if c.Stdin == nil {
		c.Stdin = os.Stdin
	}
	return runInside(ctx, c, "lab", p.Name)
}

// runInside runs a process that has a lab and its own namespaces until it ends. what
// names the lab in errors.
func runInside(ctx context.Context, c *exec.Cmd, what, lab string) error {
	// If this process is killed the lab still ends cleanly. The signal is sent
	// when the thread that started the child ends (prctl(2), PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr.Pdeathsig = unix.SIGTERM
	if err := startCommand(c); err != nil {
		return err
	}
	// Ctrl-C reaches both processes; a second signal does no harm.
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(unix.SIGTERM) })
	defer stop()
	err := c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &exitError{exit.ExitCode(), errors.New("")} // the child has said why
	}
	if err != nil {
		return fmt.Errorf("the %s's process ended without cleaning up: %w%s", what, err, explainLeftover(netnslab.SweepLab(lab)))
	}
	return nil
}

func explainLeftover(err error) string {
	if err == nil || errors.Is(err, netnslab.ErrUnknown) {
		return ""
	}
	return fmt.Sprintf("; and while removing what it left: %v", err)
}

// enterLab restarts this command inside a rootless lab; it returns only on an
// error.
func enterLab(info netnslab.Info, host string, argv []string, kernelRDMA, dilated bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	again := []string{self, "exec", "--directory", dir, "--lab", info.Name}
	if kernelRDMA {
		again = append(again, "--kernel-rdma")
	}
	if dilated {
		again = append(again, "--dilated")
	}
	return netnslab.EnterLab(info, append(append(again, host, "--"), argv...))
}
