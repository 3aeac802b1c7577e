package rootless

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestMetricsRootless: a rootless lab has its own network, and its metrics are
// on the machine's.
func TestMetricsRootless(t *testing.T) {
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
	c := l.Command("up", "--for", "60s", "--metrics", "127.0.0.1:0", l.File)
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c.Stdout = out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Signal(os.Interrupt); _ = c.Wait() }()
	for range 300 {
		text, _ := os.ReadFile(out.Name())
		if found = testlab.MetricsURL.FindStringSubmatch(string(text)); found != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if found == nil {
		t.Fatal("up does not say where the metrics are")
	}
	if s := testlab.Scrape(t, &http.Client{}, found[1]+"/metrics"); len(s) == 0 {
		t.Error("no metrics")
	}
}
