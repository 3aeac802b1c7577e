package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/netns-lab/vm/agent"
)

// program is the QEMU for the architecture of the image.
const program = "qemu-system-x86_64"

// FindQEMU finds QEMU. The error says how to get it.
func FindQEMU() (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("virtual machines need %s: install qemu-system-x86 (Debian, Ubuntu: apt-get install --no-install-recommends qemu-system-x86)", program)
	}
	return path, nil
}

// Starter starts a program and returns a channel that receives how it ended.
type Starter func(*exec.Cmd) (ended <-chan error, err error)

// Machine is a running virtual machine. Its methods may be called by several
// goroutines.
type Machine struct {
	config  Config
	starter Starter

	mu      sync.Mutex // held while QEMU starts, so process is the one that runs
	process *os.Process
	monitor *monitor
	link    *agent.Link
	accel   Accel
	up      bool // it has been ready, or is to stop: it is not started again

	over chan struct{} // closed when the machine has ended for good
	err  error         // why
}

// Start starts a machine. It boots in the background: see AwaitUp.
func Start(c Config, starter Starter) (*Machine, error) {
	if c.Console == "" {
		c.Console = ConsoleLog(c.Dir)
	}
	m := &Machine{config: c, starter: starter, accel: c.Accel, over: make(chan struct{})}
	if m.accel == Auto && (unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil || !byHardware(cpuinfo)) {
		m.accel = TCG
	}
	only := m.accel != Auto // it is not started again, so the sockets are no longer needed
	if err := os.WriteFile(m.setupPath(), []byte(c.Setup.formatSetup(c.Name, c.NICs)), 0o600); err != nil {
		m.closeNICs()
		return nil, err
	}
	m.mu.Lock()
	ended, err := m.startQEMU()
	m.mu.Unlock()
	if err != nil || only {
		m.closeNICs()
	}
	if err != nil {
		return nil, err
	}
	go m.handleEnd(ended)
	return m, nil
}

// cpuinfo is where the kernel lists the processors' features. Tests replace it.
var cpuinfo = "/proc/cpuinfo"

// byHardware reports whether the processor described by the file has hardware
// virtualisation. KVM can exist without it (CONFIG_KVM_PVM): it then emulates the
// guest's kernel at a fraction of the speed of TCG, and some guests never come up.
func byHardware(cpuinfo string) bool {
	b, err := os.ReadFile(cpuinfo)
	if err != nil || runtime.GOARCH != "amd64" {
		return true // unknown: try KVM
	}
	for line := range strings.Lines(string(b)) {
		if name, flags, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			f := strings.Fields(flags)
			return slices.Contains(f, "vmx") || slices.Contains(f, "svm")
		}
	}
	return true
}

func (m *Machine) setupPath() string { return filepath.Join(m.config.Dir, "setup") }
func (m *Machine) logPath() string   { return filepath.Join(m.config.Dir, "qemu.log") }

// closeNICs closes this process's copies of the guest's socket ends, which QEMU has
// inherited: then they are closed when QEMU ends.
func (m *Machine) closeNICs() {
	for _, n := range m.config.NICs {
		n.Socket.Close() // closing twice does no harm
	}
}

// startQEMU starts QEMU. The caller holds m.mu.
func (m *Machine) startQEMU() (ended <-chan error, err error) {
	path, err := FindQEMU()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	control, itsControl, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer itsControl.Close()
	port, itsPort, err := socketPair()
	if err != nil {
		control.Close()
		return nil, err
	}
	defer itsPort.Close()

	accel := m.accel
	if accel == Auto {
		accel = KVM
	}
	c := &exec.Cmd{Path: path, Env: os.Environ(), Stdout: log, Stderr: log, ExtraFiles: []*os.File{itsControl, itsPort}}
	const first = 3 // descriptor of ExtraFiles
	var nics []int
	for _, n := range m.config.NICs {
		nics = append(nics, first+len(c.ExtraFiles))
		c.ExtraFiles = append(c.ExtraFiles, n.Socket)
	}
	c.Args = append([]string{program}, m.config.qemuArguments(accel, first, first+1, nics, m.setupPath())...)
	if ended, err = m.starter(c); err != nil {
		control.Close()
		port.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	link := agent.NewLink(port)
	m.process, m.link = c.Process, link
	m.monitor = newMonitor(control, func(event string) { m.handleEvent(link, event) })
	return ended, nil
}

// socketPair makes a pair of connected sockets, one of them to be inherited.
func socketPair() (ours net.Conn, its *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "socket")
	defer f.Close()
	its = os.NewFile(uintptr(fds[1]), "socket")
	if ours, err = net.FileConn(f); err != nil {
		its.Close()
	}
	return ours, its, err
}

// handleEvent handles QEMU's events.
func (m *Machine) handleEvent(link *agent.Link, name string) {
	switch name {
	case "RESET":
		link.RestartLink()
	case "STOP": // only KVM stops it, after a failure
		m.mu.Lock()
		failed := !m.up
		process := m.process
		m.mu.Unlock()
		if failed {
			_ = process.Kill()
		}
	}
}

// handleEnd waits for the machine's end: under Auto, a guest that did not come up with
// KVM is started again without it.
func (m *Machine) handleEnd(ended <-chan error) {
	var err error
	for ended != nil {
		err = <-ended
		m.mu.Lock()
		link, monitor := m.link, m.monitor
		m.mu.Unlock()
		link.Close()
		<-link.Over() // so that the machine's end is seen after the agent's
		monitor.conn.Close()
		var failed error
		if ended, failed = m.restartWithTCG(); failed != nil {
			err = failed
		}
		m.closeNICs()
	}
	m.err = m.explainEnd(err)
	close(m.over)
}

// restartWithTCG starts QEMU again, without KVM, if KVM was tried under Auto and the guest
// has not come up. If not, ended is nil.
func (m *Machine) restartWithTCG() (ended <-chan error, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.accel != Auto || m.up {
		return nil, nil
	}
	m.accel = TCG
	return m.startQEMU()
}

// explainEnd says how QEMU ended, with its own messages if there are any.
func (m *Machine) explainEnd(err error) error {
	tail := lastLines(m.logPath(), 3)
	switch {
	case err == nil && tail == "":
		return errors.New("the guest has powered off or panicked")
	case err == nil:
		return errors.New(tail)
	case tail == "":
		return err
	}
	return fmt.Errorf("%s: %w", tail, err)
}

// Console returns the file with the machine's console output.
func (m *Machine) Console() string { return m.config.Console }

// Over returns a channel that is closed when the machine has ended; Err then says how.
func (m *Machine) Over() <-chan struct{} { return m.over }

// Err returns how the machine ended. It must not be called before.
func (m *Machine) Err() error { return m.err }

// Link returns the link to the guest's agent.
func (m *Machine) Link() *agent.Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.link
}

// PID returns the PID of QEMU.
func (m *Machine) PID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process.Pid
}

// NotReady is the error of a machine that does not come up.
type NotReady struct {
	Name string
	Why  string
	Said string // the end of its console output
}

// Error returns the name, the reason and the console's lines.
func (e *NotReady) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("%s did not start: %s; its console is empty (a kernel writes nothing there without console=ttyS0)", e.Name, e.Why)
	}
	return fmt.Sprintf("%s did not start: %s; the end of its console:\n    %s", e.Name, e.Why, strings.ReplaceAll(e.Said, "\n", "\n    "))
}

// AwaitUp waits until the machine is up. The error is a NotReady or the error of ctx.
func (m *Machine) AwaitUp(ctx context.Context) error {
	limit := time.NewTimer(m.config.Limit)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var console follower
	for !m.isReady(&console) {
		why := ""
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			return ctx.Err()
		case <-m.over:
			why = m.err.Error()
		case <-limit.C:
			why = fmt.Sprintf("after %v it has not reported that it is ready", m.config.Limit)
			if m.config.Ready != ReadyAgent {
				why = fmt.Sprintf("after %v its console has not shown %q", m.config.Limit, m.config.Ready)
			}
		}
		return &NotReady{Name: m.config.Name, Why: why, Said: lastLines(m.config.Console, 12)}
	}
	m.mu.Lock()
	m.up = true
	m.mu.Unlock()
	m.closeNICs()
	return nil
}

func (m *Machine) isReady(console *follower) bool {
	select {
	case <-m.over:
		return false
	default:
	}
	switch m.config.Ready {
	case ReadyNone:
		return true
	case ReadyAgent:
		return m.Link().IsReady()
	}
	return console.hasAppeared(m.config.Console, m.config.Ready)
}

// follower looks for a text in a growing file.
type follower struct {
	at    int64
	waits []byte
}

// hasAppeared reports whether text has appeared.
func (f *follower) hasAppeared(path, text string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	b, err := io.ReadAll(io.NewSectionReader(file, f.at, 1<<20))
	if err != nil {
		return false
	}
	f.at += int64(len(b))
	f.waits = append(f.waits, b...)
	if bytes.Contains(f.waits, []byte(text)) {
		return true
	}
	f.waits = f.waits[max(len(f.waits)-len(text)+1, 0):]
	return false
}

// lastLines returns the last n lines of a file that are not empty, without sequences
// that move a terminal's cursor.
func lastLines(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	b = b[max(len(b)-16<<10, 0):]
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f {
			return -1
		}
		return r
	}, string(b))
	var lines []string
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

// SetCarrier plugs a NIC's cable in or out.
func (m *Machine) SetCarrier(nic int, up bool) error {
	m.mu.Lock()
	monitor := m.monitor
	m.mu.Unlock()
	return monitor.executeCommand("set_link", map[string]any{"name": fmt.Sprintf("nic%d-dev", nic), "up": up})
}

// Stop ends the machine. If it may write to its disk, it is first asked to power off,
// through its agent or else by its power button, and given patience to do so.
func (m *Machine) Stop(timeout time.Duration) {
	m.mu.Lock()
	m.up = true // it must not be started again
	monitor, process, link := m.monitor, m.process, m.link
	m.mu.Unlock()
	if m.config.Persist && powerOff(link, monitor) == nil {
		select {
		case <-m.over:
			return
		case <-time.After(timeout):
		}
	}
	// SIGTERM makes QEMU flush its disks.
	_ = process.Signal(unix.SIGTERM)
	select {
	case <-m.over:
	case <-time.After(killWait):
		_ = process.Kill()
		<-m.over
	}
}

// powerOff asks a guest to power off.
func powerOff(link *agent.Link, monitor *monitor) error {
	if !link.IsReady() {
		return monitor.executeCommand("system_powerdown", nil)
	}
	ours, its := net.Pipe()
	go link.RelaySession(its)
	// The guest may power off before it can answer.
	r, err := agent.Run(ours, agent.Command{Argv: []string{"sh", "-c", "sync; poweroff"}})
	if err == nil && r.Code != 0 {
		return monitor.executeCommand("system_powerdown", nil)
	}
	return nil
}

// killWait is how long QEMU may take to end.
const killWait = 3 * time.Second
