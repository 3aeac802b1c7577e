package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weftlab/weft/experiment/cluster/server"
	"github.com/weftlab/weft/internal/await"
)

// pair starts a server and returns two connections to it.
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

// TestJobs_UnderWayAreLeftAlone checks that a job delivered to a second worker while the first
// has it is run by the first alone, and does not count as a death.
func TestJobs_UnderWayAreLeftAlone(t *testing.T) {
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
	first, err := (&Worker{Client: a, Heartbeat: 50 * time.Millisecond, Slots: 1}).newWorkerSession(run)
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
	go func() { ended <- first.serveJobs(working) }()
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
	await.True(t, "the first worker runs the job", func() bool { return runs.Load() == 1 })
	go func() {
		ended <- (&Worker{Client: b, Heartbeat: 50 * time.Millisecond, Slots: 1}).Run(working, run)
	}()
	// Tell the server to give the job away without the first worker's knowledge.
	first.mu.Lock()
	message := first.jobs[jobKey{"e", "j"}].message
	first.mu.Unlock()
	if err := message.Nak(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the job is delivered again", func() bool {
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

// TestServer_WhatItForgetsIsRestored checks that jobs, and their consumer, are restored if they vanish
// from the server.
func TestServer_WhatItForgetsIsRestored(t *testing.T) {
	t.Parallel()
	for what, forget := range map[string]func(ctx context.Context, c *Client) error{
		"a job": func(ctx context.Context, c *Client) error {
			stream, err := c.js.Stream(ctx, streamName("e"))
			if err != nil {
				return err
			}
			return stream.Purge(ctx, jetstream.WithPurgeSubject(liveSubject("e", "b", ">")))
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
			await.True(t, "the jobs are on the server", func() bool {
				stream, err := a.js.Stream(ctx, streamName("e"))
				if err != nil {
					return false
				}
				s, err := countJobs(ctx, stream, "e")
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

// TestCoordinator_NoticesASecondOne checks that a coordinator that was cut off and replaced
// by another ends when it tries to take a result that the other has.
func TestCoordinator_NoticesASecondOne(t *testing.T) {
	t.Parallel()
	ctx, a, b := pair(t)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- (&Worker{Client: b, Heartbeat: 20 * time.Millisecond}).Run(working, func(context.Context, Job, Reporter) ([]byte, error) { return nil, nil })
	}()
	err := (&Coordinator{Client: a, Experiment: "e", Poll: 20 * time.Millisecond}).Run(ctx, []Job{{ID: "j"}}, func(r Result) error {
		_, err := b.js.Publish(ctx, takenSubject("e", r.Job), []byte("another"))
		return err
	})
	if !errors.Is(err, ErrCoordinated) {
		t.Errorf("the coordinator ends with %v", err)
	}
	stop()
	<-ended
}

// TestResults_LateOneIsDropped checks that a second result of a job is neither passed on nor
// left on the server.
func TestResults_LateOneIsDropped(t *testing.T) {
	t.Parallel()
	ctx, a, b := pair(t)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	gate := make(chan struct{})
	go func() {
		ended <- (&Worker{Client: b, Heartbeat: 20 * time.Millisecond, Slots: 2}).Run(working, func(ctx context.Context, job Job, _ Reporter) ([]byte, error) {
			if job.ID == "last" {
				select {
				case <-gate:
				case <-ctx.Done():
				}
			}
			return nil, nil
		})
	}()
	first := make(chan struct{})
	var taken []string
	done := make(chan error, 1)
	c := &Coordinator{Client: a, Experiment: "e", Poll: 20 * time.Millisecond}
	go func() {
		done <- c.Run(ctx, []Job{{ID: "j"}, {ID: "last"}}, func(r Result) error {
			taken = append(taken, r.Job)
			if len(taken) == 1 {
				close(first)
			}
			return nil
		})
	}()
	<-first
	await.True(t, "the result is taken", func() bool { return c.Counts().Taken == 1 })
	// The coordinator is purging the job, so there may still be a conflict.
	await.True(t, "the late result is stored", func() bool {
		err := b.storePieces(ctx, "e", "j", "done", label{}, make([]byte, 10), nil)
		if err != nil && !isConflict(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	stream, err := a.js.Stream(ctx, streamName("e"))
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the late result is removed", func() bool {
		s, err := countJobs(ctx, stream, "e")
		return err == nil && !s.done["j"]
	})
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
	stop()
	<-ended
	if !slices.Equal(taken, []string{"j", "last"}) {
		t.Errorf("results of %q", taken)
	}
}

// TestJobs_SuspectsRunAlone checks that jobs on their last try have a worker to themselves,
// however many slots it has.
func TestJobs_SuspectsRunAlone(t *testing.T) {
	t.Parallel()
	ctx, a, b := pair(t)
	jobs := []Job{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	done := make(chan error, 1)
	go func() {
		done <- (&Coordinator{Client: a, Experiment: "e", Poll: 50 * time.Millisecond, Deaths: 2}).Run(ctx, jobs, func(r Result) error {
			if r.Err != "" {
				t.Errorf("job %s: %s", r.Job, r.Err)
			}
			return nil
		})
	}()
	// Each of them was on a worker that is gone.
	await.True(t, "the jobs are on the server", func() bool {
		consumer, err := b.js.Consumer(ctx, streamName("e"), workersConsumer)
		return err == nil && consumer.CachedInfo().NumPending == 3
	})
	consumer, err := b.js.Consumer(ctx, streamName("e"), workersConsumer)
	if err != nil {
		t.Fatal(err)
	}
	var delivered []jetstream.Msg
	for range jobs {
		m, err := consumer.Next()
		if err != nil {
			t.Fatal(err)
		}
		delivered = append(delivered, m)
	}
	for _, m := range delivered {
		if _, err := b.js.Publish(ctx, liveSubject("e", jobOf(m.Subject()), "try.ghost"), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	var running atomic.Int32
	var worker *workerSession
	worker, err = (&Worker{Client: b, Heartbeat: 50 * time.Millisecond, Slots: 3}).newWorkerSession(func(context.Context, Job, Reporter) ([]byte, error) {
		if n := running.Add(1); n != 1 {
			t.Errorf("%d suspects run side by side", n)
		}
		if worker.slots.TryAcquire(1) {
			t.Error("another job could start beside a suspect")
			worker.slots.Release(1)
		}
		running.Add(-1)
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.serveJobs(working) }()
	if err := <-done; err != nil {
		t.Error(err)
	}
	stop()
	<-ended
}
