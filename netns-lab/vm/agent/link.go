package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrLost means that the guest no longer answers: it has ended or restarted.
var ErrLost = errors.New("the guest has shut down or restarted")

// Link forwards frames between a guest's agent and any number of sessions.
type Link struct {
	stream io.ReadWriteCloser
	writes sync.Mutex

	mu       sync.Mutex
	number   uint64        // of the greeting
	ready    chan struct{} // closed when the agent has answered it
	isReady  bool
	again    chan struct{} // requests another greeting
	over     chan struct{} // closed when the stream has ended
	err      error         // why
	next     uint32
	sessions map[uint32]*relayed
}

// relayed is a session and the stream of the client that requested the program.
type relayed struct {
	stream io.ReadWriteCloser
	mu     sync.Mutex
}

func (r *relayed) sendFrame(f frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return writeFrame(r.stream, f)
}

// NewLink takes over the stream to an agent, which need not be running yet.
func NewLink(stream io.ReadWriteCloser) *Link {
	l := &Link{stream: stream, ready: make(chan struct{}), again: make(chan struct{}, 1), over: make(chan struct{}), sessions: map[uint32]*relayed{}}
	l.RestartLink()
	go l.readFrames()
	go l.sendGreetings()
	return l
}

// Ready returns a channel that is closed when the agent has answered.
func (l *Link) Ready() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

// IsReady reports whether the agent has answered.
func (l *Link) IsReady() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isReady
}

// Over returns a channel that is closed when the stream has ended; Err returns the reason.
func (l *Link) Over() <-chan struct{} { return l.over }

// Err returns why the stream has ended.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the stream and all sessions.
func (l *Link) Close() error { return l.stream.Close() }

// RestartLink is called when the guest has restarted: the link waits for the agent again,
// and the programs that it ran before have ended.
func (l *Link) RestartLink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number = rand.Uint64()
	if l.isReady {
		l.isReady, l.ready = false, make(chan struct{})
	}
	l.dropSessions()
	select {
	case l.again <- struct{}{}:
	default: // it is already requested
	}
}

// dropSessions ends all sessions.
func (l *Link) dropSessions() {
	for n, r := range l.sessions {
		r.stream.Close()
		delete(l.sessions, n)
	}
}

// regreet is the interval between greetings until the agent answers: a guest that is
// starting loses earlier ones.
const regreet = 500 * time.Millisecond

// sendGreetings sends greetings while the link waits for the agent.
func (l *Link) sendGreetings() {
	tick := time.NewTicker(regreet)
	defer tick.Stop()
	for {
		l.mu.Lock()
		number, waiting := l.number, !l.isReady
		l.mu.Unlock()
		if waiting {
			l.writes.Lock()
			_, _ = l.stream.Write(makeGreeting(number)) // run notices that a stream has ended
			l.writes.Unlock()
		}
		select {
		case <-l.over:
			return
		case <-tick.C:
		case <-l.again:
		}
	}
}

// readFrames reads from the agent. It handles bytes as they arrive, so that it can
// resynchronise with a guest that restarts in the middle of a frame.
func (l *Link) readFrames() {
	var err error
	var waits []byte
	b := make([]byte, 2*maxPayload)
	for n := 0; err == nil; {
		if n, err = l.stream.Read(b); err == nil {
			waits, err = l.handleBytes(append(waits, b[:n]...))
		}
	}
	l.mu.Lock()
	l.err = err
	l.isReady = false
	l.dropSessions()
	l.mu.Unlock()
	close(l.over)
	l.stream.Close()
}

// handleBytes handles received bytes and returns those that need more bytes to be handled.
func (l *Link) handleBytes(b []byte) (rest []byte, err error) {
	for {
		l.mu.Lock()
		number, waiting := l.number, !l.isReady
		l.mu.Unlock()
		if waiting {
			found, rest, err := findGreeting(b, number)
			if !found || err != nil {
				return rest, err
			}
			b = rest
			l.mu.Lock()
			if l.number == number {
				l.isReady = true
				close(l.ready)
			}
			l.mu.Unlock()
			continue
		}
		for len(b) > 0 && b[0] == mark[0] { // an answer to a greeting sent twice
			if len(b) < greetingLen {
				return b, nil
			}
			b = b[greetingLen:]
		}
		if len(b) < headerLen {
			return b, nil
		}
		f, n, err := parseHeader(b)
		if err != nil {
			l.RestartLink()
			continue
		}
		if len(b) < headerLen+n {
			return b, nil
		}
		f.payload = bytes.Clone(b[headerLen : headerLen+n])
		b = b[headerLen+n:]
		l.dispatchFrame(f)
	}
}

// findGreeting looks for the greeting with a number. It returns the bytes after the
// greeting or, if it is not found, those that may contain its beginning.
func findGreeting(b []byte, number uint64) (found bool, rest []byte, err error) {
	for {
		i := bytes.Index(b, []byte(mark))
		switch {
		case i < 0:
			return false, b[max(len(b)-len(mark)+1, 0):], nil
		case len(b) < i+greetingLen:
			return false, b[i:], nil
		}
		its := b[i+len(mark)]
		b = b[i:]
		if its != version {
			return false, b, errVersion(its)
		}
		if bytes.Equal(b[:greetingLen], makeGreeting(number)) {
			return true, b[greetingLen:], nil
		}
		b = b[1:]
	}
}

// dispatchFrame forwards a frame to its session.
func (l *Link) dispatchFrame(f frame) {
	l.mu.Lock()
	r := l.sessions[f.session]
	if f.kind == finish {
		delete(l.sessions, f.session)
	}
	l.mu.Unlock()
	if r == nil {
		return
	}
	number := f.session
	f.session = 0
	if r.sendFrame(f) != nil || f.kind == finish {
		r.stream.Close()
		l.abandonSession(number)
	}
}

// abandonSession ends a session whose client is gone.
func (l *Link) abandonSession(number uint32) {
	l.mu.Lock()
	_, there := l.sessions[number]
	delete(l.sessions, number)
	l.mu.Unlock()
	if there {
		_ = l.sendFrame(frame{kind: leave, session: number})
	}
}

func (l *Link) sendFrame(f frame) error {
	l.writes.Lock()
	defer l.writes.Unlock()
	return writeFrame(l.stream, f)
}

// RelaySession serves one session, whose other end is Run. It returns when the session is
// over, and closes the stream.
func (l *Link) RelaySession(stream io.ReadWriteCloser) {
	buffered := newBuffered(stream)
	defer buffered.Close()
	r := &relayed{stream: buffered}
	f, err := readFrame(stream) // the open frame
	l.mu.Lock()
	if err != nil || !l.isReady {
		l.mu.Unlock()
		_ = r.sendFrame(finishedFrame(0, Result{126, "the guest's agent does not answer"}))
		return
	}
	l.next++
	number := l.next
	l.sessions[number] = r
	l.mu.Unlock()
	for err == nil {
		f.session = number
		if err = l.sendFrame(f); err == nil {
			f, err = readFrame(stream)
		}
	}
	l.abandonSession(number)
}

// maxBuffered is the maximum number of bytes waiting for a client. The windows of a
// session allow less, even if each of their bytes came in a separate frame; a guest that
// sends more loses the session.
const maxBuffered = 8 << 20

// buffered writes to a stream without waiting for its reader. The bytes not taken
// yet are bounded by the windows of a session, or by maxBuffered.
type buffered struct {
	stream io.ReadWriteCloser
	queue  *queue
	done   chan struct{}
}

func newBuffered(stream io.ReadWriteCloser) *buffered {
	b := &buffered{stream, newQueue(maxBuffered), make(chan struct{})}
	go func() {
		defer close(b.done)
		for p := b.queue.takeBytes(); p != nil; p = b.queue.takeBytes() {
			if _, err := stream.Write(p); err != nil {
				break
			}
		}
		stream.Close()
	}()
	return b
}

// Read reads the stream.
func (b *buffered) Read(p []byte) (int, error) { return b.stream.Read(p) }

// Write queues p to be written. The caller must not use p again.
func (b *buffered) Write(p []byte) (int, error) {
	select {
	case <-b.done:
		return 0, io.ErrClosedPipe
	default:
	}
	if !b.queue.putBytes(p) {
		return 0, errFrame
	}
	return len(p), nil
}

// Close closes the stream once everything has been written.
func (b *buffered) Close() error {
	b.queue.putBytes(nil)
	return nil
}

// decodeResult reads a finish frame.
func decodeResult(b []byte) (r Result, err error) {
	err = json.Unmarshal(b, &r)
	return r, err
}
