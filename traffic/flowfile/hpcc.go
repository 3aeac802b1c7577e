package flowfile

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// ReadHPCC reads the flow files of HPCC's simulator: the number of flows, then a line for
// each, "SOURCE DESTINATION PRIORITY-GROUP PORT BYTES START" with the start in seconds.
// Text after the last flow is ignored, as in the simulator, where it is a place for
// notes. Here flows need not be in order of time. Ports are checked but not kept.
//
// It refuses flows of several priority groups, because a list has one class. HPCC's own
// generator always writes 3.
func ReadHPCC(r io.Reader) (File, error) {
	s := newScanner(r)
	head := s.nextFields()
	if len(head) == 0 {
		return File{}, cmp.Or(s.scanError(), s.lineErrorf("the file is empty: it should begin with the number of flows"))
	}
	count, err := parseNumber("the number of flows", head[0])
	if err != nil || len(head) > 1 {
		return File{}, s.lineErrorf("the first line must be the number of flows, and nothing else")
	}
	var f File
	for len(f.Flows) < count {
		fields := s.nextFields()
		if fields == nil {
			return File{}, cmp.Or(s.scanError(), s.lineErrorf("the file ends after %d flows, but its first line announces %d", len(f.Flows), count))
		}
		flow, priority, err := hpccFlow(fields)
		switch {
		case err != nil:
			return File{}, s.lineErrorf("%w", err)
		case len(f.Flows) > 0 && priority != f.Priority:
			return File{}, s.lineErrorf("priority group %d, but the flows before it have %d: use one file for each group", priority, f.Priority)
		}
		flow.Line = s.line
		f.Priority = priority
		f.Flows = append(f.Flows, flow)
	}
	return f, nil
}

func hpccFlow(fields []string) (f pattern.Listed, priority int, err error) {
	if len(fields) != 6 {
		return f, 0, fmt.Errorf("%d fields where SOURCE DESTINATION PRIORITY-GROUP PORT BYTES START are expected", len(fields))
	}
	var all [5]int
	for i, what := range []string{"the number of a host", "the number of a host", "a priority group from 0 to 7", "a port", "a size in bytes"} {
		n, err := parseNumber(what, fields[i])
		if err != nil || i == 2 && n > 7 || i == 3 && n > math.MaxUint16 || i == 4 && n == 0 {
			return f, 0, fmt.Errorf("%q is not %s", fields[i], what)
		}
		all[i] = n
	}
	f = pattern.Listed{From: all[0], To: all[1], Size: units.Bytes(all[4])}
	f.At, err = parseTime(fields[5], "s")
	return f, all[2], err
}

// WriteHPCC writes flows in HPCC's format, in order of time as its simulator requires: the
// flows of an open loop, from pattern.PlayFlows. Number i in the file is hosts[i]. Times are in
// whole nanoseconds, the simulator's unit. priority is the priority group of all flows, 0
// to 7; the port is 100, as in HPCC's generator.
//
// It refuses flows of 4 GiB and more: the simulator reads sizes as 32 bits.
func WriteHPCC(w io.Writer, flows iter.Seq[pattern.Flow], hosts []int, priority int) error {
	if priority < 0 || priority > 7 {
		return fmt.Errorf("priority group %d: it must lie between 0 and 7", priority)
	}
	place := make(map[int]int, len(hosts))
	for i, h := range hosts {
		place[h] = i
	}
	type line struct {
		from, to int
		size     units.Bytes
		at       units.Time // in nanoseconds
	}
	var lines []line
	for f := range flows {
		from, known := place[f.From]
		to, too := place[f.To]
		switch {
		case !known || !too:
			return fmt.Errorf("a flow from host %d to host %d, which do not both exist", f.From, f.To)
		case f.Size > math.MaxUint32:
			return fmt.Errorf("a flow of %v: HPCC's simulator supports sizes up to %d bytes", f.Size, uint32(math.MaxUint32))
		}
		lines = append(lines, line{from, to, f.Size, (f.At + units.Nanosecond/2) / units.Nanosecond})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	out := bufio.NewWriter(w)
	_, err := fmt.Fprintf(out, "%d\n", len(lines))
	for _, l := range lines {
		_, e := fmt.Fprintf(out, "%d %d %d 100 %d %d.%09d\n", l.from, l.to, priority, l.size, l.at/1e9, l.at%1e9)
		err = errors.Join(err, e)
	}
	return errors.Join(err, out.Flush())
}
