package lab

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/sim/units"
)

// served returns a server with the control socket's handler, for a lab that has
// a fabric and an engine but no hosts, which needs no privileges.
func served(t *testing.T) *httptest.Server {
	t.Helper()
	p, err := resolve.Parse("api.yaml", []byte("engine: {realtime: off}\ntopology: {generate: {star: {hosts: 2, rate: 1Gbps}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.NewSharded(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{plan: p, fabric: f, clock: wall.NewClock(1), stopped: make(chan struct{}), captures: map[int]func(){}}
	if err := l.makeEngines(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.runEngines(ctx, units.Never, func() { close(started) }); err != nil {
			t.Error(err)
		}
	}()
	<-started
	s := httptest.NewServer((&server{lab: l}).makeRoutes())
	t.Cleanup(func() {
		stop()
		<-ended
		s.Close()
	})
	return s
}

// call sends a request and returns the status, the text of the error, and the body.
func call(t *testing.T, s *httptest.Server, request, body string) (code int, said, all string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	q, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var e errorBody
	if r.StatusCode != http.StatusOK {
		if err := json.Unmarshal(b, &e); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s: the error is not JSON: %s", request, r.Status, b)
		}
	}
	return r.StatusCode, e.Error, string(b)
}

// Each is answered with the right status and a readable text, and nothing changes.
func TestServer_ExplainsBadRequests(t *testing.T) {
	s := served(t)
	_, _, before := call(t, s, "GET /v1/ports/s1:h1", "")
	for _, c := range []struct {
		request, body string
		code          int
		want          string
	}{
		{"PATCH /v1/links/s1:h1", `{"loss": "1%"} {"loss": "2%"}`, 400, "unexpected data after the object"},
		{"PATCH /v1/links/s1:h1", `{"loss": "1%"}x`, 400, "unexpected data after the object"},
		{"PATCH /v1/links/s1:h1", `{"loss": "1%", "loss": "2%"}`, 400, "loss is set twice"},
		{"PATCH /v1/links/s1:h1", `{"loss": 1}`, 400, `loss: "1" may mean 1% or 100%`},
		{"PATCH /v1/links/s1:h1", `{"loss": ["1%"]}`, 400, "loss must be a single value, not a list"},
		{"PATCH /v1/links/s1:h1", `{"loss": {}}`, 400, "loss must be a single value, not an object"},
		{"PATCH /v1/links/s1:h1", `{"loss": null}`, 400, "loss must be a single value, not null"},
		{"PATCH /v1/links/s1:h1", `{"rate": true}`, 400, `rate: "true" does not begin with a number`},
		{"PATCH /v1/links/s1:h1", `{"delay": "5"}`, 400, `delay: "5" has no unit`},
		{"PATCH /v1/links/s1:h1", `{"jitter-reorder": "maybe"}`, 400, "neither true nor false"},
		{"PATCH /v1/links/s1:h1", `{"state": 7}`, 400, "must be one of up, down"},
		{"PATCH /v1/links/s1:h1", `{"los": "1%"}`, 400, `there is no setting "los": did you mean "loss"?`},
		{"PATCH /v1/links/s1:h1", `{"LOSS": "1%"}`, 400, `there is no setting "LOSS"`},
		{"PATCH /v1/links/s1:h1", `["loss"]`, 400, "a list cannot change a link: write an object"},
		{"PATCH /v1/links/s1:h1", `"loss=1%"`, 400, "a string cannot change a link"},
		{"PATCH /v1/links/s1:h1", `null`, 400, "null cannot change a link"},
		{"PATCH /v1/links/s1:h1", ``, 400, "empty input: write an object"},
		{"PATCH /v1/links/s1:h1", `{"loss": "1%"`, 400, "the JSON object is incomplete"},
		{"PATCH /v1/links/s1:h1", `{"loss"}`, 400, "invalid JSON at byte"},
		{"PATCH /v1/links/s1:h1", `{"loss": "` + strings.Repeat("1", maxBody) + `"}`, 413, "longer than 65536 bytes"},
		{"PATCH /v1/links/s1:h1", `{"reorder": "1%"}`, 400, "reorder needs reorder-by"},
		{"PATCH /v1/links/s1:h1?direction=up", `{}`, 400, `"up" is not a direction`},
		{"PATCH /v1/links/s1:h1?dir=out", `{"loss": "1%"}`, 400, `no parameter "dir": it takes direction`},
		{"PATCH /v1/links/s1:h9", `{}`, 404, `s1 has no port "h9"`},
		{"PATCH /v1/links/s1", `{}`, 404, "write node:port"},
		{"PATCH /v1/queues/s1:h1", `{"limit": "1KB"}`, 400, "limit 1KB is less than one packet"},
		{"PATCH /v1/queues/s1:h1", `{"xoff": "100KB"}`, 400, "xoff needs a class with pfc"},
		{"PATCH /v1/queues/s1:h1", `{"loss": "1%"}`, 400, "loss is a setting of links"},
		{"PATCH /v1/queues/s1:h1?class=roce", `{"limit": "100KB"}`, 400, `s1:h1 has one plain queue and no class "roce"`},
		{"PATCH /v1/queues/s1:h9", `{}`, 404, `s1 has no port "h9"`},
		{"GET /v1/queues/s1:h1", ``, 405, "/v1/queues/s1:h1 does not take GET: it takes PATCH"},
		{"GET /v1/links/s1:h1", ``, 405, "/v1/links/s1:h1 does not take GET: it takes PATCH"},
		{"POST /v1/ports", ``, 405, "it takes GET, HEAD"},
		{"GET /v1/port", ``, 404, "there is no /v1/port"},
		{"GET /v2/lab", ``, 404, "there is no /v2/lab"},
		{"GET /v1/ports?port=s1:h1", ``, 400, `no parameter "port": it takes none`},
		{"GET /v1/ports/x:1", ``, 404, `there is no node "x"`},
		{"GET /v1/ports/x:1/pause", ``, 404, `there is no node "x"`},
		{"GET /v1/tables/h1", ``, 404, `there is no switch "h1"`},
		{"GET /v1/nics/h1", ``, 404, "h1"},
		{"GET /v1/nics/h9/qps", ``, 404, "h9"},
		{"GET /v1/edges/h9", ``, 404, "h9"},
		{"GET /v1/edges/h1", ``, 404, "h1 has no edge service"},
		{"GET /v1/edges/s1", ``, 404, "s1 is a switch"},
		{"GET /v1/capture", ``, 400, "at least one port"},
		{"GET /v1/capture?port=s1:9", ``, 404, `s1 has no port "9"`},
		{"GET /v1/capture?port=s1:h1&direction=up", ``, 400, `"up" is not a direction`},
		{"GET /v1/capture?port=s1:h1&snaplen=-1", ``, 400, `snaplen "-1" is not a number`},
		{"GET /v1/capture?port=s1:h1&count=x", ``, 400, `count "x" is not a number`},
		{"GET /v1/capture?port=s1:h1&filter=)", ``, 400, "filter"},
		{"DELETE /v1/capture/1", ``, 404, `there is no capture "1", or it has ended`},
		{"DELETE /v1/capture/x", ``, 404, `there is no capture "x"`},
		{"POST /v1/hosts/h1/agent", ``, 404, `there is no virtual machine "h1"`},
	} {
		code, said, _ := call(t, s, c.request, c.body)
		if code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%s %.60s: %d, %q; want %d, %q", c.request, c.body, code, said, c.code, c.want)
		}
		for _, leak := range []string{"json:", "Go ", "struct", "labfile.", "resolve.", "change.Link", "plan.", "units.", "strconv", "http:"} {
			if strings.Contains(said, leak) {
				t.Errorf("%s %.60s: %q names Go's types", c.request, c.body, said)
			}
		}
	}
	if _, _, after := call(t, s, "GET /v1/ports/s1:h1", ""); after != before {
		t.Errorf("the port was\n%sand became\n%s", before, after)
	}
}

// Values are strings as in the lab file, or bare values where the file allows them.
func TestServer_SetsLinksAsInTheFile(t *testing.T) {
	s := served(t)
	code, said, _ := call(t, s, "PATCH /v1/links/s1:h1?direction=out", ` {"loss": 0.25, "mtu": 9000, "jitter": "1ms", "jitter-reorder": true, "delay": 0} `+"\n")
	if code != http.StatusOK {
		t.Fatalf("%d, %s", code, said)
	}
	_, _, body := call(t, s, "GET /v1/ports/s1:h1", "")
	var p status.Port
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	if k := p.Link; k.Loss != 0.25 || k.MTU != 9000 || k.Jitter != units.Millisecond || !k.JitterReorder || k.Delay != 0 {
		t.Errorf("the link is %+v", *k)
	}
	if code, said, _ := call(t, s, "PATCH /v1/links/s1:h1", "{}"); code != http.StatusOK {
		t.Errorf("no change: %d, %s", code, said)
	}
}

// TestServer_SetsQueuesAsInTheFile: the answer is the port as it is then.
func TestServer_SetsQueuesAsInTheFile(t *testing.T) {
	s := served(t)
	code, said, body := call(t, s, "PATCH /v1/queues/s1:h1", `{"limit": "123KB"}`)
	var p status.Port
	if err := json.Unmarshal([]byte(body), &p); code != http.StatusOK || err != nil || p.QueueLimit != 123*units.KB {
		t.Errorf("%d, %s: %v, limit %v", code, said, err, p.QueueLimit)
	}
}

// A capture is ended once, by its number.
func TestServer_EndsACaptureOnce(t *testing.T) {
	s := served(t)
	r, err := http.Get(s.URL + "/v1/capture?port=s1:h1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	id := r.Header.Get(captureID)
	if code, said, _ := call(t, s, "DELETE /v1/capture/"+id, ""); code != http.StatusOK {
		t.Errorf("capture %s: %d, %s", id, code, said)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Trailer.Get(captureTrailer) == "" {
		t.Errorf("the stream is not whole: %v", err)
	}
	if code, _, _ := call(t, s, "DELETE /v1/capture/"+id, ""); code != http.StatusNotFound {
		t.Errorf("once more: %d", code)
	}
}
