package lab

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weftlab/weft/emu/metrics"
)

// ServeMetrics makes Run answer GET /metrics on a separate listener, for
// Prometheus; it serves nothing else of the control socket. Run closes the
// listener. ServeMetrics is called before Run.
func (l *Lab) ServeMetrics(on net.Listener) { l.metrics = on }

// serveMetrics answers scrapes until closeMetrics.
func (l *Lab) serveMetrics(warn func(error)) {
	if l.metrics == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metrics.Path, metrics.Handler(l.Sample))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	if err := s.Serve(l.metrics); err != nil && !errors.Is(err, net.ErrClosed) {
		warn(fmt.Errorf("metrics: %w", err))
	}
}

func (l *Lab) closeMetrics() {
	if l.metrics != nil {
		l.metrics.Close()
	}
}
