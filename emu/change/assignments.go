package change

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/suggest"
)

// settings says how the settings of one kind of patch are written as key=value. A patch is a
// struct of pointers, of which those that are nil set nothing.
type settings struct {
	names   []string // the keys, in the order of the patch's fields
	owner   string   // what has them, with an article
	plural  string
	example string
}

var (
	linkSettings  = settings{namesOf(reflect.TypeFor[LinkPatch]()), "a link", "links", "loss=1%"}
	queueSettings = settings{namesOf(reflect.TypeFor[QueuePatch]()), "a queue", "queues", "limit=200KB"}
)

// namesOf returns the JSON keys of a type of patches.
func namesOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// parse reads assignments into a patch. After an error the patch has those before it.
func (s *settings) parse(patch reflect.Value, args []string) error {
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q sets nothing: write setting=value, such as %s", arg, s.example)
		}
		if err := s.setKey(patch, name, text); err != nil {
			return err
		}
	}
	return nil
}

// setKey sets one setting of a patch, and fails if it is set already.
func (s *settings) setKey(patch reflect.Value, name, text string) error {
	i := slices.Index(s.names, name)
	if i < 0 {
		for _, other := range []*settings{&linkSettings, &queueSettings} {
			if slices.Contains(other.names, name) {
				return fmt.Errorf("%s is a setting of %s: change links and queues one after the other", name, other.plural)
			}
		}
		return fmt.Errorf("there is no setting %q: %s", name, suggest.Hint(name, s.owner+" has", s.names))
	}
	field := patch.Field(i)
	if !field.IsNil() {
		return fmt.Errorf("%s is set twice", name)
	}
	value := reflect.New(field.Type().Elem())
	if err := parseSetting(value.Interface(), text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	field.Set(value)
	return nil
}

// parseSetting parses text into the setting that ptr points to.
func parseSetting(ptr any, text string) error {
	switch p := ptr.(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*p = text == "true"
		return nil
	}
	panic(fmt.Sprintf("change: cannot read a %T", ptr))
}

// format returns the assignments of a patch, joined by spaces.
func (s *settings) format(patch reflect.Value) string {
	var args []string
	for i, name := range s.names {
		if f := patch.Field(i); !f.IsNil() {
			args = append(args, fmt.Sprintf("%s=%v", name, f.Elem().Interface()))
		}
	}
	return strings.Join(args, " ")
}
