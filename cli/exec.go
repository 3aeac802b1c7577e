package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	netnslab "github.com/weftlab/weft/netns-lab"
)

// The exit codes of a shell for programs that do not exist or cannot run.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

func newExec() *cobra.Command {
	c := &cobra.Command{
		Use:   "exec HOST -- PROGRAM [ARGUMENT...]",
		Short: "Run a program inside a host",
		Long: `Run a program inside a host. Its exit code, signals and terminal are this
command's. The host has its own processes, name, shared memory and network; files and
users are the machine's. Hosts resolve each other's names. RDMA programs use the
host's emulated NIC, if it has one, through libraries that replace rdma-core's;
--kernel-rdma leaves them out.

Programs run in real time. With --dilated a program in a lab with a dilation sees the
lab's clock instead, and sleeps by it: iperf3 then reports emulated rates.

In a virtual machine weft's agent runs the program, and forwards its input,
output, exit code, signals and terminal.`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeHosts,
	}
	name := labFlag(c)
	directory := c.Flags().String("directory", "", "")
	_ = c.Flags().MarkHidden("directory")
	kernel, dilated := kernelRDMAFlag(c), dilatedFlag(c)
	// What follows the host belongs to the program, with or without --.
	c.Flags().SetInterspersed(false)
	c.RunE = func(c *cobra.Command, args []string) error {
		host, argv := args[0], args[1:]
		if argv[0] == "--" {
			argv = argv[1:]
		}
		if *directory != "" {
			// If the directory has been removed the program starts elsewhere.
			_ = os.Chdir(*directory)
		}
		return becomeProgram(c.Context(), *name, host, argv, *kernel, *dilated)
	}
	return c
}

func kernelRDMAFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("kernel-rdma", false, "let RDMA programs use the kernel's RDMA devices, not the host's emulated NIC")
}

func newShell() *cobra.Command {
	c := &cobra.Command{
		Use:   "shell HOST",
		Short: "Open a shell inside a host",
		Long: `Open $SHELL, or else /bin/sh, inside a host.

In a virtual machine it is a shell of that machine. If weft's agent does not answer
there, its console opens instead, as with --console; Ctrl-] leaves it.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeHosts,
	}
	name := labFlag(c)
	kernel, dilated := kernelRDMAFlag(c), dilatedFlag(c)
	onConsole := c.Flags().Bool("console", false, "open the console of a virtual machine; Ctrl-] leaves it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if done, err := shellInGuest(c.Context(), *name, args[0], *onConsole); done || err != nil {
			return err
		}
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		_ = os.Setenv("WEFT_HOST", args[0])
		return becomeProgram(c.Context(), *name, args[0], []string{shell}, *kernel, *dilated)
	}
	return c
}

// becomeProgram runs a program inside a host and ends this process as the program ends.
// The host may be given as lab/host.
func becomeProgram(ctx context.Context, lab, host string, argv []string, kernelRDMA, dilated bool) error {
	lab, host = splitLab(lab, host)
	if len(argv) == 0 {
		return badInput(errors.New("no program to run"))
	}
	info, err := findLab(lab)
	if err != nil {
		return err
	}
	if h, ok := info.Host(host); ok && h.Virtual {
		if dilated {
			return badInput(fmt.Errorf("--dilated: %s is a virtual machine, which has its own clock", host))
		}
		return runInGuest(ctx, info, host, argv)
	}
	if info.IsElsewhere() {
		return enterLab(info, host, argv, kernelRDMA, dilated)
	}
	if !kernelRDMA {
		if err := checkVerbs(info, host, argv[0]); err != nil {
			return err
		}
	}
	if dilated {
		if err := giveClock(info, argv[0]); err != nil {
			return err
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // the directory has been removed
	}
	status, err := netnslab.ExecProgram(info.Name, host, netnslab.Program{Argv: argv, Dir: dir, KernelRDMA: kernelRDMA})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &exitError{exitNotFound, err}
	case errors.Is(err, fs.ErrPermission):
		return &exitError{exitCannotRun, err}
	case err != nil:
		return err
	}
	netnslab.EndAs(status)
	return nil
}
