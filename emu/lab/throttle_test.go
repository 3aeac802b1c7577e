package lab

import (
	"slices"
	"testing"
	"time"
)

// TestThrottleDirs_AreThoseOfAllGroupsAbove: of both versions of control groups.
func TestThrottleDirs_AreThoseOfAllGroupsAbove(t *testing.T) {
	for text, want := range map[string][]string{
		"0::/user.slice/a.scope\n": {"/user.slice/a.scope", "/user.slice", "/"},
		"0::/\n":                   {"/"},
		"4:memory:/x\n2:cpu,cpuacct:/docker/7\n1:cpuset:/y\n0::/\n": {"cpu,cpuacct/docker/7", "cpu,cpuacct/docker", "cpu,cpuacct", "/"},
		"1:cpu:/\n": {"cpu"},
		"":          nil,
		"broken\n":  nil,
	} {
		if got := throttleDirs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestParseThrottled(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 1500\n": 1500 * time.Microsecond,
		"nr_periods 10\nnr_throttled 3\nthrottled_time 2500\n":               2500,
		"usage_usec 5\n": 0, "": 0, "throttled_usec x\n": 0,
	} {
		if got := parseThrottled([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
