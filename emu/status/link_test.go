package status

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weftlab/weft/links"
)

// TestLink_SpellsItsState: JSON has the words of the lab file.
func TestLink_SpellsItsState(t *testing.T) {
	for state, want := range map[links.State]string{links.Up: `"state":"up"`, links.Down: `"state":"down"`} {
		text, err := json.Marshal(Link{State: state})
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, %v; want %s", text, err, want)
		}
		var back Link
		if err := json.Unmarshal(text, &back); err != nil || back.State != state {
			t.Errorf("%s read as %v, %v", text, back.State, err)
		}
	}
}
