// Package output reads the output of real programs: it makes tables from the output of iperf3,
// ping, perftest, wrk and memaslap, and of any program by a regular expression. Columns are
// known before a program runs. Times and rates are those that the program reports.
package output

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
)

// The tables of the named formats. A table has the rows of all programs with this format; its
// first columns are the program and its host.
const (
	Iperf3          = "iperf3"           // a row for each stream, over all of its time
	Iperf3Intervals = "iperf3-intervals" // a row for each interval of each stream
	Ping            = "ping"             // a row for each request
	Perftest        = "perftest"         // a row for each size of messages
	Wrk             = "wrk"              // a row for each run
	Memaslap        = "memaslap"         // likewise
)

// source identifies the program that a row comes from.
type source struct {
	Program string `json:"program"`
	Host    string `json:"host"`
}

// reader reads the output of a program.
type reader func(s source, text []byte) (table.Bundle, error)

var readers = map[experiment.Format]reader{
	experiment.Iperf3: readIperf3, experiment.Ping: readPing, experiment.Perftest: readPerftest, experiment.Wrk: readWrk, experiment.Memaslap: readMemaslap,
}

// errNothing means that the output contains nothing that can be read.
var errNothing = errors.New("it contains nothing to read")

// Read makes tables from a program's standard output. Output that contains nothing to read is
// an error, so that a measurement is never silently empty.
func Read(p *experiment.Program, text []byte) (table.Bundle, error) {
	s := source{p.Name, p.Host}
	switch p.Read.Format {
	case "":
		return nil, nil
	case experiment.Regexp:
		return readRegexp(&p.Read, s, text)
	}
	read := readers[p.Read.Format]
	if read == nil {
		return nil, fmt.Errorf("there is no reader for the output of %s", p.Read.Format)
	}
	return read(s, text)
}

// EmptyTables returns the tables of programs without rows or duplicates. Programs whose regular
// expressions share a table must have the same groups.
func EmptyTables(programs []experiment.Program) (table.Bundle, error) {
	var all table.Bundle
	for i := range programs {
		tables, err := emptyTables(&programs[i].Read)
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", programs[i].Name, err)
		}
		for _, t := range tables {
			known := all.Table(t.Name)
			switch {
			case known == nil:
				all = append(all, t)
			case !slices.Equal(known.Names(), t.Names()):
				return nil, fmt.Errorf("program %s: the table %s has other columns from the output of another program: %v and %v", programs[i].Name, t.Name, known.Names(), t.Names())
			}
		}
	}
	return all, nil
}

// emptyTables returns the tables of a format.
func emptyTables(r *experiment.Reading) (table.Bundle, error) {
	switch r.Format {
	case experiment.Iperf3:
		return table.Bundle{table.Of[stream](Iperf3, nil), table.Of[interval](Iperf3Intervals, nil)}, nil
	case experiment.Ping:
		return table.Bundle{table.Of[reply](Ping, nil)}, nil
	case experiment.Perftest:
		return table.Bundle{table.Of[perfRow](Perftest, nil)}, nil
	case experiment.Wrk:
		return table.Bundle{table.Of[wrkRow](Wrk, nil)}, nil
	case experiment.Memaslap:
		return table.Bundle{table.Of[memaslapRow](Memaslap, nil)}, nil
	case experiment.Regexp:
		e, err := compileExpression(r)
		if err != nil {
			return nil, err
		}
		return table.Bundle{e.emptyTable(r.Table)}, nil
	}
	return nil, nil
}

// Add appends the rows of tables to the tables with the same names.
func Add(to, more table.Bundle) error {
	for _, t := range more {
		into := to.Table(t.Name)
		if into == nil || !slices.Equal(into.Names(), t.Names()) {
			return fmt.Errorf("there is no table %s with the columns %v", t.Name, t.Names())
		}
		for i := range t.Columns {
			from, c := &t.Columns[i], &into.Columns[i]
			c.Numbers, c.Texts = append(c.Numbers, from.Numbers...), append(c.Texts, from.Texts...)
		}
	}
	return nil
}
