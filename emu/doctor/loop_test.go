package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/wall"
)

// newLoop returns a loop between two pairs of sockets, which stand for its TAPs, and the far ends
// of the pairs.
func newLoop(t *testing.T, ctx context.Context, e effort) (l *loop, sender, receiver int) {
	t.Helper()
	l = &loop{ctx: ctx, effort: e, room: ethernetMTU + frameSlack}
	var far [2]int
	for i := range far {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.fds[i], far[i] = pair[0], pair[1]
		t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	}
	l.flowing.Store(true)
	return l, far[0], far[1]
}

// TestLoop_RoundsHaveEnoughFrames: frames that come one by one make complete rounds, however
// short the planned time of a round is.
func TestLoop_RoundsHaveEnoughFrames(t *testing.T) {
	l, sender, receiver := newLoop(t, t.Context(), effort{rounds: 3, traffic: time.Nanosecond})
	frame := make([]byte, 100)
	ended := make(chan error, 1)
	go func() { ended <- wall.OnThread(wall.Ordinary, l.runRounds) }()
	for {
		writeFrame(sender, frame)
		readFrame(receiver, frame) // so that the loop can pass on more
		select {
		case err := <-ended:
			if err != nil || len(l.samples) != 3 {
				t.Fatalf("%d rounds, %v", len(l.samples), err)
			}
			for _, s := range l.samples {
				if s.frames < minFrames || s.bytes != s.frames*len(frame) || s.wall <= 0 || s.cpu <= 0 {
					t.Errorf("%+v", s)
				}
			}
			return
		default:
		}
	}
}

// TestLoop_SaysWhatWasMissing: if too few frames come within the limit, the error says so.
func TestLoop_SaysWhatWasMissing(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	l, _, _ := newLoop(t, ctx, effort{rounds: 3})
	if err := l.runRounds(); err == nil || !strings.Contains(err.Error(), "0 of 3 rounds were complete") {
		t.Error(err)
	}
}
