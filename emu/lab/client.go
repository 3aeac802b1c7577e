package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/observe/capture"
)

// Client talks to a running lab through its control socket. Every request has a
// time limit: a NoAnswerError means that the lab's process exists but does not answer.
type Client struct {
	http http.Client

	name  string       // of the lab
	pid   atomic.Int32 // of the lab's process, known after the first connection
	limit time.Duration
}

// NewClient returns a client of the lab with this state directory.
func NewClient(dir string) *Client {
	c := &Client{name: filepath.Base(dir), limit: answerLimit}
	path := filepath.Join(dir, SocketName)
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dialSocket(ctx, path) }}
	return c
}

// callAPI sends a request and decodes the answer into out.
func (c *Client) callAPI(ctx context.Context, method, path string, in, out any) error {
	return c.callWithoutLimit(ctx, true, method, path, in, out)
}

// callWithoutLimit is like call, but without a time limit on the answer if limited is false.
func (c *Client) callWithoutLimit(ctx context.Context, limited bool, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	p := c.awaitAnswer(ctx, limited)
	defer p.endRequest()
	r, err := c.openResponse(p, method, path, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(out); err != nil {
		if p.Err() != nil {
			return context.Cause(p)
		}
		return fmt.Errorf("the lab's answer cannot be read (it may run another version of weft): %w", err)
	}
	return nil
}

// openResponse sends a request and turns an answer without success into an error.
func (c *Client) openResponse(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, body)
	if err != nil {
		return nil, err
	}
	return c.sendRequest(q, http.StatusOK)
}

// sendRequest sends a request whose status on success is given.
func (c *Client) sendRequest(q *http.Request, success int) (*http.Response, error) {
	r, err := c.http.Do(q)
	if err != nil {
		if q.Context().Err() != nil {
			return nil, context.Cause(q.Context())
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the address is made up and tells the user nothing
		}
		if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w, or is not up yet: its control socket: %w", status.ErrEnded, err)
		}
		return nil, fmt.Errorf("the lab's control socket: %w", err)
	}
	if r.StatusCode == success {
		return r, nil
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusGone {
		return nil, status.ErrEnded
	}
	var e errorBody
	if json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&e) != nil || e.Error == "" {
		e.Error = r.Status
	}
	return nil, &RequestError{Status: r.StatusCode, Text: e.Error}
}

// RequestError is a lab's refusal of a request.
type RequestError struct {
	Status int    // of HTTP
	Text   string // why, as the lab says it
}

// Error implements error.
func (e *RequestError) Error() string { return e.Text }

// BadInput reports whether the request itself is wrong: it names what the lab does not
// have, or sets what cannot be. Otherwise the lab cannot do it now.
func (e *RequestError) BadInput() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}

// Status returns the status of the lab.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.callAPI(ctx, http.MethodGet, "/v1/lab", nil, &s)
}

// Sample returns a sample of the lab, cheap enough to request every second.
// status.ErrEnded means that the lab is gone.
func (c *Client) Sample(ctx context.Context) (*report.Sample, error) {
	s := &report.Sample{}
	return s, c.callAPI(ctx, http.MethodGet, "/v1/sample", nil, s)
}

// Report returns the report of the run so far.
func (c *Client) Report(ctx context.Context) (*report.Report, error) {
	r := &report.Report{}
	return r, c.callAPI(ctx, http.MethodGet, "/v1/report", nil, r)
}

// Ports returns the status of every port.
func (c *Client) Ports(ctx context.Context) (p []status.Port, err error) {
	return p, c.callAPI(ctx, http.MethodGet, "/v1/ports", nil, &p)
}

// CheckPause explains why a port of a switch did or did not pause its peer.
func (c *Client) CheckPause(ctx context.Context, endpoint string) (p status.PauseCheck, err error) {
	return p, c.callAPI(ctx, http.MethodGet, "/v1/ports/"+url.PathEscape(endpoint)+"/pause", nil, &p)
}

// NICs returns the NICs of a host, or the NIC of an interface; "" means all.
func (c *Client) NICs(ctx context.Context, name string) (n []status.NIC, err error) {
	path := "/v1/nics"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return n, c.callAPI(ctx, http.MethodGet, path, nil, &n)
}

// QPs returns the queue pairs of a host's NICs, or of an interface's NIC; "" means all.
func (c *Client) QPs(ctx context.Context, name string) (q []status.QP, err error) {
	path := "/v1/qps"
	if name != "" {
		path = "/v1/nics/" + url.PathEscape(name) + "/qps"
	}
	return q, c.callAPI(ctx, http.MethodGet, path, nil, &q)
}

// EdgeFlows returns the flows known to the edge services of a host, or to that of an
// interface; "" means all.
func (c *Client) EdgeFlows(ctx context.Context, name string) (f []status.EdgeFlow, err error) {
	path := "/v1/edges"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return f, c.callAPI(ctx, http.MethodGet, path, nil, &f)
}

// Table returns a switch's forwarding table.
func (c *Client) Table(ctx context.Context, name string) (t Table, err error) {
	return t, c.callAPI(ctx, http.MethodGet, "/v1/tables/"+url.PathEscape(name), nil, &t)
}

// Set changes the link at an endpoint, in a direction as seen from it.
func (c *Client) Set(ctx context.Context, endpoint, direction string, p change.LinkPatch) (s SetResult, err error) {
	return s, c.callAPI(ctx, http.MethodPatch, "/v1/links/"+url.PathEscape(endpoint)+"?direction="+url.QueryEscape(direction), p, &s)
}

// SetQueue changes the queue of a class of a port, "" for a port with one, and returns the
// port's state.
func (c *Client) SetQueue(ctx context.Context, endpoint, class string, p change.QueuePatch) (s status.Port, err error) {
	return s, c.callAPI(ctx, http.MethodPatch, "/v1/queues/"+url.PathEscape(endpoint)+"?class="+url.QueryEscape(class), p, &s)
}

// Down ends the lab and returns its final report. That may take long; only ctx
// limits the time.
func (c *Client) Down(ctx context.Context) (*report.Report, error) {
	r := &report.Report{}
	return r, c.callWithoutLimit(ctx, false, http.MethodPost, "/v1/down", nil, r)
}

// CaptureRequest says what to capture.
type CaptureRequest struct {
	Ports     []string // "s1:3"
	Direction string   // Both, Egress or Ingress
	SnapLen   int      // bytes of each packet; 0 means all
	Count     uint64   // packets after which to end; 0 means no limit
	Filter    string   // in tcpdump's syntax
}

// Capture copies a capture to w until ctx ends, the lab ends or Count is
// reached; the stream is complete, with its statistics, in each case.
func (c *Client) Capture(ctx context.Context, q CaptureRequest, w io.Writer) (s capture.Summary, err error) {
	v := url.Values{"port": q.Ports, "direction": {q.Direction}, "filter": {q.Filter}}
	if q.SnapLen > 0 {
		v.Set("snaplen", strconv.Itoa(q.SnapLen))
	}
	if q.Count > 0 {
		v.Set("count", strconv.FormatUint(q.Count, 10))
	}
	background := context.WithoutCancel(ctx)
	p := c.awaitAnswer(background, true)
	defer p.endRequest()
	r, err := c.openResponse(p, http.MethodGet, "/v1/capture?"+v.Encode(), nil)
	if err != nil {
		return s, err
	}
	p.endWait()
	defer r.Body.Close()
	defer context.AfterFunc(ctx, func() {
		var none struct{}
		err := c.callAPI(background, http.MethodDelete, "/v1/capture/"+r.Header.Get(captureID), nil, &none)
		if silent := (*NoAnswerError)(nil); errors.As(err, &silent) {
			p.cancel(err)
		}
	})()
	if _, err := io.Copy(w, r.Body); err != nil {
		if p.Err() != nil {
			return s, fmt.Errorf("the capture was cut short: %w", context.Cause(p))
		}
		return s, err
	}
	if err := json.Unmarshal([]byte(r.Trailer.Get(captureTrailer)), &s); err != nil {
		return s, errors.New("the capture was cut short")
	}
	return s, nil
}
