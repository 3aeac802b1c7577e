package status

import (
	"encoding/json"
	"testing"

	"github.com/weftlab/weft/nicemu/qp"
)

// TestNICCounters_IgnoreUnknownNames: a client reads the counters of another version of weft.
func TestNICCounters_IgnoreUnknownNames(t *testing.T) {
	var c NICCounters
	if err := json.Unmarshal([]byte(`{"np_cnp_sent":5,"of_a_later_version":7}`), &c); err != nil || c.Of("np_cnp_sent") != 5 || c.Of("of_a_later_version") != 0 {
		t.Errorf("%v %v", c, err)
	}
}

// TestQPStates_NameAllStates: JSON has each state, in the order of the states, and can be
// read back.
func TestQPStates_NameAllStates(t *testing.T) {
	var s, back QPStates
	s[qp.RTS], s[qp.Err] = 3, 1
	text, err := json.Marshal(s)
	if want := `{"RESET":0,"INIT":0,"RTR":0,"RTS":3,"SQD":0,"SQE":0,"ERR":1}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	if err := json.Unmarshal(text, &back); err != nil || back != s || back.Total() != 4 {
		t.Errorf("%v read as %v, %v", s, back, err)
	}
}
