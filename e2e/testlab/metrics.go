package testlab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weftlab/weft/emu/status"
)

// Metrics are the values of a scrape, by name and labels.
type Metrics map[string]float64

// MetricKey returns the key of a metric of a port.
func (l *Lab) MetricKey(name string, p *status.Port, more string) string {
	return fmt.Sprintf("%s lab=%s node=%s port=%s%s", name, l.Name, p.Node, p.Name, more)
}

// Scrape reads metrics as Prometheus does.
func Scrape(t *testing.T, client *http.Client, url string) Metrics {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, r.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := Metrics{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			if _, ok := out[key]; ok {
				t.Errorf("%s is there twice", key)
			}
			out[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// SocketClient returns a client of a lab's control socket.
func SocketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// MetricsURL matches the address of its metrics that weft up prints.
var MetricsURL = regexp.MustCompile(`(?m)^metrics: (http://127\.0\.0\.1:\d+)/metrics$`)
