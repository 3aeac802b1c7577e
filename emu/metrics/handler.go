package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weftlab/weft/emu/report"
)

// Path is the path that Prometheus scrapes.
const Path = "/metrics"

// freshness is how long a sample is reused for further scrapes. It limits the
// cost to the engine, which stands still while a sample is taken, for any
// number of scrapers.
const freshness = 100 * time.Millisecond

// Handler answers scrapes, each from one sample; at most ten samples are taken
// per second. An error of take, which means that the lab is ending, is answered
// with 503 Service Unavailable.
func Handler(take func() (*report.Sample, error)) http.Handler {
	var (
		mu     sync.Mutex
		last   *report.Sample
		expiry time.Time
	)
	fresh := func() (*report.Sample, error) {
		mu.Lock()
		defer mu.Unlock()
		if last != nil && time.Now().Before(expiry) {
			return last, nil
		}
		s, err := take()
		if err != nil {
			return nil, err
		}
		last, expiry = s, time.Now().Add(freshness)
		return s, nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := fresh()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(New(s))
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
	})
}
