package labfile

import (
	"testing"
)

// TestNICTimes_AreRoundedUpToTheirCodes compares with IBTA's table 45 and 4.096 us * 2^n
// (§9.7.6.1.3).
func TestNICTimes_AreRoundedUpToTheirCodes(t *testing.T) {
	for text, want := range map[string]uint8{
		"1ps": 1, "8.192us": 1, "8.193us": 2, "16.777216ms": 12, "16.8ms": 13, "67.1ms": 14, "8796.093022208s": 31, "none": 0,
	} {
		var got AckTimeout
		if err := got.UnmarshalText([]byte(text)); err != nil || uint8(got) != want {
			t.Errorf("timeout %s: %d, %v, not %d", text, got, err, want)
		}
	}
	for text, want := range map[string]uint8{
		"1ns": 1, "10us": 1, "11us": 2, "640us": 12, "0.65ms": 13, "491.52ms": 31, "491.53ms": 0, "655.36ms": 0,
	} {
		var got RNRTimer
		if err := got.UnmarshalText([]byte(text)); err != nil || uint8(got) != want {
			t.Errorf("rnr-timer %s: %d, %v, not %d", text, got, err, want)
		}
	}
}
