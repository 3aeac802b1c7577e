package resolve

import (
	"encoding"
	"testing"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
)

// TestWordsOfTheFileAreThoseOfThePlan: the plan has the words of enumerations in the order
// of the file, and one attachment more, which is a kind of node in the file.
func TestWordsOfTheFileAreThoseOfThePlan(t *testing.T) {
	check := func(names []string, read func(text string) (uint8, error)) {
		t.Helper()
		for i, name := range names {
			if got, err := read(name); err != nil || int(got) != i {
				t.Errorf("%s is %d in the file, %d in the plan, %v", name, got, i, err)
			}
		}
	}
	check(plan.AttachNames[:plan.Guest], value[labfile.Attach])
	check(plan.OffloadNames, value[labfile.Offload])
	check(plan.RealtimeNames, value[labfile.Realtime])
	check(plan.IONames, value[labfile.IO])
}

func value[T ~uint8, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) (uint8, error) {
	var v T
	err := P(&v).UnmarshalText([]byte(text))
	return uint8(v), err
}
