package experiment

import (
	"strconv"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

// Real is what a cell in wall-clock time does in addition to running its lab.
type Real struct {
	Programs []Program `json:"programs"`
	Env      []string  `json:"env,omitempty"`       // of all programs, as KEY=value
	Workload bool      `json:"workload,omitempty"`  // the lab's modelled traffic sends as well
	Tries    int       `json:"tries,omitempty"`     // how often to run a cell that turns out late, at least 1
	KeepLate bool      `json:"keep_late,omitempty"` // the last of these runs counts anyway
}

// Program is a real program that a cell in wall-clock time runs in a host.
type Program struct {
	Name    string     `json:"name"`
	Host    string     `json:"host,omitempty"`
	Command string     `json:"command,omitempty"` // argument of sh -c
	At      units.Time `json:"at,omitempty"`      // emulated time of its start, since the lab was up
	Server  bool       `json:"server,omitempty"`  // it serves the others, and is stopped after them
	Dilated bool       `json:"dilated,omitempty"` // it sees the lab's clock
	Ready   plan.Ready `json:"ready"`             // what to wait for before the programs after it start
	Limit   units.Time `json:"limit,omitempty"`   // emulated time that it may take
	Read    Reading    `json:"read"`
}

// Reading says how the output of a program becomes rows of a table.
type Reading struct {
	Format Format `json:"format,omitempty"` // "" reads nothing
	Expr   string `json:"expr,omitempty"`   // Regexp: a regular expression (RE2) with named groups
	Table  string `json:"table,omitempty"`  // Regexp: name of the table
}

// Format is a format of output.
type Format string

// The formats of output that can be read.
const (
	Iperf3   Format = "iperf3"   // output of iperf3 -J
	Ping     Format = "ping"     // output of iputils' ping
	Perftest Format = "perftest" // output of ib_write_bw, ib_send_lat and so on
	Wrk      Format = "wrk"      // output of wrk, with or without --latency
	Memaslap Format = "memaslap" // output of memaslap, with or without -S
	Regexp   Format = "regexp"   // output of any program
)

// Formats lists the formats that have a name in an experiment file.
var Formats = []Format{Iperf3, Ping, Perftest, Wrk, Memaslap}

// LatenessTable is the table that says whether the machine kept up with a cell in
// wall-clock time. It has one row with the columns LatenessKept, 1 or 0, and
// LatenessVerdict, which explains it in a sentence. Cells in virtual time have no row.
const (
	LatenessTable   = "lateness"
	LatenessKept    = "kept"
	LatenessVerdict = "verdict"
)

// The environment of real programs: LevelEnv followed by the name of a factor holds
// the cell's level of that factor, and SeedEnv its seed.
const (
	LevelEnv = "WEFT_LEVEL_"
	SeedEnv  = "WEFT_SEED"
)

// programsOf returns what a cell does.
func (r *Real) programsOf(e *Experiment, c *Cell) *Real {
	mine := *r
	for f, l := range c.Levels {
		mine.Env = append(mine.Env, LevelEnv+e.Factors[f].Name+"="+e.Factors[f].Levels[l])
	}
	mine.Env = append(mine.Env, SeedEnv+"="+strconv.FormatUint(c.Seed, 10))
	return &mine
}

// emptyPrograms returns what a cell in virtual time keeps of real programs: their names and
// tables, which stay empty. Its results thus do not depend on command lines.
func (r *Real) emptyPrograms() *Real {
	if r == nil {
		return nil
	}
	m := &Real{}
	for _, p := range r.Programs {
		m.Programs = append(m.Programs, Program{Name: p.Name, Read: p.Read})
	}
	return m
}
