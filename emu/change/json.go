package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// ReadPatch reads settings from JSON: one object, with the keys of the lab
// file. Values are strings as in the lab file, or numbers and booleans where
// the lab file allows them without quotes. Anything after the object is an
// error, and so is a duplicate key. It returns errors of r unchanged.
func ReadPatch(r io.Reader) (LinkPatch, error) {
	var p LinkPatch
	if err := linkSettings.readObject(reflect.ValueOf(&p).Elem(), r); err != nil {
		return LinkPatch{}, err
	}
	return p, nil
}

// readObject reads an object of settings into a patch.
func (s *settings) readObject(patch reflect.Value, r io.Reader) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return s.notJSON(err, d)
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%s cannot change %s: %s", nameToken(t), s.owner, s.form())
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return s.notJSON(err, d)
		}
		value, err := d.Token()
		if err != nil {
			return s.notJSON(err, d)
		}
		if err := s.setToken(patch, fmt.Sprint(key), value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return s.notJSON(err, d)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the object of settings: send a single object")
	}
	return nil
}

// form explains how the settings are written in JSON.
func (s *settings) form() string {
	name, text, _ := strings.Cut(s.example, "=")
	return fmt.Sprintf("write an object of settings, such as {%q: %q}", name, text)
}

// setToken sets one setting of a patch to a JSON token.
func (s *settings) setToken(patch reflect.Value, name string, value json.Token) error {
	switch v := value.(type) {
	case string:
		return s.setKey(patch, name, v)
	case json.Number:
		return s.setKey(patch, name, v.String())
	case bool:
		return s.setKey(patch, name, strconv.FormatBool(v))
	}
	return fmt.Errorf("%s must be a single value, not %s", name, nameToken(value))
}

// nameToken names the kind of value that begins with a token.
func nameToken(t json.Token) string {
	switch v := t.(type) {
	case json.Delim:
		if v == '[' {
			return "a list"
		}
		return "an object"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return strconv.FormatBool(v)
	}
	return "null"
}

// notJSON says where a text stops being JSON.
func (s *settings) notJSON(err error, d *json.Decoder) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF) && d.InputOffset() == 0:
		return errors.New("empty input: " + s.form())
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is incomplete")
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d: %w", syntax.Offset, err)
	}
	return err
}
