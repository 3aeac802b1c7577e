package labfile

import (
	"errors"
	"reflect"

	"github.com/goccy/go-yaml/ast"

	_ "github.com/weftlab/weft/emu/systems" // so that a file can name them
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
)

// requiredKeys returns the keys of a type that a file must contain.
func requiredKeys(t reflect.Type) (keys []string) {
	for _, f := range yamlfile.FieldsOf(t) {
		if f.Required {
			keys = append(keys, f.Name)
		}
	}
	return keys
}

// overlaySettings copies the parameters of from that are set in the file to to, with their places. Both
// are settings of one system.
func overlaySettings(r *yamlfile.Reader, to, from any) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, f := range yamlfile.FieldsOf(a.Type()) {
		value := b.FieldByIndex(f.Index)
		if at := r.Place(value.Addr().Interface()); at != nil {
			a.FieldByIndex(f.Index).Set(value)
			place := a.FieldByIndex(f.Index).Addr().Interface()
			r.SetPlace(place, at)
			if c, ok := place.(*cc.Choice); ok {
				keepControl(r, c, ControlOf(r, value.Addr().Interface().(*cc.Choice)).JoinChoice(r, ControlOf(r, c)))
			}
		}
	}
}

// readControl reads a rate control that is a setting of another system. It can be resolved only
// when the rate of the link is known.
func readControl(r *yamlfile.Reader, c *cc.Choice, n ast.Node, what string) {
	f := &Control{}
	r.SetPlace(f, n)
	f.DecodeNode(r, n, what)
	keepControl(r, c, f)
}

// keepControl stores what the file says about a rate control that is a setting of another
// system.
func keepControl(r *yamlfile.Reader, c *cc.Choice, f *Control) { r.StoreWith(c, f) }

// ControlOf returns what keepControl stored, or nil.
func ControlOf(r *yamlfile.Reader, c *cc.Choice) *Control {
	f, _ := r.StoredWith(c).(*Control)
	return f
}

// ReportSettings reports what is wrong with the settings of a system: at the parameter, or at the
// first of places that is in the file.
func ReportSettings(r *yamlfile.Reader, name string, settings any, err error, places ...any) {
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var bad *registry.RangeError
		var unfit *registry.UnfitError
		if errors.As(err, &bad) {
			r.ReportFault(r.FirstSet(append([]any{findParameter(settings, bad.Key)}, places...)...), "give "+bad.Fix, "%s: %v is out of range", bad.Key, bad.Value)
		} else if errors.As(err, &unfit) {
			r.ReportFault(r.FirstSet(append([]any{findParameter(settings, unfit.Key)}, places...)...), unfit.Fix, "%s", unfit.Why)
		} else {
			r.ReportFault(r.FirstSet(places...), "", "%s: %v", name, err)
		}
	}
}

// findParameter returns a pointer to the parameter of settings with the given key.
func findParameter(settings any, key string) any {
	v := reflect.ValueOf(settings).Elem()
	for _, f := range yamlfile.FieldsOf(v.Type()) {
		if f.Name != key {
			continue
		}
		if p := v.FieldByIndex(f.Index); p.Kind() == reflect.Pointer {
			return p.Interface() // an optional parameter: the place belongs to what it points to
		}
		return v.FieldByIndex(f.Index).Addr().Interface()
	}
	return nil
}

// blankSettings returns settings of the same type with nothing set.
func blankSettings(settings any) any { return reflect.New(reflect.TypeOf(settings).Elem()).Interface() }
