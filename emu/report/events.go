package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// eventColumns are the columns of the events of a series.
var eventColumns = []string{"time_s", "event", "where", "peer", "direction", "by", "text"}

// EventsFile names the file of the events of a series: q.events.csv beside q.csv.
func EventsFile(series string) string { return strings.TrimSuffix(series, ".csv") + ".events.csv" }

// WriteEvents writes the timeline to the file beside a series. Without events it
// writes only the names of the columns.
func WriteEvents(series string, timeline []status.Moment) error {
	f, err := os.Create(EventsFile(series))
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	err = w.Write(eventColumns)
	for i := range timeline {
		m := &timeline[i]
		direction := ""
		if m.Peer != "" {
			if direction = "both"; m.OneWay {
				direction = "out"
			}
		}
		// In seconds, exactly, as in series.
		err = errors.Join(err, w.Write([]string{exactSeconds(m.At), m.Event, m.Where, m.Peer, direction, m.By, m.Text}))
	}
	w.Flush()
	return errors.Join(err, w.Error(), f.Close())
}

// exactSeconds prints a time in seconds to the picosecond.
func exactSeconds(t units.Time) string {
	const digits = 12
	text := fmt.Sprintf("%d.%0*d", t/units.Second, digits, int64(t%units.Second))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// ReadEvents reads the events beside a series. It returns none if there is no such file.
func ReadEvents(series string) ([]status.Moment, error) {
	f, err := os.Open(EventsFile(series))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	header, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !slices.Equal(header, eventColumns) {
		return nil, errors.New("its first line does not name the columns of events: " + strings.Join(eventColumns, ","))
	}
	var all []status.Moment
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		at, err := units.ParseTime(row[0] + "s")
		if err != nil {
			return nil, err
		}
		all = append(all, status.Moment{At: at, Event: row[1], Where: row[2], Peer: row[3], OneWay: row[4] == "out", By: row[5], Text: row[6]})
	}
}
