package rootless

import (
	"net/http"
	"os"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestMetrics_AreOnTheMachine: a rootless lab has its own network, and its metrics are on the
// machine's.
func TestMetrics_AreOnTheMachine(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, testlab.TwoHosts)
	found := testlab.MetricsURL.FindStringSubmatch(l.Must("up", "-d", "--metrics", "127.0.0.1:0", l.File))
	if found == nil {
		t.Fatal("up does not say where the metrics are")
	}
	if s := testlab.Scrape(t, &http.Client{}, found[1]+"/metrics"); s["weft_lab_emulated_seconds_total lab="+l.Name] <= 0 {
		t.Errorf("the metrics of %s: %v", l.Name, s)
	}
	l.Down()
	// In the foreground another process passes the socket on.
	c := l.Command("up", "--for", "10min", "--metrics", "127.0.0.1:0", l.File)
	p := testlab.Launch(t, c)
	p.Await(t, "it says where the metrics are", func() bool {
		found = testlab.MetricsURL.FindStringSubmatch(p.Out.String())
		return found != nil
	})
	if s := testlab.Scrape(t, &http.Client{}, found[1]+"/metrics"); len(s) == 0 {
		t.Error("no metrics")
	}
	_ = c.Process.Signal(os.Interrupt)
	if err := p.WaitEnd(t); err != nil {
		t.Errorf("%v\n%s", err, &p.Out)
	}
}
