package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weftlab/weft/emu/report"
)

// Path is where Prometheus looks.
const Path = "/metrics"

// freshness is for how long a sample answers further scrapes. It bounds what
// scrapers, however many and eager, cost the engine, which stands still while
// a sample is taken.
const freshness = 100 * time.Millisecond

// Handler answers scrapes, each from one sample; no more than ten are taken in
// a second. An error of take, which says that the lab is ending, is answered
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
