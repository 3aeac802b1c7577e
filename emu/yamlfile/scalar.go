package yamlfile

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// HintError is an invalid value, with a hint for correcting it.
type HintError struct{ Msg, Hint string }

func (e *HintError) Error() string { return e.Msg + ": " + e.Hint }

// ParseScalar parses text into the value that ptr points to.
func ParseScalar(ptr any, text string) error {
	if u, ok := ptr.(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	v := reflect.ValueOf(ptr).Elem()
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
		return nil
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(int64(n))
		return nil
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to 18446744073709551615", text)
		}
		v.SetUint(n)
		return nil
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(x)
		return nil
	}
	panic("yamlfile: cannot read a " + v.Type().String())
}

// ParseInt reads a whole number within bounds.
func ParseInt(text []byte, low, high int) (int, error) {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", text, low, high)
	}
	return n, nil
}
