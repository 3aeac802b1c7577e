package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Keys of a stream's metadata.
const (
	metaTitle       = "weft-title"
	metaRequirement = "weft-requirement" // JSON
	metaDeaths      = "weft-deaths"
)

// Experiment is an experiment on the server, either running or abandoned.
type Experiment struct {
	ID          string
	Title       string
	Requirement Requirement
	Created     time.Time
	// Jobs is the number of jobs, Done the number of results not yet taken, and Taken the
	// number of results taken.
	Jobs, Done, Taken int
	Bytes             uint64 // size on the server
	Coordinator       string // who coordinates it; empty if there is no coordinator
}

// rules are the parts of an experiment that workers need to know.
type rules struct {
	requirement Requirement
	deaths      int // number of dead workers after which a job has failed
}

func rulesOf(metadata map[string]string) (rules, error) {
	var r rules
	if err := json.Unmarshal([]byte(metadata[metaRequirement]), &r.requirement); err != nil {
		return r, fmt.Errorf("the stream's metadata does not say which workers it needs: %w", err)
	}
	deaths, err := strconv.Atoi(metadata[metaDeaths])
	if err != nil {
		return r, fmt.Errorf("the stream's metadata does not say how many workers a job may kill: %w", err)
	}
	r.deaths = deaths
	return r, nil
}

// found is an experiment's stream in the server's list.
type found struct {
	id   string
	info *jetstream.StreamInfo
}

// listStreams returns the streams of experiments on the server.
func (c *Client) listStreams(ctx context.Context) ([]found, error) {
	var all []found
	streams := c.js.ListStreams(ctx, jetstream.WithStreamListSubject("weft.*.live.>"))
	for info := range streams.Info() {
		if id, ok := strings.CutPrefix(info.Config.Name, streamPrefix); ok {
			all = append(all, found{id, info})
		}
	}
	return all, streams.Err()
}

// ListExperiments lists the experiments on the server, oldest first. Those without a
// coordinator continue when one is started with their id, or can be removed.
func (c *Client) ListExperiments(ctx context.Context) ([]Experiment, error) {
	streams, err := c.listStreams(ctx)
	if err != nil {
		return nil, err
	}
	coordinators, err := gatherAnswers[coordinatorInfo](ctx, c.nc, coordinatorsSubject, coordinatorInfo{}, quiet, nil)
	if err != nil {
		return nil, err
	}
	var all []Experiment
	for _, f := range streams {
		r, err := rulesOf(f.info.Config.Metadata)
		if err != nil {
			return nil, fmt.Errorf("experiment %s: %w", f.id, err)
		}
		e := Experiment{ID: f.id, Title: f.info.Config.Metadata[metaTitle], Requirement: r.requirement, Created: f.info.Created, Bytes: f.info.State.Bytes}
		stream, err := c.js.Stream(ctx, f.info.Config.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // it ended meanwhile
		} else if err != nil {
			return nil, err
		}
		s, err := countJobs(ctx, stream, f.id)
		if err != nil {
			return nil, err
		}
		e.Jobs, e.Done, e.Taken = len(s.jobs)+len(s.taken), len(s.done), len(s.taken)
		if logs, err := c.js.Stream(ctx, logStreamName(f.id)); err == nil {
			e.Bytes += logs.CachedInfo().State.Bytes
		}
		for _, who := range coordinators {
			if who.Experiment == f.id {
				e.Coordinator = who.String()
			}
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Experiment) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// RemoveExperiment deletes an experiment with all its jobs and results from the server. Workers
// stop running its jobs.
func (c *Client) RemoveExperiment(ctx context.Context, experiment string) error {
	if err := checkID("experiment", experiment); err != nil {
		return err
	}
	there := false
	// Experiments are found by the second stream, so it is deleted last and an
	// interrupted removal can be repeated.
	for _, name := range []string{logStreamName(experiment), streamName(experiment)} {
		err := c.requestOnce(ctx, func(ctx context.Context) error { return c.js.DeleteStream(ctx, name) })
		switch {
		case err == nil:
			there = true
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return fmt.Errorf("experiment %s: cannot remove its stream %s: %w", experiment, name, err)
		}
	}
	if !there {
		return fmt.Errorf("experiment %s: not found on the server", experiment)
	}
	return c.nc.Publish(newsSubject, nil)
}

// counted holds the jobs in each state.
type counted struct {
	jobs, done, taken map[string]bool
}

// countJobs reads the state of all jobs from an experiment's stream.
func countJobs(ctx context.Context, stream jetstream.Stream, experiment string) (counted, error) {
	s := counted{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for subject, jobs := range map[string]map[string]bool{
		liveSubject(experiment, "*", "job"):  s.jobs,
		liveSubject(experiment, "*", "done"): s.done,
		takenSubject(experiment, "*"):        s.taken,
	} {
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
		if err != nil {
			return s, wrapStorageError(err)
		}
		for subject := range info.State.Subjects {
			jobs[jobOf(subject)] = true
		}
	}
	return s, nil
}

// createStreams creates an experiment's streams, or opens them if they exist. Fresh reports
// whether it created them.
func (c *Client) createStreams(ctx context.Context, id, title string, r rules, ackWait time.Duration) (stream jetstream.Stream, fresh bool, err error) {
	requirement, err := json.Marshal(r.requirement)
	if err != nil {
		return nil, false, err
	}
	stream, err = c.js.Stream(ctx, streamName(id))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		fresh = true
		stream, err = c.js.CreateStream(ctx, jetstream.StreamConfig{
			Name:        streamName(id),
			Description: "jobs and results of a weft experiment",
			Subjects:    []string{liveSubject(id, "*", ">"), takenSubject(id, "*")},
			Storage:     jetstream.FileStorage,
			Retention:   jetstream.LimitsPolicy, // and no limits: the server's are sufficient
			AllowDirect: true,
			Metadata: map[string]string{
				metaTitle:       title,
				metaRequirement: string(requirement),
				metaDeaths:      strconv.Itoa(r.deaths),
			},
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot make its stream: %w", wrapStorageError(err))
	}
	old, err := rulesOf(stream.CachedInfo().Config.Metadata)
	if err != nil {
		return nil, false, fmt.Errorf("%w: NATS server %s may be too old (2.10 keeps metadata)", err, c.nc.ConnectedServerVersion())
	}
	if old.requirement != r.requirement {
		return nil, false, fmt.Errorf("it was started for workers of %v, not of %v: continue with the version that started it, or remove it from the server first", old.requirement, r.requirement)
	}
	_, err = c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:              logStreamName(id),
		Description:       "logs of the jobs of a weft experiment",
		Subjects:          []string{logSubject(id, "*")},
		Storage:           jetstream.FileStorage,
		MaxMsgsPerSubject: logLines,
		Discard:           jetstream.DiscardOld,
	})
	if err != nil {
		return nil, false, fmt.Errorf("cannot make the stream of its logs: %w", wrapStorageError(err))
	}
	return stream, fresh, c.createConsumer(ctx, id, ackWait)
}

// createConsumer creates the consumer that workers share.
func (c *Client) createConsumer(ctx context.Context, id string, ackWait time.Duration) error {
	_, err := c.js.CreateOrUpdateConsumer(ctx, streamName(id), jetstream.ConsumerConfig{
		Durable:       workersConsumer,
		FilterSubject: liveSubject(id, "*", "job"),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1, // deaths are counted, not deliveries
		MaxAckPending: -1, // as many as there are workers
	})
	if err != nil {
		return fmt.Errorf("cannot make the consumer of its jobs: %w", wrapStorageError(err))
	}
	return nil
}
