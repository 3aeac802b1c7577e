package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroupDir has the control groups (cgroups(7)).
const cgroupDir = "/sys/fs/cgroup"

// throttled returns how long limits on processor time have held this process's control groups back
// so far; 0 without limits.
func throttled() (longest time.Duration) {
	text, _ := os.ReadFile("/proc/self/cgroup")
	for _, dir := range throttleDirs(string(text)) {
		stat, _ := os.ReadFile(filepath.Join(cgroupDir, dir, "cpu.stat"))
		longest = max(longest, parseThrottled(stat))
	}
	return longest
}

// throttleDirs returns the directories below cgroupDir of the groups in which the process of a
// /proc/PID/cgroup is, and of those above them, for the controller of processor time. A limit of
// any of them holds.
func throttleDirs(text string) (dirs []string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top := ""
		switch {
		case parts[0] == "0" && parts[1] == "": // version 2, with all controllers
		case strings.Contains(","+parts[1]+",", ",cpu,"):
			top = parts[1]
		default:
			continue
		}
		for path := filepath.Clean(parts[2]); ; path = filepath.Dir(path) {
			dirs = append(dirs, filepath.Join(top, path))
			if path == "/" || path == "." {
				break
			}
		}
	}
	return dirs
}

// parseThrottled returns the time in a cpu.stat: throttled_usec in version 2, throttled_time in
// nanoseconds in version 1.
func parseThrottled(stat []byte) time.Duration {
	for line := range bytes.Lines(stat) {
		f := bytes.Fields(line)
		if len(f) != 2 {
			continue
		}
		n, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			continue
		}
		switch string(f[0]) {
		case "throttled_usec":
			return time.Duration(n) * time.Microsecond
		case "throttled_time":
			return time.Duration(n)
		}
	}
	return 0
}
