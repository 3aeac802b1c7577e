package plan

import (
	"fmt"
	"reflect"
	"strings"
)

// Text names what p sets, as weft set takes it: "rate=1Gbps loss=1%". It is empty if
// that is nothing.
func (p LinkPatch) Text() string {
	v := reflect.ValueOf(p)
	var all []string
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			all = append(all, fmt.Sprintf("%s=%v", name, f.Elem().Interface()))
		}
	}
	return strings.Join(all, " ")
}
