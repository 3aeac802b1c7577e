package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

// Run shows a lab on the terminal until the user quits or ctx ends. It takes a
// sample every interval, in wall-clock time.
func Run(ctx context.Context, take Source, interval time.Duration) error {
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler()}
	if os.Getenv("NO_COLOR") != "" { // with any value: no-color.org
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	_, err := tea.NewProgram(newModel(take, interval), options...).Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil // the terminal has been restored
	}
	return err
}

// PrintOnce takes two samples, interval apart, and writes what happened between them
// as a table: lines about the lab, which begin with #, a line of titles and one
// for each port and class, in the order of the plan. Fields are separated by
// blanks and contain none; unknown values are "-".
func PrintOnce(ctx context.Context, take Source, interval time.Duration, w io.Writer) error {
	before, err := take(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
	}
	now, err := take(ctx)
	if err != nil {
		return err
	}
	for _, line := range summaryLines(before, now) {
		fmt.Fprintln(w, "#", line)
	}
	if now.Trouble != "" {
		fmt.Fprintln(w, "#", now.Trouble)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, c := range columns {
		fmt.Fprint(t, sortKey(i), strings.ReplaceAll(c.title, " ", "_"))
	}
	fmt.Fprintln(t)
	rows := rowsOf(before, now)
	for i := range rows {
		for k := range columns {
			fmt.Fprint(t, sortKey(k), columns[k].plainText(&rows[i]))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func sortKey(i int) string {
	if i == 0 {
		return ""
	}
	return "\t"
}

// plainText returns a cell for programs: an unabbreviated number with up to three
// decimals, with a star if it is true at this moment.
func (c *column) plainText(r *row) string {
	if c.text != nil {
		s := c.text(r)
		if r.class != "" && c.title == "PORT" {
			s = r.port.Name + "/" + r.class
		}
		if s == "" {
			return "-"
		}
		return s
	}
	if c.isDown(r) {
		return "down"
	}
	s := "-"
	if v := c.value(r); !math.IsNaN(v) {
		s = strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
	}
	if c.now != nil && c.now(r) {
		s += "*"
	}
	return s
}
