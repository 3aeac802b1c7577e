package sim

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestFlags_BadValuesAreRefused: a value that would be taken for another, or for none, is refused
// with the flag's name and what to write.
func TestFlags_BadValuesAreRefused(t *testing.T) {
	t.Parallel()
	_, run := inDir(t, seriesLab)
	for args, want := range map[string]string{
		"up lab.yaml --for -1s":                      `"-1s" for "--for" flag: -1s is negative: write for example 1s`,
		"sim lab.yaml --for -1s":                     `"-1s" for "--for" flag: -1s is negative: write for example 1s`,
		"sim lab.yaml --for 1":                       `"--for" flag: "1" has no unit`,
		"sim lab.yaml --series x.csv --every -1":     `"--every" flag: "-1" has no unit`,
		"up lab.yaml --every -5us":                   `"--every" flag: -5us is negative`,
		"report x.csv --from -1s":                    `"--from" flag: -1s is negative`,
		"report x.csv --to -1s":                      `"--to" flag: -1s is negative`,
		"report x.csv -o x.png --average -1s":        `"--average" flag: -1s is negative`,
		"top --interval -1s":                         `"--interval" flag: -1s is negative`,
		"sim lab.yaml --workers x":                   `"--workers" flag: "x" is not a whole number of at least 0`,
		"sim lab.yaml --shards 2":                    "this flag no longer has an effect: leave it out",
		"sim lab.yaml --seed -1":                     `"--seed" flag: "-1" is not a whole number of at least 0`,
		"sim lab.yaml -s 99999999999999999999":       `flag: 99999999999999999999 is too large: give at most 9223372036854775807`,
		"sim lab.yaml --seed 18446744073709551616":   `flag: 18446744073709551616 is too large: give at most 18446744073709551615`,
		"sim lab.yaml --workers 9999999999999999999": `flag: 9999999999999999999 is too large: give at most 9223372036854775807`,
		"capture s1:1 -w x.pcapng --snaplen -5":      `flag: "-5" is not a whole number of at least 0`,
		"capture s1:1 -w x.pcapng --count 1.5":       `flag: "1.5" is not a whole number of at least 0`,
	} {
		if o, e, code := run(strings.Fields(args)...); code != testlab.ExitBadInput || o != "" || !strings.Contains(e, want) {
			t.Errorf("weft %s: exit code %d\n%s%s", args, code, o, e)
		}
	}
	o, _, _ := run("sim", "--help")
	for _, want := range []string{"--for time ", "--seed number ", "results do not depend on it\n"} {
		if !strings.Contains(o, want) {
			t.Errorf("the help lacks %q:\n%s", want, o)
		}
	}
	if strings.Contains(o, "default 0") {
		t.Errorf("the help has defaults that are none:\n%s", o)
	}
}
