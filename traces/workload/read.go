package workload

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// needed are the columns without which a file holds no flow records.
var needed = []string{"flow", "sent_packets", "received_packets", "start_s", "end_s"}

// Is tells whether a CSV file with this header holds flow records, or was meant
// to.
func Is(header []string) bool {
	return slices.Contains(header, "flow") && slices.Contains(header, "sent_packets")
}

// ReadCSV reads what WriteCSV has written. Columns are found by their names;
// others may be there as well, and what is not there is 0. Errors name the
// line.
func ReadCSV(r io.Reader) ([]Result, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	header = slices.Clone(header)
	var missing []string
	for _, n := range needed {
		if !slices.Contains(header, n) {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("it lacks the column %s", strings.Join(missing, ", "))
	}
	fields := fieldsOf(header)
	var out []Result
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var x Result
		v := reflect.ValueOf(&x).Elem()
		for i, f := range fields {
			if f < 0 {
				continue
			}
			if err := parseField(v.Field(f), record[i]); err != nil {
				line, _ := in.FieldPos(i)
				return nil, fmt.Errorf("line %d: %s: %q is not %w", line, header[i], record[i], err)
			}
		}
		out = append(out, x)
	}
}

// ReadJSON reads what WriteJSON has written.
func ReadJSON(r io.Reader) ([]Result, error) {
	var out []Result
	if err := json.NewDecoder(r).Decode(&out); err != nil {
		return nil, fmt.Errorf("it is not a JSON array of flow records: %w", err)
	}
	for i := range out {
		if out[i].Flow == "" {
			return nil, fmt.Errorf("it is not a JSON array of flow records: entry %d has no flow", i+1)
		}
	}
	return out, nil
}

// fieldsOf finds the field of Result for each column, -1 for none.
func fieldsOf(header []string) []int {
	t := reflect.TypeFor[Result]()
	fields := make([]int, len(header))
	for i, name := range header {
		fields[i] = -1
		for f := range t.NumField() {
			if tag, _, _ := strings.Cut(t.Field(f).Tag.Get("json"), ","); tag == name {
				fields[i] = f
			}
		}
	}
	return fields
}

func parseField(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("a whole number")
		}
		v.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errors.New("a whole number, not negative")
		}
		v.SetUint(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("a number")
		}
		v.SetFloat(n)
	}
	return nil
}
