package experiment

import (
	"strconv"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

// Real is what a cell in wall-clock time does beside running its lab.
type Real struct {
	Programs []Program `json:"programs"`
	Env      []string  `json:"env,omitempty"`       // of all programs, as KEY=value
	Workload bool      `json:"workload,omitempty"`  // the lab's modelled traffic sends as well
	Tries    int       `json:"tries,omitempty"`     // how often a cell is run in which the machine does not keep up, at least 1
	KeepLate bool      `json:"keep_late,omitempty"` // the last of them counts all the same
}

// Program is a real program that a cell in wall-clock time runs in a host.
type Program struct {
	Name    string     `json:"name"`
	Host    string     `json:"host,omitempty"`
	Command string     `json:"command,omitempty"` // of sh -c
	At      units.Time `json:"at,omitempty"`      // emulated time since the lab was up at which it starts
	Server  bool       `json:"server,omitempty"`  // it serves the others, and is ended when those have ended
	Dilated bool       `json:"dilated,omitempty"` // it sees the lab's clock
	Ready   plan.Ready `json:"ready"`             // what is waited for before the programs behind it start
	Limit   units.Time `json:"limit,omitempty"`   // emulated time that it may take
	Read    Reading    `json:"read"`
}

// Reading says how what a program says becomes rows of a table.
type Reading struct {
	Format Format `json:"format,omitempty"` // "" reads nothing
	Expr   string `json:"expr,omitempty"`   // Regexp: a regular expression (RE2) with named groups
	Table  string `json:"table,omitempty"`  // Regexp: name of the table
}

// Format is a form of output.
type Format string

// The forms of output that are read.
const (
	Iperf3   Format = "iperf3"   // of iperf3 -J
	Ping     Format = "ping"     // of iputils' ping
	Perftest Format = "perftest" // of ib_write_bw, ib_send_lat and so on
	Wrk      Format = "wrk"      // of wrk, with --latency or without
	Memaslap Format = "memaslap" // of memaslap, with -S or without
	Regexp   Format = "regexp"   // of any program
)

// Formats are those that have a name in an experiment file.
var Formats = []Format{Iperf3, Ping, Perftest, Wrk, Memaslap}

// LatenessTable is the table that tells whether the machine kept up with a cell in
// wall-clock time: one row with the columns LatenessKept, 1 or 0, and LatenessVerdict,
// which says it in a sentence. Cells in virtual time have no row.
const (
	LatenessTable   = "lateness"
	LatenessKept    = "kept"
	LatenessVerdict = "verdict"
)

// The environment of real programs: the levels of their cell by their factors' names
// behind LevelEnv, and its seed.
const (
	LevelEnv = "WEFT_LEVEL_"
	SeedEnv  = "WEFT_SEED"
)

// of is what a cell does.
func (r *Real) of(e *Experiment, c *Cell) *Real {
	mine := *r
	for f, l := range c.Levels {
		mine.Env = append(mine.Env, LevelEnv+e.Factors[f].Name+"="+e.Factors[f].Levels[l])
	}
	mine.Env = append(mine.Env, SeedEnv+"="+strconv.FormatUint(c.Seed, 10))
	return &mine
}

// modelled is what a cell in virtual time has of real programs: their names and tables,
// which stay empty, so that its results do not depend on command lines.
func (r *Real) modelled() *Real {
	if r == nil {
		return nil
	}
	m := &Real{}
	for _, p := range r.Programs {
		m.Programs = append(m.Programs, Program{Name: p.Name, Read: p.Read})
	}
	return m
}
