package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/weftlab/weft/netns-lab/vm/agent"
)

// TestAskAgent_WithoutAnAnswerSaysSo: a guest that is slow has not ended.
func TestAskAgent_WithoutAnAnswerSaysSo(t *testing.T) {
	ours, its := net.Pipe()
	errTimeout := errors.New("no more patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // an agent that takes the question, and nothing more
		_, _ = its.Read(make([]byte, 1))
		cancel(errTimeout)
		_, _ = io.Copy(io.Discard, its)
	}()
	if _, _, err := askAgent(ctx, ours, "true"); !errors.Is(err, errTimeout) || errors.Is(err, agent.ErrLost) {
		t.Errorf("%v", err)
	}
}
