package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/cluster"
	"github.com/weftlab/weft/experiment/pool"
)

// TestMain also serves as the program that runs a cell, which fails if its seed is 0.
func TestMain(m *testing.M) {
	if os.Getenv("WEFT_TEST_CELL") == "" {
		os.Exit(m.Run())
	}
	var j experiment.Job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		panic(err)
	}
	if j.Seed == 0 {
		fmt.Fprintln(os.Stderr, "weft: no seed")
		os.Exit(1)
	}
	fmt.Print("tables")
	os.Exit(0)
}

// silent is a Reporter for nobody.
type silent struct{}

func (silent) Log(string)         {}
func (silent) Progress(any) error { return nil }

// TestRun_SaysWhatCellsRun: a worker says when a cell begins and how it ends, by the cell's name.
func TestRun_SaysWhatCellsRun(t *testing.T) {
	t.Setenv("WEFT_TEST_CELL", "1")
	var said []string
	run := Run(&pool.Pool{Size: 1, Command: []string{os.Args[0]}}, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	cell := func(ctx context.Context, name string, seed uint64) {
		payload, err := json.Marshal(experiment.Job{Name: name, Work: experiment.Work{Seed: seed}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = run(ctx, cluster.Job{ID: name, Payload: payload}, silent{})
	}
	cell(t.Context(), "load=50% seed=1", 1)
	cell(t.Context(), "load=50% seed=0", 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cell(ended, "load=90% seed=1", 1)
	for i, want := range []string{
		"runs load=50% seed=1", "done load=50% seed=1 (", "runs load=50% seed=0", "FAILED load=50% seed=0: no seed (", "runs load=90% seed=1", "gave back load=90% seed=1",
	} {
		if i >= len(said) || !strings.HasPrefix(said[i], want) {
			t.Fatalf("line %d of %q does not begin with %q", i+1, said, want)
		}
	}
}
