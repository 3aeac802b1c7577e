package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// maxSlow is how many slow tests the summary names.
const maxSlow = 20

// printSummary prints where the suite ran, what it skipped and why, what took long, what failed, and
// a line for each stage.
func (s *suite) printSummary(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(w, "\n== where\n%s\n", describeMachine())
	fmt.Fprintln(w, "\n== skipped, and why")
	for _, l := range s.listSkips() {
		fmt.Fprintln(w, l)
	}
	fmt.Fprintln(w, "\n== the slowest tests")
	for _, l := range s.listSlowest() {
		fmt.Fprintln(w, l)
	}
	var pass, fail, skip int
	for _, st := range s.order {
		o := s.stages[st]
		pass, fail, skip = pass+o.passed, fail+o.failed, skip+o.skipped
		if o.verdict != failed {
			continue
		}
		if o.failed == 0 {
			fail++ // a stage that fails without a test counts as one
		}
		fmt.Fprintf(w, "\n== what failed: %s\n", st.name)
		printEnd(w, o.failedOutput(), maxFailureLines/4)
	}
	fmt.Fprintln(w, "\n== summary")
	for _, st := range s.order {
		fmt.Fprintf(w, "%s  %s\n", s.stages[st].verdict, s.lineOf(st, s.stages[st]))
	}
	fmt.Fprintf(w, "in %s\n%d passed, %d failed, %d skipped\n", formatClock(time.Since(s.start)), pass, fail, skip)
}

// lineOf describes a stage's outcome.
func (s *suite) lineOf(st *stage, o *outcome) string {
	line := st.name
	if len(st.packages) > 0 {
		line += fmt.Sprintf(": %d passed, %d failed, %d skipped", o.passed, o.failed, o.skipped)
	}
	if st.skip != "" {
		return line + ": " + st.skip
	}
	return fmt.Sprintf("%s (%.0f s)", line, o.took.Seconds())
}

// header matches the lines that go test prints around a test's own, and place what it prints
// before a line of a test.
var (
	header = regexp.MustCompile(`^\s*(===|---) `)
	place  = regexp.MustCompile(`^[a-z_0-9]+\.go:\d+: `)
)

// listSkips returns the skipped tests, grouped by the reason that they give.
func (s *suite) listSkips() (all []string) {
	for _, st := range s.order {
		o := s.stages[st]
		if st.skip != "" {
			all = append(all, fmt.Sprintf("%s: %s", st.name, st.skip))
		}
		by := map[string][]string{}
		for id, t := range o.tests {
			if t.verdict != skipped || id.test == "" {
				continue
			}
			var why []string
			for _, l := range t.output {
				if l = strings.TrimSpace(l); l != "" && !header.MatchString(l) {
					why = append(why, place.ReplaceAllString(l, ""))
				}
			}
			reason := cmp.Or(strings.Join(why, " "), "no reason given")
			by[reason] = append(by[reason], id.String())
		}
		for _, why := range slices.Sorted(maps.Keys(by)) {
			slices.Sort(by[why])
			all = append(all, fmt.Sprintf("%s: %s: %d tests: %s", st.name, why, len(by[why]), strings.Join(by[why], ", ")))
		}
	}
	if len(all) == 0 {
		return []string{"nothing"}
	}
	return all
}

// listSlowest returns the tests that took longest, those of which they are parts aside.
func (s *suite) listSlowest() (lines []string) {
	type one struct {
		took time.Duration
		line string
	}
	var all []one
	for _, st := range s.order {
		for id, t := range s.stages[st].tests {
			if id.test != "" && !strings.Contains(id.test, "/") && t.took >= time.Second {
				all = append(all, one{t.took, fmt.Sprintf("%6.1f s  %s (%s)", t.took.Seconds(), id, st.name)})
			}
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		return cmp.Or(cmp.Compare(b.took, a.took), strings.Compare(a.line, b.line))
	})
	for _, x := range all[:min(len(all), maxSlow)] {
		lines = append(lines, x.line)
	}
	return lines
}

// describeMachine describes the machine, as far as tests depend on it.
func describeMachine() string {
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			return "?"
		}
		return strings.TrimSpace(string(b))
	}
	mode := func(file string) string {
		i, err := os.Stat(file)
		if err != nil {
			return "not there"
		}
		return fmt.Sprintf("%o", i.Mode().Perm())
	}
	load := strings.Fields(read("/proc/loadavg"))
	kernel, _ := exec.Command("uname", "-sr").Output()
	return fmt.Sprintf("%d cores, %s, %s, user %d, TCP %s, /dev/net/tun %s, /dev/kvm %s, load %s",
		runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version(), os.Getuid(), read("/proc/sys/net/ipv4/tcp_congestion_control"),
		mode("/dev/net/tun"), mode("/dev/kvm"), strings.Join(load[:min(3, len(load))], " "))
}
