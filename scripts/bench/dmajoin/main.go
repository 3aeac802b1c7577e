// Command dmajoin is a reference for benchmarks: the simplest way to carry messages
// between the memories of two processes as an emulated NIC must, with a doorbell (an
// eventfd), process_vm_readv(2) and process_vm_writev(2), and a thread that sleeps
// in epoll until a doorbell rings. It has no queue pairs, no packets and no network
// in between.
//
// It prints two lines: the rate of messages of 64 KB in Gb/s, and half the round trip
// of 8 bytes in µs between two processes that poll their memory.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	message = 64 << 10
	rounds  = 20000
	copies  = 50000
)

func main() {
	run := joinProcesses
	if len(os.Args) == 2 {
		run = func() error { return runPeer(os.Args[1] == "first") }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dmajoin:", err)
		os.Exit(1)
	}
}

// Layout of each process's memory: a word that it sends, one that it receives, and a message.
const (
	sent     = 0
	received = 64
	bulk     = 4096
	size     = bulk + message
)

// runPeer is one of the processes. It prints the address of its memory, and plays
// ping-pong until its standard input ends; the first peer begins, and prints the
// time taken.
func runPeer(first bool) error {
	runtime.LockOSThread()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	out, in := (*atomic.Uint64)(unsafe.Pointer(&memory[sent])), (*atomic.Uint64)(unsafe.Pointer(&memory[received]))
	fmt.Println(uintptr(unsafe.Pointer(&memory[0])))
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return err
	}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	took := make([]time.Duration, 0, rounds)
	for i := uint64(1); i <= rounds; i++ {
		start := time.Now()
		if first {
			out.Store(i)
			_, _ = unix.Write(3, one)
		}
		for in.Load() != i {
		}
		if !first {
			out.Store(i)
			_, _ = unix.Write(3, one)
		}
		took = append(took, time.Since(start))
	}
	if first {
		slices.Sort(took)
		fmt.Println(took[len(took)/2].Nanoseconds() / 2)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// process is the parent's view of a peer.
type process struct {
	pid      int
	base     uint64
	doorbell int
	in       io.WriteCloser
	out      io.Reader
}

func startProcess(role string) (*process, error) {
	p := &process{}
	var err error
	if p.doorbell, err = unix.Eventfd(0, unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	c := exec.Command("/proc/self/exe", role)
	fd, err := unix.Dup(p.doorbell)
	if err != nil {
		return nil, err
	}
	c.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "doorbell")}
	c.Stderr = os.Stderr
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if p.in, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = c.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	p.pid = c.Process.Pid
	base, err := p.readLine()
	p.base = uint64(base)
	return p, err
}

// readLine reads a number printed by the process.
func (p *process) readLine() (int, error) {
	var b [32]byte
	n, err := p.out.Read(b[:])
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b[:n])))
}

// moveBytes copies b to or from the process.
func (p *process) moveBytes(call uintptr, offset uint64, b []byte) error {
	local := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	remote := struct{ base, len uint64 }{p.base + offset, uint64(len(b))}
	n, _, errno := unix.RawSyscall6(call, uintptr(p.pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	switch {
	case errno != 0:
		return errno
	case int(n) != len(b):
		return errors.New("less was copied than there is")
	}
	return nil
}

// carryBytes copies n bytes from one process to another.
func carryBytes(from *process, offset uint64, to *process, at uint64, b []byte) error {
	if err := from.moveBytes(unix.SYS_PROCESS_VM_READV, offset, b); err != nil {
		return fmt.Errorf("process_vm_readv: %w", err)
	}
	if err := to.moveBytes(unix.SYS_PROCESS_VM_WRITEV, at, b); err != nil {
		return fmt.Errorf("process_vm_writev: %w", err)
	}
	return nil
}

func joinProcesses() error {
	runtime.LockOSThread()
	var peers [2]*process
	for i, role := range []string{"first", "second"} {
		var err error
		if peers[i], err = startProcess(role); err != nil {
			return err
		}
	}
	buffer := make([]byte, message)
	began := time.Now()
	for range copies {
		if err := carryBytes(peers[0], bulk, peers[1], bulk, buffer); err != nil {
			return err
		}
	}
	rate := 8 * message * copies / float64(time.Since(began).Nanoseconds())
	// Like the engine's thread; where that is not allowed, neither has real-time priority.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	for _, p := range peers {
		if _, err := p.in.Write([]byte{1}); err != nil {
			return err
		}
	}
	if err := bounceWords(peers); err != nil {
		return err
	}
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
	half, err := peers[0].readLine()
	if err != nil {
		return err
	}
	fmt.Printf("%.2f\n%.2f\n", rate, float64(half)/1000)
	return nil
}

// bounceWords carries a word of each process to the other when its doorbell rings.
func bounceWords(peers [2]*process) error {
	ep, err := unix.EpollCreate1(0)
	if err != nil {
		return err
	}
	for i, p := range peers {
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, p.doorbell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, 2)
	word := make([]byte, 8)
	for done := uint64(0); done < rounds; {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_WAIT, uintptr(ep), uintptr(unsafe.Pointer(&events[0])), 2, ^uintptr(0), 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
		for _, ev := range events[:int(max(int64(int(n)), 0))] {
			from, to := peers[ev.Fd], peers[1-ev.Fd]
			if _, err := unix.Read(from.doorbell, word); err != nil {
				continue
			}
			if err := carryBytes(from, sent, to, received, word); err != nil {
				return err
			}
			if ev.Fd == 1 {
				done = binary.NativeEndian.Uint64(word)
			}
		}
	}
	return nil
}
