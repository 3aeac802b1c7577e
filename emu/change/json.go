package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// patchForm explains how settings are written in JSON.
const patchForm = `write an object of settings, such as {"loss": "1%", "rate": "1Gbps"}`

// ReadPatch reads settings from JSON: one object, with the keys of the lab
// file. Values are strings as in the lab file, or numbers and booleans where
// the lab file allows them without quotes. Anything after the object is an
// error, and so is a duplicate key. It returns errors of r unchanged.
func ReadPatch(r io.Reader) (LinkPatch, error) {
	var p LinkPatch
	if err := readObject(r, p.set); err != nil {
		return LinkPatch{}, err
	}
	return p, nil
}

// readObject reads an object of settings and sets each of them.
func readObject(r io.Reader, set func(name, text string) error) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return notJSON(err, d)
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%s cannot change a link: %s", nameToken(t), patchForm)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return notJSON(err, d)
		}
		value, err := d.Token()
		if err != nil {
			return notJSON(err, d)
		}
		if err := setToken(set, fmt.Sprint(key), value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return notJSON(err, d)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the object of settings: send a single object")
	}
	return nil
}

// setToken sets one setting to a JSON token.
func setToken(set func(name, text string) error, name string, value json.Token) error {
	switch v := value.(type) {
	case string:
		return set(name, v)
	case json.Number:
		return set(name, v.String())
	case bool:
		return set(name, strconv.FormatBool(v))
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
func notJSON(err error, d *json.Decoder) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF) && d.InputOffset() == 0:
		return errors.New("empty input: " + patchForm)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is incomplete")
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d: %w", syntax.Offset, err)
	}
	return err
}
