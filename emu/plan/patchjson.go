package plan

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
	d := json.NewDecoder(r)
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return LinkPatch{}, notJSON(err, d)
	}
	if t != json.Delim('{') {
		return LinkPatch{}, fmt.Errorf("%s is not a change of a link: %s", nameToken(t), patchForm)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return LinkPatch{}, notJSON(err, d)
		}
		value, err := d.Token()
		if err != nil {
			return LinkPatch{}, notJSON(err, d)
		}
		if err := p.setToken(fmt.Sprint(key), value); err != nil {
			return LinkPatch{}, err
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return LinkPatch{}, notJSON(err, d)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return LinkPatch{}, errors.New("something follows the object of settings: send one object, and nothing else")
	}
	return p, nil
}

// setToken sets one setting to a JSON token.
func (p *LinkPatch) setToken(name string, value json.Token) error {
	switch v := value.(type) {
	case string:
		return p.set(name, v)
	case json.Number:
		return p.set(name, v.String())
	case bool:
		return p.set(name, strconv.FormatBool(v))
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
		return "a text"
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
		return errors.New("there is nothing: " + patchForm)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends before its object does")
	case errors.As(err, &syntax):
		return fmt.Errorf("this is not JSON, at byte %d: %w", syntax.Offset, err)
	}
	return err
}
