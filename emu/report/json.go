package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
)

// WriteJSON writes the report as encoding/json does with an indentation of two blanks.
// It encodes the elements of lists one by one: a fabric has thousands of ports, and
// encoding/json keeps all that it writes at once in memory, twice.
func (r *Report) WriteJSON(w io.Writer) error {
	out := &jsonWriter{Writer: bufio.NewWriter(w)}
	out.encoder = json.NewEncoder(&out.encoded)
	v := reflect.ValueOf(r).Elem()
	separator := "{\n  "
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		if options == "omitempty" && isEmpty(field) {
			continue
		}
		_, _ = out.WriteString(separator + `"` + name + `": `)
		separator = ",\n  "
		if err := out.field(field); err != nil {
			return err
		}
	}
	_, _ = out.WriteString("\n}\n")
	return out.Flush()
}

// isEmpty reports whether omitempty leaves a field out.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// jsonWriter writes a report in JSON. Flush returns errors of earlier writes.
type jsonWriter struct {
	*bufio.Writer
	encoder *json.Encoder
	encoded bytes.Buffer // by encoder
}

// field writes the value of a report field.
func (w *jsonWriter) field(v reflect.Value) error {
	if v.Kind() != reflect.Slice || v.Len() == 0 {
		return w.value(v, "  ")
	}
	separator := "[\n    "
	for i := range v.Len() {
		_, _ = w.WriteString(separator)
		separator = ",\n    "
		if err := w.value(v.Index(i), "    "); err != nil {
			return err
		}
	}
	_, _ = w.WriteString("\n  ]")
	return nil
}

// value writes a value with indented lines.
func (w *jsonWriter) value(v reflect.Value, indent string) error {
	w.encoded.Reset()
	w.encoder.SetIndent(indent, "  ")
	if err := w.encoder.Encode(v.Addr().Interface()); err != nil {
		return err
	}
	_, _ = w.Write(bytes.TrimSuffix(w.encoded.Bytes(), []byte("\n")))
	return nil
}
