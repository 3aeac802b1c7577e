package table

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bundle is the tables of one run.
type Bundle []*Table

// Table returns a table by its name; nil if there is none.
func (b Bundle) Table(name string) *Table {
	i := slices.IndexFunc(b, func(t *Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return b[i]
}

// Names returns the names of the tables.
func (b Bundle) Names() (names []string) {
	for _, t := range b {
		names = append(names, t.Name)
	}
	return names
}

// The suffixes of columns in the headers of a bundle's files: of texts, so that texts that look
// like numbers stay texts, and of booleans.
const (
	textMark = "!"
	boolMark = "?"
)

// WriteZip writes the tables as CSV files in a zip archive. The same tables give the same
// bytes. Numbers keep all their digits; an unknown number is an empty field. Booleans are true and
// false.
func (b Bundle) WriteZip(w io.Writer) error {
	z := zip.NewWriter(w)
	for _, t := range b {
		if err := t.Check(); err != nil {
			return err
		}
		f, err := z.Create(t.Name + ".csv")
		if err != nil {
			return err
		}
		if err := t.writeCSV(f); err != nil {
			return err
		}
	}
	return z.Close()
}

func (t *Table) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	line := make([]string, len(t.Columns))
	for i := range t.Columns {
		line[i] = t.Columns[i].Name
		switch {
		case t.Columns[i].IsText():
			line[i] += textMark
		case t.Columns[i].Bool:
			line[i] += boolMark
		}
	}
	_ = out.Write(line) // Error reports it
	for row := range t.Len() {
		for i := range t.Columns {
			c := &t.Columns[i]
			switch {
			case c.IsText():
				line[i] = c.Texts[row]
			case math.IsNaN(c.Numbers[row]):
				line[i] = ""
			case c.Bool:
				line[i] = strconv.FormatBool(c.Numbers[row] != 0)
			default:
				line[i] = strconv.FormatFloat(c.Numbers[row], 'g', -1, 64)
			}
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// ReadZip reads what WriteZip has written.
func ReadZip(data []byte) (Bundle, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var b Bundle
	for _, file := range z.File {
		name, ok := strings.CutSuffix(file.Name, ".csv")
		if !ok {
			return nil, fmt.Errorf("%s is not a table", file.Name)
		}
		f, err := file.Open()
		if err != nil {
			return nil, err
		}
		t, err := readCSV(name, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		b = append(b, t)
	}
	return b, nil
}

// ReadCSV reads a table from CSV with a header line. Texts names the text columns; all
// others are numbers, where an empty field is unknown.
func ReadCSV(name string, r io.Reader, texts ...string) (*Table, error) {
	return parseCSV(name, r, func(header string) Column {
		if slices.Contains(texts, header) {
			return Column{Name: header, Texts: []string{}}
		}
		return Column{Name: header, Numbers: []float64{}}
	})
}

// readCSV reads what writeCSV has written.
func readCSV(name string, r io.Reader) (*Table, error) {
	return parseCSV(name, r, func(header string) Column {
		if text, ok := strings.CutSuffix(header, textMark); ok {
			return Column{Name: text, Texts: []string{}}
		}
		plain, isBool := strings.CutSuffix(header, boolMark)
		return Column{Name: plain, Numbers: []float64{}, Bool: isBool}
	})
}

// parseCSV reads CSV. Column returns the empty column of a header.
func parseCSV(name string, r io.Reader, column func(header string) Column) (*Table, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil {
		return nil, err
	}
	t := &Table{Name: name, Columns: make([]Column, len(header))}
	for i, h := range header {
		t.Columns[i] = column(strings.Clone(h))
	}
	for {
		line, err := in.Read()
		if errors.Is(err, io.EOF) {
			return t, t.Check()
		}
		if err != nil {
			return nil, err
		}
		for i, field := range line {
			c := &t.Columns[i]
			if c.IsText() {
				c.Texts = append(c.Texts, strings.Clone(field))
				continue
			}
			x, err := c.parseNumber(field)
			if err != nil {
				return nil, err
			}
			c.Numbers = append(c.Numbers, x)
		}
	}
}

// parseNumber reads a number of the column as writeCSV writes it.
func (c *Column) parseNumber(field string) (float64, error) {
	if field == "" {
		return Unknown, nil
	}
	if c.Bool {
		b, err := strconv.ParseBool(field)
		if err != nil {
			return 0, fmt.Errorf("%s: %q is neither true nor false", c.Name, field)
		}
		return NumberOfBool(b), nil
	}
	x, err := strconv.ParseFloat(field, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", c.Name, field)
	}
	return x, nil
}
