package chart

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// kind is the kind of a file's contents.
type kind uint8

const (
	queueSeries kind = iota
	flowSeries
	streamRecords
	flowRecords
	transferRecords
)

// String describes the kind, in the plural except for series.
func (k kind) String() string {
	return [...]string{"a series of queues", "a series of flows", "records of flows of packets", "flow records", "records of transfers"}[k]
}

// kindOf determines what a file holds by its header, or by its first record in
// JSON.
func kindOf(name string) (kind, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if is, err := records.IsParquet(f); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	} else if is {
		return flowRecords, nil
	}
	if filepath.Ext(name) == ".json" {
		k, err := kindOfJSON(f)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return k, nil
	}
	// A longer line cannot be a header, and a file without any of the names is
	// something else: a capture, a lab file.
	line, err := bufio.NewReader(io.LimitReader(f, 1<<16)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	header, err := csv.NewReader(strings.NewReader(line)).Read()
	switch {
	case err == nil && series.Is(header):
		return queueSeries, nil
	case err == nil && series.IsFlows(header):
		return flowSeries, nil
	case err == nil && records.Is(header):
		return flowRecords, nil
	case err == nil && workload.Is(header):
		return streamRecords, nil
	case err == nil && workload.IsTransfers(header):
		return transferRecords, nil
	}
	return 0, fmt.Errorf("%s is neither a series (weft sim --series x.csv, --flow-series x.csv) nor records (weft sim --flow-records x.csv, --stream-records x.csv, --transfer-records x.csv): its first line does not name their columns", name)
}

// kindOfJSON looks at the first element of an array.
func kindOfJSON(r io.Reader) (kind, error) {
	d := json.NewDecoder(bufio.NewReader(r))
	t, err := d.Token()
	if err == nil && t == json.Delim('[') && !d.More() {
		return 0, errors.New("it has no records")
	}
	var first struct {
		Flow     *string `json:"flow"`
		Transfer *string `json:"transfer"`
	}
	if err == nil && t == json.Delim('[') {
		err = d.Decode(&first)
	}
	switch {
	case first.Transfer != nil:
		return transferRecords, nil
	case first.Flow != nil:
		return streamRecords, nil
	case err != nil:
		return 0, fmt.Errorf("it is not a JSON array of records of flows of packets or of transfers: %w", err)
	}
	return 0, errors.New("it is not a JSON array of records of flows of packets or of transfers")
}

// readRecords reads records in the format given by the file's name.
func readRecords[T any](name string, asCSV, asJSON func(io.Reader) ([]T, error)) (records []T, err error) {
	format := asCSV
	if filepath.Ext(name) == ".json" {
		format = asJSON
	}
	if err := readFile(name, func(in io.Reader) error {
		records, err = format(in)
		return err
	}); err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%s has no records", name)
	}
	return records, nil
}

// noSeries rejects options for series if the file holds records.
func noSeries(k kind, o *Options) error {
	if len(o.Ports) > 0 || len(o.Flows) > 0 || o.Class != "" || o.From != 0 || o.To != units.Never || o.Average != 0 {
		return fmt.Errorf("%s have no ports and no samples: --port, --class, --flow, --from, --to and --average are for series", k)
	}
	return nil
}
