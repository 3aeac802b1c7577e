package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Access says where a NATS server is and how to log in.
type Access struct {
	// URL is nats://HOST:PORT, or several of them separated by commas. It may have
	// USER:PASSWORD@ or TOKEN@ before the host.
	URL            string
	Credentials    string // a credentials file (.creds: JWT and key)
	User, Password string
	Token          string
	CA             string // PEM file of the authority that signed the server's certificate, if the system does not know it
	Cert, Key      string // PEM files for client authentication, if the server asks for it

	// Timeout is for one request to the server; 0 means 20 s. It must be long enough to
	// send 512 KiB.
	Timeout time.Duration
	// Notice is called with a sentence for the user: the server is gone, it is back, a
	// worker is refused. It may be nil, and may be called from several goroutines.
	Notice func(string)
}

// ErrStorageFull is wrapped by errors of requests that could not store something on the
// server.
var ErrStorageFull = errors.New("the NATS server's storage is full: remove abandoned experiments or enlarge it")

// ErrCredentials is wrapped by errors about credentials that are missing or wrong.
var ErrCredentials = errors.New("the NATS server refused the credentials")

// Client is a connection to a server, for any number of workers and coordinators. It
// reconnects automatically when the server has been away.
type Client struct {
	access Access
	nc     *nats.Conn
	js     jetstream.JetStream
	packer *zstd.Encoder
	opener *zstd.Decoder

	// open ends when the connection is closed for good; its cause is the reason.
	open  context.Context
	close context.CancelCauseFunc
}

var errClosed = errors.New("the connection to the NATS server was closed")

// Dial connects to a server and checks that it has JetStream.
func Dial(ctx context.Context, access Access) (*Client, error) {
	if access.Timeout == 0 {
		access.Timeout = 20 * time.Second
	}
	where, err := hidePassword(access.URL)
	if err != nil {
		return nil, err
	}
	c := &Client{access: access}
	if c.packer, err = zstd.NewWriter(nil); err != nil {
		return nil, err
	}
	if c.opener, err = zstd.NewReader(nil); err != nil {
		return nil, err
	}
	c.open, c.close = context.WithCancelCause(context.Background())
	options, err := c.natsOptions()
	if err != nil {
		return nil, err
	}
	if c.nc, err = nats.Connect(access.URL, options...); err != nil {
		return nil, fmt.Errorf("%s: %w", where, explainConnect(err))
	}
	if maxPayload := c.nc.MaxPayload(); maxPayload < 2*pieceSize {
		c.Close()
		return nil, fmt.Errorf("%s: this NATS server takes messages of %d bytes: set its max_payload to %d or more", where, maxPayload, 2*pieceSize)
	}
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(access.Timeout)); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if _, err := c.js.AccountInfo(ctx); err != nil {
		c.Close()
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, nats.ErrNoResponders) {
			return nil, fmt.Errorf("%s: this NATS server has no JetStream (for this account): start it with -js, or enable it for the account: %w", where, jetstream.ErrJetStreamNotEnabled)
		}
		return nil, fmt.Errorf("%s: cannot ask for the state of JetStream: %w", where, err)
	}
	return c, nil
}

// Close closes the connection. Workers and coordinators that use it return an error.
func (c *Client) Close() {
	c.close(errClosed)
	c.nc.Close()
}

func (c *Client) logNotice(format string, args ...any) {
	if c.access.Notice != nil {
		c.access.Notice(fmt.Sprintf(format, args...))
	}
}

func (c *Client) natsOptions() ([]nats.Option, error) {
	a := c.access
	options := []nats.Option{
		nats.Name("weft"),
		nats.Timeout(a.Timeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond),
		// Detect a server that vanished without closing its connections.
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(3),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if c.open.Err() != nil {
				return
			}
			reason := ""
			if err != nil {
				reason = " (" + err.Error() + ")"
			}
			c.logNotice("lost the NATS server%s; trying to reach it again", reason)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.logNotice("the NATS server is back")
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			if err := nc.LastError(); err != nil {
				c.close(explainConnect(err))
			}
			c.close(errClosed)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if c.open.Err() == nil {
				c.logNotice("NATS: %v", err)
			}
		}),
	}
	if a.Credentials != "" {
		if _, err := os.Stat(a.Credentials); err != nil {
			return nil, fmt.Errorf("credentials file: %w", err)
		}
		options = append(options, nats.UserCredentials(a.Credentials))
	}
	if a.User != "" {
		options = append(options, nats.UserInfo(a.User, a.Password))
	}
	if a.Token != "" {
		options = append(options, nats.Token(a.Token))
	}
	if (a.Cert == "") != (a.Key == "") {
		return nil, errors.New("a client's certificate and its key go together: give both or none")
	}
	if a.CA != "" {
		options = append(options, nats.RootCAs(a.CA))
	}
	if a.Cert != "" {
		options = append(options, nats.ClientCert(a.Cert, a.Key))
	}
	return options, nil
}

// hidePassword returns a server's URL without the password.
func hidePassword(servers string) (string, error) {
	var all []string
	for server := range strings.SplitSeq(servers, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil || u.Hostname() == "" {
			return "", fmt.Errorf("%q is not the URL of a NATS server, such as nats://HOST:4222", servers)
		}
		u.User = nil
		all = append(all, u.String())
	}
	return strings.Join(all, ","), nil
}

// explainConnect adds advice to a connection error.
func explainConnect(err error) error {
	var unknown x509.UnknownAuthorityError
	var verification *tls.CertificateVerificationError
	var network net.Error
	var operation *net.OpError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("%w: %w", ErrCredentials, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the NATS server's certificate is from an unknown authority: give the authority's certificate (CA): %w", err)
	case errors.As(err, &verification):
		return fmt.Errorf("the NATS server's certificate does not fit: %w", err)
	// A server that wants another certificate says so or just closes the connection; which
	// of the two is a race.
	case errors.Is(err, nats.ErrTLS), errors.As(err, &operation) && operation.Op == "remote error":
		return fmt.Errorf("TLS with the NATS server failed; if it asks for clients' certificates, give one that it accepts (certificate and key): %w", err)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("the NATS server has no TLS, but the client asks for it: %w", err)
	case errors.Is(err, nats.ErrNoServers), errors.As(err, &network):
		return fmt.Errorf("cannot reach a NATS server there: is it running, and does a firewall let its port through? %w", err)
	}
	return err
}

// Error codes of JetStream that the client library does not name.
const (
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeResourceLimits        jetstream.ErrorCode = 10028
	codeInsufficientStorage   jetstream.ErrorCode = 10047
	codeStoreFailed           jetstream.ErrorCode = 10077
)

// apiCode returns the code of a JetStream error, or 0.
func apiCode(err error) jetstream.ErrorCode {
	var js jetstream.JetStreamError
	if errors.As(err, &js) && js.APIError() != nil {
		return js.APIError().ErrorCode
	}
	return 0
}

// isConflict reports whether a message was not stored because its subject already has one.
func isConflict(err error) bool {
	code := apiCode(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// wrapStorageError wraps JetStream errors about full storage in ErrStorageFull.
func wrapStorageError(err error) error {
	switch apiCode(err) {
	case codeInsufficientResources, codeResourceLimits, codeInsufficientStorage:
		return fmt.Errorf("%w (%w)", ErrStorageFull, err)
	case codeStoreFailed:
		if strings.Contains(err.Error(), "no space") || strings.Contains(err.Error(), "maximum bytes") {
			return fmt.Errorf("%w (%w)", ErrStorageFull, err)
		}
	}
	return err
}

// errGone means that an experiment's streams no longer exist.
var errGone = errors.New("the experiment is not on the server any more")

// requestOnce makes one request, limited to the client's timeout.
func (c *Client) requestOnce(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.access.Timeout)
	defer cancel()
	return wrapStorageError(do(ctx))
}

// retryRequest repeats a request for an experiment until it succeeds, ctx ends, the experiment
// is gone (errGone), or the error is permanent. The trouble function, which may be nil, is
// called with each temporary error, and with nil when it is over.
func (c *Client) retryRequest(ctx context.Context, experiment string, trouble func(error), do func(context.Context) error) error {
	told := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := c.requestOnce(ctx, do)
		if err == nil {
			if told {
				trouble(nil)
			}
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case c.open.Err() != nil:
			return context.Cause(c.open)
		case isConflict(err), errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, nats.ErrMaxPayload),
			apiCode(err) == jetstream.JSErrCodeStreamMessageExceedsMaximum:
			return err
		}
		if c.nc.IsConnected() && c.isExperimentGone(ctx, experiment) {
			return errGone
		}
		if trouble != nil {
			told = true
			trouble(err)
		}
		select {
		case <-ctx.Done():
		case <-c.open.Done():
		case <-time.After(wait):
		}
	}
}

// isExperimentGone reports whether the server no longer has an experiment's stream. If the server does
// not answer, the stream may still exist.
func (c *Client) isExperimentGone(ctx context.Context, experiment string) bool {
	err := c.requestOnce(ctx, func(ctx context.Context) error {
		_, err := c.js.Stream(ctx, streamName(experiment))
		return err
	})
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

// publishOnce stores a message if its subject has none yet.
func (c *Client) publishOnce(ctx context.Context, m *nats.Msg) error {
	_, err := c.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithRetryAttempts(0))
	return err
}

// quiet is how long gather waits for another answer.
const quiet = 500 * time.Millisecond

// gatherAnswers sends a question to all subscribers of a subject and returns their answers, until
// no more come or enough returns true.
func gatherAnswers[T any](ctx context.Context, nc *nats.Conn, subject string, question any, timeout time.Duration, enough func(T) bool) ([]T, error) {
	data, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(subject, inbox, data); err != nil {
		return nil, err
	}
	var answers []T
	for {
		limit, cancel := context.WithTimeout(ctx, timeout)
		m, err := sub.NextMsgWithContext(limit)
		cancel()
		switch {
		case ctx.Err() != nil:
			return answers, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return answers, nil
		case err != nil:
			return answers, err
		}
		var answer T
		if json.Unmarshal(m.Data, &answer) != nil {
			continue
		}
		answers = append(answers, answer)
		if enough != nil && enough(answer) {
			return answers, nil
		}
	}
}

// ListWorkers asks which workers exist. It returns half a second after the last answer.
func (c *Client) ListWorkers(ctx context.Context) ([]WorkerStatus, error) {
	workers, err := gatherAnswers[WorkerStatus](ctx, c.nc, askWorkersSubject, struct{}{}, quiet, nil)
	sortWorkers(workers)
	return workers, err
}

// publishJSON sends a message that may get lost.
func (c *Client) publishJSON(subject string, v any) {
	if data, err := json.Marshal(v); err == nil && subject != "" {
		c.nc.Publish(subject, data)
	}
}

// fromJSON decodes what publishJSON sent.
func fromJSON(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }

// wakeReader wakes the reader of a channel with a buffer of one.
func wakeReader(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
