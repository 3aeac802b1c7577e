package resolve

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/pattern"
)

// resolveStride resolves the distance between partners among n hosts; 0 if the file gives none.
func (e *patternEntry) resolveStride(f *labfile.Amount, n int) int {
	if f == nil {
		return 0
	}
	if n > 0 && int(*f) >= n {
		e.ReportFault(f, "it must be less than the number of hosts", "stride %d is too large for %d hosts", *f, n)
	}
	return int(*f)
}

// resolveDestinations resolves where the hosts send; nil if the file does not say.
func (e *patternEntry) resolveDestinations(f *labfile.DestinationsForm, hosts []int) pattern.Destinations {
	switch {
	case f != nil && e.Place(&f.Value.Hosts) != nil:
		among := e.findHosts(f.Value.Hosts, &f.Value.Hosts, 1)
		if len(among) == 1 && slices.Contains(hosts, among[0]) {
			e.ReportFault(&f.Value.Hosts, "leave it out of hosts:", "%s cannot send to itself", e.plan.Nodes[among[0]].Name)
		}
		return pattern.AnyOther{Among: among}
	case f != nil && f.Value.Matrix != nil:
		return e.resolveMatrix(f.Value.Matrix, hosts)
	case len(hosts) == 1:
		e.ReportFault(e.FirstSet(f, e.place), "write to: {hosts: ...}, or more hosts", "%s has no other host to send to", e.plan.Nodes[hosts[0]].Name)
	case f == nil || f.Word == "random":
	case f.Word == "permutation":
		return pattern.Partners{}
	default:
		return pattern.Partners{Stride: e.resolveStride(f.Value.Stride, len(hosts))}
	}
	return nil
}

// resolveMatrix resolves a traffic matrix among hosts.
func (e *patternEntry) resolveMatrix(f *labfile.MatrixForm, hosts []int) pattern.Destinations {
	var rows [][]float64
	if f.File != nil {
		name, text, ok := f.File.Read(e.Reader, "matrix")
		if !ok {
			return nil
		}
		var err error
		if rows, err = readMatrix(text); err != nil {
			e.ReportFault(f.File, "a line needs a number for each receiving host", "%s: %v", name, err)
			return nil
		}
	}
	for _, r := range f.Value {
		row := make([]float64, len(r))
		for i, x := range r {
			row[i] = float64(x)
		}
		rows = append(rows, row)
	}
	const hint = "write a row for each of hosts, in their order, with a number for each of them"
	if len(rows) != len(hosts) && len(hosts) > 0 {
		e.ReportFault(f, hint, "the matrix has %d rows for %d hosts", len(rows), len(hosts))
		return nil
	}
	for i, row := range rows {
		switch {
		case len(row) != len(hosts):
			e.ReportFault(f, hint, "row %d of the matrix has %d numbers for %d hosts", i+1, len(row), len(hosts))
			return nil
		case row[i] != 0:
			e.ReportFault(f, "write 0 there", "row %d, column %d of the matrix: %s cannot send to itself", i+1, i+1, e.plan.Nodes[hosts[i]].Name)
			return nil
		}
	}
	return pattern.Weights{Matrix: rows}
}

// readMatrix reads lines of numbers separated by blanks or commas. Text after a # is
// skipped.
func readMatrix(text string) (rows [][]float64, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		var row []float64
		for _, field := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' }) {
			x, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %q is not a number", n, field)
			}
			row = append(row, x)
		}
		if row != nil {
			rows = append(rows, row)
		}
	}
	return rows, lines.Err()
}
