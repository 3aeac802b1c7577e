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

// A table is a file of records of one type, a struct. Its columns in CSV are
// the struct's fields, with the names that they have in JSON; the tag digits
// says how many decimals a float64 has in CSV.

// columnsOf returns the fields of a record's type, including fields of embedded
// structs.
func columnsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
}

func columnName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// writeJSON writes records as a JSON array.
func writeJSON[T any](w io.Writer, records []T) error {
	if records == nil {
		records = []T{}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(records)
}

// writeCSV writes a header line and a line for each record.
func writeCSV[T any](w io.Writer, records []T) error {
	fields := columnsOf(reflect.TypeFor[T]())
	line := make([]string, len(fields))
	for i, f := range fields {
		line[i] = columnName(f)
	}
	out := csv.NewWriter(w)
	_ = out.Write(line)
	for i := range records {
		v := reflect.ValueOf(&records[i]).Elem()
		for k, f := range fields {
			line[k] = formatField(v.FieldByIndex(f.Index), f)
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

func formatField(v reflect.Value, f reflect.StructField) string {
	if v.Kind() != reflect.Float64 {
		return fmt.Sprint(v)
	}
	digits, err := strconv.Atoi(f.Tag.Get("digits"))
	if err != nil {
		panic("workload: " + f.Name + " lacks the tag digits")
	}
	return strconv.FormatFloat(v.Float(), 'f', digits, 64)
}

// readCSV reads the output of writeCSV. Columns are found by their names;
// others may be present as well. Missing columns are 0, except that needed ones
// are required. Errors name the line.
func readCSV[T any](r io.Reader, needed []string) ([]T, error) {
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
		return nil, fmt.Errorf("missing column %s", strings.Join(missing, ", "))
	}
	fields := make([][]int, len(header)) // nil for columns that no field has
	for _, f := range columnsOf(reflect.TypeFor[T]()) {
		if i := slices.Index(header, columnName(f)); i >= 0 {
			fields[i] = f.Index
		}
	}
	var out []T
	for {
		line, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var x T
		v := reflect.ValueOf(&x).Elem()
		for i, f := range fields {
			if f == nil {
				continue
			}
			if err := parseField(v.FieldByIndex(f), line[i]); err != nil {
				number, _ := in.FieldPos(i)
				return nil, fmt.Errorf("line %d: %s: %q is not %w", number, header[i], line[i], err)
			}
		}
		out = append(out, x)
	}
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

// readJSON reads a JSON array of records. what says what they are called, and
// name returns the name of each; both are for errors.
func readJSON[T any](r io.Reader, what, key string, name func(*T) string) ([]T, error) {
	var out []T
	if err := json.NewDecoder(r).Decode(&out); err != nil {
		return nil, fmt.Errorf("it is not a JSON array of %s: %w", what, err)
	}
	for i := range out {
		if name(&out[i]) == "" {
			return nil, fmt.Errorf("it is not a JSON array of %s: entry %d has no %s", what, i+1, key)
		}
	}
	return out, nil
}
