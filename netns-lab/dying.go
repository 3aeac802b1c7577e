package netnslab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// dyingWait is how long to wait for a dying owner. The kernel closes its devices one
// after the other, each after a grace period of RCU, and some before the lock.
const dyingWait = 30 * time.Second

// pfExiting is the flag of an exiting thread (include/linux/sched.h).
const pfExiting = 0x4

// isDying reports whether a process is gone, or soon will be because it was killed:
// in that case it still holds its locks but no longer uses them (proc_pid_stat(5),
// proc_pid_status(5)).
func isDying(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		// Inside a host, the processes outside are not visible.
		return (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)) && !inHost()
	}
	// The program's name, in parentheses, may contain parentheses and spaces.
	fields := bytes.Fields(stat[max(bytes.LastIndexByte(stat, ')'), 0):])
	if len(fields) < 8 {
		return false
	}
	if state := fields[1][0]; state == 'Z' || state == 'X' {
		return true
	}
	if flags, err := strconv.ParseUint(string(fields[7]), 10, 64); err == nil && flags&pfExiting != 0 {
		return true
	}
	status, _ := os.ReadFile(dir + "status")
	for line := range bytes.Lines(status) {
		name, mask, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "SigPnd" && string(name) != "ShdPnd" {
			continue
		}
		pending, err := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
		if err == nil && pending&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
