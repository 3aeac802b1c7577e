package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weftlab/weft/emu/cluster/server"
)

// pair is a server with two connections to it.
func pair(t *testing.T) (ctx context.Context, a, b *Client) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	s, err := server.Serve(server.Options{Dir: t.TempDir(), Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, c := range []**Client{&a, &b} {
		if *c, err = Dial(ctx, Access{URL: s.URLs()[0]}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*c).Close)
	}
	return ctx, a, b
}

// until waits for something that comes by itself.
func until(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestAJobUnderWayIsLeft: a job that is delivered to a second worker although the first
// has it is run by the first alone, and costs no death.
func TestAJobUnderWayIsLeft(t *testing.T) {
	t.Parallel()
	ctx, a, b := pair(t)
	var runs atomic.Int32
	gate := make(chan struct{})
	run := func(ctx context.Context, _ Job, _ Reporter) ([]byte, error) {
		runs.Add(1)
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return []byte("done"), nil
	}
	first, err := (&Worker{Client: a, Heartbeat: 50 * time.Millisecond, Slots: 1}).newShift(run)
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 2)
	defer func() {
		stop()
		<-ended
		<-ended
	}()
	go func() { ended <- first.work(working) }()
	done := make(chan error, 1)
	go func() {
		c := &Coordinator{Client: a, Experiment: "e", Poll: 50 * time.Millisecond, AckWait: time.Second, Deaths: 1}
		done <- c.Run(ctx, []Job{{ID: "j"}}, func(r Result) error {
			if string(r.Output) != "done" {
				return fmt.Errorf("the result is %q %q", r.Output, r.Err)
			}
			return nil
		})
	}()
	until(ctx, t, "the first worker runs the job", func() bool { return runs.Load() == 1 })
	go func() {
		ended <- (&Worker{Client: b, Heartbeat: 50 * time.Millisecond, Slots: 1}).Run(working, run)
	}()
	// The server is told to give the job away behind the first worker's back.
	first.mu.Lock()
	message := first.jobs[jobKey{"e", "j"}].message
	first.mu.Unlock()
	if err := message.Nak(); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the job is delivered again", func() bool {
		consumer, err := a.js.Consumer(ctx, streamName("e"), workersConsumer)
		return err == nil && consumer.CachedInfo().Delivered.Consumer >= 2
	})
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}

// TestTheServerForgets: jobs, and the consumer of the jobs, that vanish from the server
// are put there again.
func TestTheServerForgets(t *testing.T) {
	t.Parallel()
	for what, forget := range map[string]func(ctx context.Context, c *Client) error{
		"a job": func(ctx context.Context, c *Client) error {
			stream, err := c.js.Stream(ctx, streamName("e"))
			if err != nil {
				return err
			}
			return stream.Purge(ctx, jetstream.WithPurgeSubject(live("e", "b", ">")))
		},
		"the consumer": func(ctx context.Context, c *Client) error {
			return c.js.DeleteConsumer(ctx, streamName("e"), workersConsumer)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx, a, b := pair(t)
			taken := make(chan string, 10)
			done := make(chan error, 1)
			go func() {
				done <- (&Coordinator{Client: a, Experiment: "e", Poll: 20 * time.Millisecond}).Run(ctx, []Job{{ID: "a"}, {ID: "b"}}, func(r Result) error {
					taken <- r.Job
					return nil
				})
			}()
			until(ctx, t, "the jobs are on the server", func() bool {
				stream, err := a.js.Stream(ctx, streamName("e"))
				if err != nil {
					return false
				}
				s, err := census(ctx, stream, "e")
				return err == nil && len(s.jobs) == 2
			})
			if err := forget(ctx, b); err != nil {
				t.Fatal(err)
			}
			working, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				ended <- (&Worker{Client: b, Heartbeat: 20 * time.Millisecond, Slots: 1}).Run(working, func(context.Context, Job, Reporter) ([]byte, error) { return nil, nil })
			}()
			if err := <-done; err != nil {
				t.Error(err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if len(taken) != 2 {
				t.Errorf("%d results", len(taken))
			}
		})
	}
}

// TestASecondCoordinatorIsNoticed: one that was cut off while another took its place ends
// when it would take a result that the other has.
func TestASecondCoordinatorIsNoticed(t *testing.T) {
	t.Parallel()
	ctx, a, b := pair(t)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- (&Worker{Client: b, Heartbeat: 20 * time.Millisecond}).Run(working, func(context.Context, Job, Reporter) ([]byte, error) { return nil, nil })
	}()
	err := (&Coordinator{Client: a, Experiment: "e", Poll: 20 * time.Millisecond}).Run(ctx, []Job{{ID: "j"}}, func(r Result) error {
		_, err := b.js.Publish(ctx, taken("e", r.Job), []byte("another"))
		return err
	})
	if !errors.Is(err, ErrCoordinated) {
		t.Errorf("the coordinator ends with %v", err)
	}
	stop()
	<-ended
}
