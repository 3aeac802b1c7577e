package testlab

import (
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/internal/await"
)

// WaitFor waits until a condition is true.
func (l *Lab) WaitFor(what string, is func() bool) {
	l.T.Helper()
	await.True(l.T, what, is)
}

// WaitListening waits until something listens on a TCP port of a host.
func (l *Lab) WaitListening(host, port string) {
	l.T.Helper()
	l.WaitFor("something listens on port "+port+" of "+host, func() bool { return l.ListensTCP(host, port) })
}

// WaitPackets waits until a port has sent more packets than n since the call.
func (l *Lab) WaitPackets(port string, n uint64) {
	l.T.Helper()
	before := l.Ports()[port].TxPackets
	l.WaitFor("packets at "+port, func() bool { return l.Ports()[port].TxPackets-before > n })
}

// WaitQuiet waits until nothing moves. Hosts' kernels send neighbour probes and the like
// unprompted, so it finds a moment between two of them.
func (l *Lab) WaitQuiet() {
	l.T.Helper()
	var last uint64
	since := time.Now()
	l.WaitFor("a moment in which no packet moves", func() bool {
		var now uint64
		for _, p := range l.Ports() {
			now += p.RxPackets + p.TxPackets
		}
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	})
}

// WaitEnd waits until a program has ended by itself, and returns its error.
func (s *Program) WaitEnd(t testing.TB) error {
	t.Helper()
	await.Receive(t, "the end of "+strings.Join(s.Args, " "), s.Done)
	return s.Err
}
