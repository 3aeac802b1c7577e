// Package cli implements the command line. It parses arguments and prints
// results; other packages do the work.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/yamlfile"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// Exit codes. exec and shell pass on the exit code of their program.
const (
	exitOK       = 0
	exitFailed   = 1
	exitBadInput = 2 // of a file or of the command line; nothing was done
	exitStrict   = 3 // the run is over, but fidelity: {mode: strict} was not kept
	exitTraffic  = 4 // the run is over, but flows or transfers of modelled traffic failed
)

// exitError is an error with an exit code. An empty text means it is already printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// badInput marks an error in what the user wrote.
func badInput(err error) error { return &exitError{exitBadInput, err} }

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	ctx, stop := withSignals(context.Background())
	defer stop()
	started := watchStart(root)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		if err = stdout.firstError(); err == nil {
			return exitOK
		}
	case !*started: // cobra has refused the arguments
		err = badInput(err)
	}
	var located yamlfile.Errors
	if errors.As(err, &located) {
		fmt.Fprintln(os.Stderr, located) // it begins with file and line
		return exitBadInput
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "weft:", text)
	}
	return codeOf(err)
}

// watchStart returns whether a command has begun, after cobra had checked the arguments.
func watchStart(root *cobra.Command) *bool {
	started := false
	var watch func(c *cobra.Command)
	watch = func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				started = true
				return run(c, args)
			}
		}
		for _, sub := range c.Commands() {
			watch(sub)
		}
	}
	watch(root)
	return &started
}

// codeOf returns the exit code for an error. The names of labs, hosts and ports in
// arguments are checked by other packages, so their errors say what is bad input.
func codeOf(err error) int {
	var exit *exitError
	var ended *interruption
	var request *lab.RequestError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &ended):
		return exitSignal + int(ended.signal)
	case errors.As(err, &request) && request.BadInput(), errors.Is(err, netnslab.ErrUnknown), errors.Is(err, netnslab.ErrNoHost):
		return exitBadInput
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Emulate datacenter networks with real programs",
		Long: `weft joins real and modelled Linux hosts into one fabric on one machine, through
switches and links that it emulates packet by packet.

A lab file describes the network. "weft up" runs it in wall-clock time with real
hosts in network namespaces; "weft sim" runs it in virtual time.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			return printVersion()
		}
		return c.Help()
	}
	root.SetOut(stdout)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return badInput(fmt.Errorf("%w; see %s --help", err, c.CommandPath()))
	})
	root.AddCommand(
		newUp(), newDown(), newPs(), newTop(), newExec(), newShell(), newCapture(), newSet(), newWhyNoPause(), newNIC(), newQP(), newEdge(),
		newSim(), newReport(), newValidate(), newHeadroom(), newGraph(), newSchema(), newDissector(), newDoctor(),
		newFlows(), newExperiment(), newCollect(), newCompare(), newWorker(), newCell(), newVersion(),
	)
	for _, c := range root.Commands() {
		if check := c.Args; check != nil {
			c.Args = func(c *cobra.Command, args []string) error {
				if err := check(c, args); err != nil {
					return badInput(fmt.Errorf("%w\nusage: %s", err, c.UseLine()))
				}
				return nil
			}
		}
	}
	return root
}

// labFlag adds the flag that selects a lab.
func labFlag(c *cobra.Command) *string {
	name := c.Flags().StringP("lab", "l", "", "the lab; by default "+labVariable+", or the only running one")
	_ = c.RegisterFlagCompletionFunc("lab", completeLabs)
	return name
}

// labOf returns the lab that a command with the flag --lab names by its argument instead.
func labOf(args []string, flag string) (string, error) {
	switch {
	case len(args) == 0:
		return flag, nil
	case flag != "" && flag != args[0]:
		return "", badInput(fmt.Errorf("two labs are given, %s and --lab %s: give one", args[0], flag))
	}
	return args[0], nil
}

// labVariable is the environment variable with the name of the lab of commands that give none.
const labVariable = "WEFT_LAB"

// findLab finds the running lab of that name. Without a name it finds the one that labVariable
// names, or the only one.
func findLab(name string) (netnslab.Info, error) {
	if name != "" {
		return findNamedLab(name)
	}
	if name := os.Getenv(labVariable); name != "" {
		info, err := findNamedLab(name)
		if err != nil {
			err = fmt.Errorf("%s=%s: %w", labVariable, name, err)
		}
		return info, err
	}
	all, err := netnslab.ListLabs()
	if err != nil {
		return netnslab.Info{}, err
	}
	var running []netnslab.Info
	for _, i := range all {
		if i.Running {
			running = append(running, i)
		}
	}
	switch len(running) {
	case 0:
		if len(all) > 0 {
			return netnslab.Info{}, fmt.Errorf("no lab is running, and %s crashed: remove what is left with: weft down %[1]s", all[0].Name)
		}
		return netnslab.Info{}, fmt.Errorf("no lab is running: start one with weft up FILE%s", rootsLabs())
	case 1:
		return running[0], nameChosen(running[0])
	}
	names := ""
	for _, i := range running {
		names += " " + i.Name
	}
	return netnslab.Info{}, badInput(fmt.Errorf("several labs are running (%s): say which with --lab or %s", names[1:], labVariable))
}

// findNamedLab finds the running lab of that name.
func findNamedLab(name string) (netnslab.Info, error) {
	info, err := netnslab.FindLab(name)
	if err != nil {
		return info, err
	}
	if !info.Running {
		return info, fmt.Errorf("lab %s is not running: its process ended without cleaning up; remove what is left with: weft down %s", name, name)
	}
	return info, nil
}

// rootsLabs reminds an ordinary user that root's labs are separate.
func rootsLabs() string {
	if os.Geteuid() == 0 {
		return ""
	}
	return "; those that root started need sudo"
}

// splitLab splits the lab off a host given as lab/host.
func splitLab(lab, host string) (labOf, name string) {
	if l, h, ok := strings.Cut(host, "/"); ok {
		return l, h
	}
	return lab, host
}

// connectLab returns a client of the running lab of that name, or of the only one.
func connectLab(name string) (*lab.Client, error) {
	info, err := findLab(name)
	if err != nil {
		return nil, err
	}
	return lab.NewClient(info.Dir), nil
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
