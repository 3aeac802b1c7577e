package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/bpf"
)

// compileLimit bounds the time of tcpdump, which may look up names.
const compileLimit = 10 * time.Second

// emptyFile is a pcap file of Ethernet without packets. tcpdump is made to
// read it: so it compiles for Ethernet without a device, without privilege
// and without the kernel's extensions, in every version.
const emptyFile = "\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + // magic, version 2.4
	"\x00\x00\x00\x00\x00\x00\x00\x00" + // time zone, accuracy
	"\x00\x00\x04\x00\x01\x00\x00\x00" // snap length 262144, LINKTYPE_ETHERNET

// filter decides which packets are captured. A nil filter takes all. It agrees
// with libpcap except for an offset that is computed below 0 ("ip[ip[0]-70]"):
// libpcap wraps around and may find a byte, here the packet is rejected.
type filter struct{ vm *bpf.VM }

// newFilter compiles an expression in tcpdump's language (pcap-filter(7)) with
// tcpdump itself. It fails, with tcpdump's own message, for an expression that
// is wrong, and for the few that need what only a kernel has ("inbound") or
// what golang.org/x/net/bpf cannot run (loops: "protochain").
func newFilter(expr string) (*filter, error) {
	if expr == "" {
		return nil, nil
	}
	text, err := tcpdumpCompile(expr)
	if err != nil {
		return nil, err
	}
	program, err := parseProgram(text)
	if err != nil {
		return nil, fmt.Errorf("capture filter %q: %w", expr, err)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		return nil, fmt.Errorf("capture filter %q: not supported here: %w", expr, err)
	}
	return &filter{vm}, nil
}

// acceptsFrame reports whether the whole frame passes. A frame that makes the
// program fail does not.
func (f *filter) acceptsFrame(frame []byte) bool {
	if f == nil {
		return true
	}
	n, err := f.vm.Run(frame)
	return err == nil && n > 0
}

// tcpdumpCompile returns the program of expr as tcpdump -ddd prints it. No
// shell is involved, and after "--" nothing is taken for an option.
func tcpdumpCompile(expr string) (string, error) {
	tcpdump, err := findTcpdump()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), compileLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, tcpdump, "-r", "-", "-ddd", "--", expr)
	cmd.Stdin = strings.NewReader(emptyFile)
	var program, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &program, &problems
	err = cmd.Run()
	switch {
	case err == nil:
		return program.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("capture filter %q: tcpdump did not compile it within %v", expr, compileLimit)
	}
	for line := range strings.Lines(problems.String()) {
		if message, ok := strings.CutPrefix(line, "tcpdump: "); ok {
			return "", fmt.Errorf("capture filter %q: %s", expr, strings.TrimSpace(message))
		}
	}
	return "", fmt.Errorf("capture filter %q: tcpdump: %w: %s", expr, err, strings.TrimSpace(problems.String()))
}

// findTcpdump also looks for tcpdump where some distributions install it,
// outside the PATH of ordinary users.
func findTcpdump() (string, error) {
	for _, name := range []string{"tcpdump", "/usr/sbin/tcpdump"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("a capture filter needs tcpdump: apt-get install tcpdump")
}

// parseProgram reads the output of tcpdump -ddd: the number of instructions,
// then one per line as four decimal numbers.
func parseProgram(text string) ([]bpf.Instruction, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if n, err := strconv.Atoi(lines[0]); err != nil || n != len(lines)-1 {
		return nil, fmt.Errorf("tcpdump printed %q before %d instructions", lines[0], len(lines)-1)
	}
	var program []bpf.Instruction
	for _, line := range lines[1:] {
		var raw bpf.RawInstruction
		if _, err := fmt.Sscan(line, &raw.Op, &raw.Jt, &raw.Jf, &raw.K); err != nil {
			return nil, fmt.Errorf("tcpdump printed the instruction %q: %w", line, err)
		}
		switch i := raw.Disassemble().(type) {
		case bpf.RawInstruction, bpf.NegateA:
			// NewVM accepts both but Run fails on them.
			return nil, fmt.Errorf("not supported here: the instruction %v", i)
		default:
			program = append(program, i)
		}
	}
	return program, nil
}
