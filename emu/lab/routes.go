package lab

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/metrics"
)

// maxBody is the longest body of a request, in bytes.
const maxBody = 1 << 16

// makeRoutes returns the handler of the control socket. docs/api.md describes it.
func (s *server) makeRoutes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range []struct {
		pattern string
		answer  http.HandlerFunc
		query   []string // accepted parameters
	}{
		{"GET /v1/lab", s.getLab, nil},
		{"GET /v1/report", s.getReport, nil},
		{"GET /v1/sample", s.getSample, nil},
		{"GET /v1/ports", s.getPorts, nil},
		{"GET /v1/ports/{endpoint}", s.getPort, nil},
		{"GET /v1/ports/{endpoint}/pause", s.getPause, nil},
		{"GET /v1/nics", s.getNICs, nil},
		{"GET /v1/nics/{name}", s.getNICs, nil},
		{"GET /v1/qps", s.getQPs, nil},
		{"GET /v1/nics/{name}/qps", s.getQPs, nil},
		{"GET /v1/edges", s.getEdges, nil},
		{"GET /v1/edges/{name}", s.getEdges, nil},
		{"GET /v1/tables/{switch}", s.getTable, nil},
		{"PATCH /v1/links/{endpoint}", s.patchLink, []string{"direction"}},
		{"PATCH /v1/queues/{endpoint}", s.patchQueue, []string{"class"}},
		{"GET /v1/capture", s.getCapture, []string{"port", "direction", "filter", "snaplen", "count"}},
		{"DELETE /v1/capture/{id}", s.deleteCapture, nil},
		{"POST /v1/hosts/{host}/agent", s.postAgent, nil},
		{"POST /v1/down", s.postDown, nil},
	} {
		mux.HandleFunc(r.pattern, withQuery(r.query, r.answer))
	}
	mux.Handle("GET "+metrics.Path, metrics.Handler(s.lab.Sample))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, pattern := mux.Handler(r); pattern == "" {
			refuseUnknown(w, r, h)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// withQuery refuses query parameters that would have no effect: a misspelt
// direction would change both.
func withQuery(known []string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for name := range r.URL.Query() {
			if slices.Contains(known, name) {
				continue
			}
			takes := "it takes none"
			if len(known) > 0 {
				takes = "it takes " + strings.Join(known, ", ")
			}
			writeError(w, http.StatusBadRequest, fmt.Errorf("%s %s has no parameter %q: %s", r.Method, r.URL.Path, name, takes))
			return
		}
		answer(w, r)
	}
}

// refuseUnknown answers requests without a route, in JSON like all other errors. The
// multiplexer's own handler knows whether the path or the method is wrong.
func refuseUnknown(w http.ResponseWriter, r *http.Request, h http.Handler) {
	own := &headerOnly{header: http.Header{}}
	h.ServeHTTP(own, r)
	if own.status != http.StatusMethodNotAllowed {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is no %s: docs/api.md lists all paths", r.URL.Path))
		return
	}
	allowed := own.header.Get("Allow")
	w.Header().Set("Allow", allowed)
	writeError(w, own.status, fmt.Errorf("%s does not take %s: it takes %s", r.URL.Path, r.Method, allowed))
}

// headerOnly keeps only the status and the header of an answer.
type headerOnly struct {
	header http.Header
	status int
}

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) WriteHeader(status int)      { h.status = status }
func (h *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
