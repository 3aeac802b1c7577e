// Package flowfile reads lists of flows from files of other simulators, and writes one
// of their formats, so that the same flows can run in both.
//
// In these files hosts are numbers from 0; the user of a file says which host each stands
// for.
package flowfile

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// File is the content of a file.
type File struct {
	Flows    []pattern.Listed
	Triggers []pattern.Trigger
	Nodes    int // number of hosts according to the file; 0 if it does not say
	Priority int // the priority group of all flows, 0 to 7, in HPCC's files; otherwise 0
}

// FlowList returns the file's flows between hosts, where number i is hosts[i]. Its Make refuses
// numbers beyond the hosts, and triggers that no host could act upon.
func (f File) FlowList(hosts []int) pattern.List {
	return pattern.List{Hosts: hosts, Flows: f.Flows, Triggers: f.Triggers}
}

// scanner reads lines of fields and counts them.
type scanner struct {
	lines *bufio.Scanner
	line  int
}

func newScanner(r io.Reader) *scanner { return &scanner{lines: bufio.NewScanner(r)} }

// nextFields returns the fields of the next line that is not empty, none at the end.
func (s *scanner) nextFields() []string {
	for s.lines.Scan() {
		s.line++
		if fields := strings.Fields(s.lines.Text()); len(fields) > 0 {
			return fields
		}
	}
	return nil
}

// lineErrorf makes an error for the line that was read last.
func (s *scanner) lineErrorf(format string, a ...any) error {
	return fmt.Errorf("line %d: %w", max(s.line, 1), fmt.Errorf(format, a...))
}

// scanError returns the error that ended the reading, nil at the end of the file.
func (s *scanner) scanError() error {
	if err := s.lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", s.line+1, err)
	}
	return nil
}

// parseNumber parses a whole number that is not negative.
func parseNumber(what, text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not %s", text, what)
	}
	return int(min(n, math.MaxInt)), nil
}

// parseTime parses a time in the given unit, not negative, to the nearest picosecond.
func parseTime(text, unit string) (units.Time, error) {
	t, err := units.ParseTime(text + unit)
	if err != nil || strings.Trim(text, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a time in %s", text, map[string]string{"s": "seconds", "ps": "picoseconds"}[unit])
	}
	return t, nil
}
