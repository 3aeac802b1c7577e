package testlab

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
)

// Simulate runs weft sim and returns its report. There is no limit of time: some labs take long on
// a busy machine.
func Simulate(t *testing.T, weft, file string, flags ...string) *report.Report {
	t.Helper()
	c := exec.Command(weft, append([]string{"sim", "--json", file}, flags...)...)
	var out bytes.Buffer
	c.Stdout = &out
	p := Launch(t, c)
	<-p.Done
	if failed := (*exec.ExitError)(nil); p.Err != nil && !(errors.As(p.Err, &failed) && failed.ExitCode() == ExitTraffic) {
		t.Fatalf("weft sim: %v\n%s", p.Err, &p.Out)
	}
	r := &report.Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// PortOf returns a port of a report.
func PortOf(t *testing.T, r *report.Report, name string) status.Port {
	t.Helper()
	i := slices.IndexFunc(r.Ports, func(p status.Port) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no port %s", name)
	}
	return r.Ports[i]
}

// ClassOf returns a class of a port.
func ClassOf(t *testing.T, p status.Port, name string) status.Class {
	t.Helper()
	i := slices.IndexFunc(p.Classes, func(c status.Class) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("%s has no class %s", p.Name, name)
	}
	return p.Classes[i]
}

// PausedTime returns how long a class of a port has been paused.
func PausedTime(p status.Port, name string) units.Time {
	for _, c := range p.Classes {
		if c.Name == name {
			return c.PausedTime
		}
	}
	return 0
}

// PortField returns a number from the line of a port.
func PortField(screen, port string, column int) float64 {
	for line := range strings.Lines(screen) {
		if f := strings.Fields(line); len(f) > column && f[0] == port {
			v, _ := strconv.ParseFloat(f[column], 64)
			return v
		}
	}
	return -1
}

// ReadSeries returns the rows of a file.
func ReadSeries(t *testing.T, file string) (rows []series.Row) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := series.Read(f, func(r *series.Row) error {
		rows = append(rows, *r)
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return rows
}
