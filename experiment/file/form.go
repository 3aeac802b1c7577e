// Package file reads experiment files: it reads YAML, patches the lab file for every cell,
// checks all of it, and returns an experiment.Experiment. Errors give the place in the
// file, the experiment's or the lab's, and a correction.
//
// The format is described in docs/experiments.md.
//
// To make the lab of a cell the package patches the syntax tree of the lab file with its
// own values (emu/yamlfile/graft.go), which keep their positions, and lets emu/resolve check it.
// The stored form of a cell is the patched file as one text without comments.
package file

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/sim/units"
)

// The types here are the experiment file as it is written. The JSON Schema is made from
// them.

type experimentFile struct {
	Name     *string                    `yaml:"name,omitempty" jsonschema_description:"name of the experiment, at most 64 letters, digits, _ . -; default the file's name without extension"`
	Title    *string                    `yaml:"title,omitempty" jsonschema_description:"one line about it"`
	Lab      labForm                    `yaml:"lab" jsonschema_description:"path of the lab file, relative to this file, or the lab itself"`
	Clock    yamlfile.OneOrMore[clock]  `yaml:"clock,omitempty" jsonschema_description:"virtual; wall, for real programs; or [wall, virtual] for both, as a factor named clock; default virtual"`
	Set      patches                    `yaml:"set,omitempty" jsonschema_description:"changes to the lab in all cells: path: value"`
	Vary     yamlfile.Dict[factorForm]  `yaml:"vary,omitempty" jsonschema_description:"factors by name"`
	Combine  *combine                   `yaml:"combine,omitempty" jsonschema_description:"product runs each level of a factor with each level of the others, zip the first with the first and so on; default product"`
	Seeds    *seeds                     `yaml:"seeds,omitempty" jsonschema_description:"number of seeds, counted from 1, or a list of them; default 1"`
	Programs []programFile              `yaml:"programs,omitempty" jsonschema_description:"real programs that cells in wall-clock time run in the lab's hosts"`
	Workload *bool                      `yaml:"workload,omitempty" jsonschema_description:"whether the lab's modelled traffic sends alongside real programs; default false"`
	Repeat   *int                       `yaml:"repeat,omitempty" jsonschema_description:"maximum runs of a wall-clock cell while the machine does not keep up with it, 1 to 100; default 3"`
	Late     *late                      `yaml:"late,omitempty" jsonschema_description:"whether a cell that the machine never kept up with fails (fail), or counts with a mark (keep); default fail"`
	Record   recordFile                 `yaml:"record,omitempty" jsonschema_description:"series that each run records"`
	Measure  yamlfile.Dict[measureForm] `yaml:"measure" jsonschema_description:"measures of each cell, by name"`
	Plot     yamlfile.Dict[plotFile]    `yaml:"plot,omitempty" jsonschema_description:"pictures, by name"`
	Paper    []paperFile                `yaml:"paper,omitempty" jsonschema_description:"values of the measures in a paper"`
	Expect   []string                   `yaml:"expect,omitempty" jsonschema_description:"expressions that must hold for the means over the seeds; a measure is a function of levels in them"`
	Limit    limitFile                  `yaml:"limit,omitempty" jsonschema_description:"limits of each cell"`
	Quick    *quickFile                 `yaml:"quick,omitempty" jsonschema_description:"a small form of the experiment, for --quick"`
}

// Noun names the type in messages.
func (experimentFile) Noun() string { return "an experiment" }

// recordFile is the series that each run records.
type recordFile struct {
	Every  *units.Time                `yaml:"every,omitempty" jsonschema_description:"emulated time between two samples; default 1ms"`
	Queues yamlfile.OneOrMore[string] `yaml:"queues,omitempty" jsonschema_description:"ports to sample, such as s1:3 or 'leaf*:*'"`
	Flows  yamlfile.OneOrMore[string] `yaml:"flows,omitempty" jsonschema_description:"queue pairs to sample, named as for --flow; '*' for all"`
}

// programFile is a real program.
type programFile struct {
	Name    string         `yaml:"name" jsonschema_description:"name of the program, in tables and messages; at most 64 letters, digits, _ . -"`
	Host    string         `yaml:"host" jsonschema_description:"host of the lab that runs it"`
	Command string         `yaml:"command" jsonschema_description:"the command, a text for /bin/sh"`
	At      *units.Time    `yaml:"at,omitempty" jsonschema_description:"emulated time, from when the lab is up, at which it starts; default 0s. Programs with the same time start in the order of the file"`
	Server  bool           `yaml:"server,omitempty" jsonschema_description:"whether it serves other programs: it is ended, as by Ctrl-C, when all others have ended; default false"`
	Dilated bool           `yaml:"dilated,omitempty" jsonschema_description:"whether it sees the lab's clock if the lab has a dilation, as with weft exec --dilated; default false"`
	Ready   *labfile.Ready `yaml:"ready,omitempty" jsonschema_description:"condition to wait for before later programs start; default none"`
	Limit   *units.Time    `yaml:"limit,omitempty" jsonschema_description:"maximum emulated time, after which the cell fails; default 300s"`
	Read    *readForm      `yaml:"read,omitempty" jsonschema_description:"how its standard output becomes rows of a table: iperf3 (for iperf3 -J), ping, perftest, wrk, memaslap, or {regexp: EXPRESSION}; default none"`
}

// Noun names the type in messages.
func (programFile) Noun() string { return "a program" }

// regexpFile reads any output with a regular expression.
type regexpFile struct {
	Regexp string  `yaml:"regexp" jsonschema_description:"regular expression (RE2) with named groups, each a column of numbers; every match is a row. ^ and $ are the ends of lines"`
	Table  *string `yaml:"table,omitempty" jsonschema_description:"table of the rows, which programs may share; default the program's name"`
}

// Noun names the type in messages.
func (regexpFile) Noun() string { return "a way to read output" }

// limitFile limits the resources of a cell.
type limitFile struct {
	Time   *units.Time  `yaml:"time,omitempty" jsonschema_description:"real time; default no limit"`
	Memory *units.Bytes `yaml:"memory,omitempty" jsonschema_description:"memory; default no limit"`
}

// quickFile is what the quick form changes.
type quickFile struct {
	Seeds  *seeds                                             `yaml:"seeds,omitempty" jsonschema_description:"seeds in place of the full form's"`
	Set    patches                                            `yaml:"set,omitempty" jsonschema_description:"further changes to the lab"`
	Vary   yamlfile.Dict[yamlfile.OneOrMore[yamlfile.Scalar]] `yaml:"vary,omitempty" jsonschema_description:"levels to run, by factor; default all"`
	Expect []string                                           `yaml:"expect,omitempty" jsonschema_description:"expectations in place of the full form's"`
}

// measureFile is one measure.
type measureFile struct {
	Title   *string                                            `yaml:"title,omitempty" jsonschema_description:"title in tables and pictures; default its name"`
	Of      *string                                            `yaml:"of,omitempty" jsonschema_description:"table of the run to measure"`
	Column  *string                                            `yaml:"column,omitempty" jsonschema_description:"column of the table"`
	Stat    *string                                            `yaml:"stat,omitempty" jsonschema_description:"statistic of the column: count, sum, mean, min, max, median, stddev, deviation, jain, a percentile such as p99; or, over time, settled, the time until it stays near a value, or reached, the time until it first meets a condition; default mean"`
	Average *units.Time                                        `yaml:"average,omitempty" jsonschema_description:"for tables over time: average the column over intervals of this length first; default none"`
	Until   *yamlfile.Scalar                                   `yaml:"until,omitempty" jsonschema_description:"for reached: the condition, such as <100KB"`
	Within  *yamlfile.Scalar                                   `yaml:"within,omitempty" jsonschema_description:"for settled: share of the target by which the column may differ from it, default 10%"`
	Target  *yamlfile.Scalar                                   `yaml:"target,omitempty" jsonschema_description:"for settled: the value that the column must stay near; default its mean in the last quarter of the time"`
	Where   yamlfile.Dict[yamlfile.OneOrMore[yamlfile.Scalar]] `yaml:"where,omitempty" jsonschema_description:"rows to measure, as column: pattern, value, true, false, or bounds such as <100KB or 10KB..1MB; of a list, any may match; default those of flows and groups that count, and all of other tables"`
	By      *byForm                                            `yaml:"by,omitempty" jsonschema_description:"bins to measure separately: a column of texts, or {column: [edges]} of numbers"`
	Seeds   *center                                            `yaml:"seeds,omitempty" jsonschema_description:"how the values of the seeds are combined: mean or median; default mean"`
	Per     *string                                            `yaml:"per,omitempty" jsonschema_description:"column of texts, or time_s: the statistic is computed for each of its values, and over combines the results"`
	Over    *string                                            `yaml:"over,omitempty" jsonschema_description:"statistic that combines the values of per; with time_s also settled and reached"`
	Expr    *string                                            `yaml:"expr,omitempty" jsonschema_description:"in place of a statistic, an expression of the measures above it"`
}

// Noun names the type in messages.
func (measureFile) Noun() string { return "a measure" }

// plotFile is one picture.
type plotFile struct {
	Title   *string                                            `yaml:"title,omitempty" jsonschema_description:"line above the picture; default none"`
	Kind    plotKind                                           `yaml:"kind" jsonschema_description:"cdf of a column; bins, line, bars or heat of a measure; time for a column over time"`
	Measure *string                                            `yaml:"measure,omitempty" jsonschema_description:"measure that bins, line, bars and heat draw"`
	X       *string                                            `yaml:"x,omitempty" jsonschema_description:"for line, bars and heat: factor along the x axis"`
	Y       *string                                            `yaml:"y,omitempty" jsonschema_description:"for heat: factor along the y axis"`
	Panels  *string                                            `yaml:"panels,omitempty" jsonschema_description:"factor with a panel for each of its levels"`
	Of      *string                                            `yaml:"of,omitempty" jsonschema_description:"table that cdf and time draw"`
	Column  *string                                            `yaml:"column,omitempty" jsonschema_description:"column of the table"`
	Where   yamlfile.Dict[yamlfile.OneOrMore[yamlfile.Scalar]] `yaml:"where,omitempty" jsonschema_description:"rows to draw, as in measures"`
	Split   *string                                            `yaml:"split,omitempty" jsonschema_description:"for cdf and time: column of texts with a line for each of its values"`
	LogX    bool                                               `yaml:"log-x,omitempty" jsonschema_description:"whether the x axis is logarithmic; default false"`
	LogY    bool                                               `yaml:"log-y,omitempty" jsonschema_description:"whether the y axis is logarithmic; default false"`
}

// Noun names the type in messages.
func (plotFile) Noun() string { return "a picture" }

// paperFile is a value from a paper.
type paperFile struct {
	Measure string                         `yaml:"measure" jsonschema_description:"measure of the value"`
	At      yamlfile.Dict[yamlfile.Scalar] `yaml:"at,omitempty" jsonschema_description:"levels of the value, as factor: level; and bin: for a measure with bins"`
	Value   yamlfile.Scalar                `yaml:"value" jsonschema_description:"the value, in the unit of the measure or with its own unit"`
	Source  string                         `yaml:"source" jsonschema_description:"where the paper gives it, such as Fig. 11"`
	Origin  origin                         `yaml:"origin" jsonschema_description:"text if it is printed there, figure if it was read off a figure, computed if it follows from the paper's algorithm, remembered if it is from memory, which no expectation may use"`
}

// Noun names the type in messages.
func (paperFile) Noun() string { return "a value of a paper" }

// rawValue is a value of the file that goes into a lab unchanged.
type rawValue struct{ yamlfile.Value }

// DecodeNode keeps the value.
func (v *rawValue) DecodeNode(r *yamlfile.Reader, _ ast.Node, _ string) { v.Value, _ = r.ValueOf(v) }

// MakeSchema allows anything.
func (rawValue) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema { return jsonschema.TrueSchema }

// patches are changes to a lab by their paths.
type patches = yamlfile.Dict[rawValue]
