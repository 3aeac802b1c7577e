package records

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Row is what a file of flow records says about the outcome of a flow. Times are in seconds; nil is
// unknown.
type Row struct {
	Traffic  string   `parquet:"traffic"`
	From     string   `parquet:"from"`
	To       string   `parquet:"to"`
	Size     int64    `parquet:"size_bytes"`
	State    string   `parquet:"state"` // the name of a State
	Counted  bool     `parquet:"counted"`
	FCT      *float64 `parquet:"fct_s,optional"`
	Slowdown *float64 `parquet:"slowdown,optional"`
}

// needed are the columns that a file must have.
var needed = []string{"traffic", "from", "to", "size_bytes", "state", "counted", "fct_s", "slowdown"}

// Is reports whether a CSV file with this header holds flow records, or was meant to.
func Is(header []string) bool {
	return slices.Contains(header, "traffic") && slices.Contains(header, "fct_s")
}

// parquetMagic is what a Parquet file begins with.
const parquetMagic = "PAR1"

// IsParquet reports whether a file is a Parquet file. It leaves the file at its beginning.
func IsParquet(f *os.File) (bool, error) {
	var begin [len(parquetMagic)]byte
	_, err := io.ReadFull(f, begin[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return string(begin[:]) == parquetMagic, nil
}

// ReadFile calls each with the records of a file that CSV or Parquet has written, in order. Columns
// are found by their names. The row is valid only during the call. Errors name the file, and the
// line in CSV.
func ReadFile(name string, each func(*Row) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	is, err := IsParquet(f)
	switch {
	case err != nil:
	case is:
		err = readParquet(f, each)
	default:
		err = readCSV(bufio.NewReaderSize(f, 1<<16), each)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// checkColumns checks that a file has all columns that are needed.
func checkColumns(have []string) error {
	missing := slices.DeleteFunc(slices.Clone(needed), func(n string) bool { return slices.Contains(have, n) })
	if len(missing) > 0 {
		return fmt.Errorf("missing column %s", strings.Join(missing, ", "))
	}
	return nil
}

func readParquet(f *os.File, each func(*Row) error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return fmt.Errorf("it is not a complete Parquet file: %w", err)
	}
	var have []string
	for _, field := range file.Schema().Fields() {
		have = append(have, field.Name())
	}
	if err := checkColumns(have); err != nil {
		return err
	}
	in := parquet.NewGenericReader[Row](file)
	defer in.Close()
	rows := make([]Row, parquetBatch)
	for {
		n, err := in.Read(rows)
		for i := range n {
			if err := each(&rows[i]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func readCSV(r io.Reader, each func(*Row) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty")
	}
	if err != nil {
		return err
	}
	if err := checkColumns(header); err != nil {
		return err
	}
	at := make([]int, len(needed))
	for i, n := range needed {
		at[i] = slices.Index(header, n)
	}
	for {
		line, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		x := Row{Traffic: line[at[0]], From: line[at[1]], To: line[at[2]], State: line[at[4]]}
		for i, err := range []error{
			3: parse(line[at[3]], &x.Size, "a whole number", parseInt),
			5: parse(line[at[5]], &x.Counted, "true or false", strconv.ParseBool),
			6: parseUnknown(line[at[6]], &x.FCT),
			7: parseUnknown(line[at[7]], &x.Slowdown),
		} {
			if err != nil {
				number, _ := in.FieldPos(at[i])
				return fmt.Errorf("line %d: %s: %w", number, needed[i], err)
			}
		}
		if !slices.Contains(stateNames[:], x.State) {
			number, _ := in.FieldPos(at[4])
			return fmt.Errorf("line %d: state: %q is not one of %s", number, x.State, strings.Join(stateNames[:], ", "))
		}
		if err := each(&x); err != nil {
			return err
		}
	}
}

func parseInt(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// parse parses a field; what describes what it has to be.
func parse[T any](text string, to *T, what string, by func(string) (T, error)) error {
	v, err := by(text)
	if err != nil {
		return fmt.Errorf("%q is not %s", text, what)
	}
	*to = v
	return nil
}

// parseUnknown parses a number, which is unknown if the field is empty.
func parseUnknown(text string, to **float64) error {
	if text == "" {
		return nil
	}
	*to = new(float64)
	return parse(text, *to, "a number", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}
