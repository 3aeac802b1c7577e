package nicemu

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/bbr"
	"github.com/weftlab/weft/protocols/cc"
)

// TestNoDeliveryRates: a NIC takes no samples of the delivery rate, and reports so.
func TestNoDeliveryRates(t *testing.T) {
	c := bbr.Preset("v1")
	_, err := New(Settings{MTU: qp.MTU1024, Limits: qp.ConnectX5(), Control: cc.Choice{Name: "bbr", Settings: &c}}, Env{Name: "h1:eth0"})
	if err == nil || !strings.Contains(err.Error(), "bbr needs samples of the delivery rate") {
		t.Errorf("a NIC with bbr: %v", err)
	}
}
