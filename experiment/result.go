package experiment

import (
	"encoding/json"
	"fmt"
	"io"
)

// Report is the result of an experiment. It contains no times of the machine except
// those reported by real programs: the same experiment in virtual time gives the same
// bytes, no matter which machine ran which cell.
type Report struct {
	Name     string   `json:"name"`
	Title    string   `json:"title,omitempty"`
	File     string   `json:"file"`
	Quick    bool     `json:"quick,omitempty"` // whether this is the file's quick form
	Version  string   `json:"version"`         // of weft
	Command  string   `json:"command"`         // the command that repeats the experiment
	Clocks   []Clock  `json:"clocks"`
	Seeds    []uint64 `json:"seeds"`
	Factors  []Factor `json:"factors"`
	Text     string   `json:"text"` // text of the file
	LabName  string   `json:"lab_name"`
	LabText  string   `json:"lab"`
	Measures []Header `json:"measures"`

	Cells     []CellReport `json:"cells"`
	Summaries []Summary    `json:"summaries"`
	Verdicts  []Verdict    `json:"expectations,omitempty"`
	Partial   string       `json:"partial,omitempty"` // why some cells were not run
	// Unsteady are the combinations of levels without a steady state.
	Unsteady []Growth `json:"unsteady,omitempty"`
}

// Header describes a measure in a report.
type Header struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Unit   string `json:"unit,omitempty"` // a name with the unit's ending: see package table
	Of     string `json:"of"`             // how it is measured
	Center Center `json:"center"`         // of the seeds
}

// CellReport is one cell of a report.
type CellReport struct {
	Levels []string `json:"levels"`
	Seed   uint64   `json:"seed"`
	Key    string   `json:"key"`
	Outcome
}

// HasFailed reports whether a cell failed or an expectation did not hold.
func (r *Report) HasFailed() bool {
	for i := range r.Cells {
		if r.Cells[i].State == Failed {
			return true
		}
	}
	for i := range r.Verdicts {
		if !r.Verdicts[i].Held {
			return true
		}
	}
	return false
}

// CountCells counts the cells in a state.
func (r *Report) CountCells(s State) (n int) {
	for i := range r.Cells {
		if r.Cells[i].State == s {
			n++
		}
	}
	return n
}

// CountLate counts the cells with which the machine did not keep up, but which count.
func (r *Report) CountLate() (n int) {
	for i := range r.Cells {
		if r.Cells[i].Late != "" {
			n++
		}
	}
	return n
}

// CountTraffic counts the cells in which modelled traffic failed.
func (r *Report) CountTraffic() (n int) {
	for i := range r.Cells {
		if r.Cells[i].Traffic != "" {
			n++
		}
	}
	return n
}

// Report summarizes an experiment.
func (e *Experiment) Report(jobs []Job, outcomes []Outcome, version, command string) *Report {
	r := &Report{
		Name: e.Name, Title: e.Title, File: e.File, Quick: e.Quick, Version: version, Command: command, Clocks: e.Clocks, Seeds: e.Seeds,
		Factors: e.Factors, Text: string(e.Text), LabName: e.Lab, LabText: string(e.LabText), Summaries: e.SummarizeOutcomes(outcomes),
	}
	for i := range e.Measures {
		m := &e.Measures[i]
		r.Measures = append(r.Measures, Header{m.Name, m.Title, m.Unit(), m.DescribeMeasure(), m.Center})
	}
	for i := range e.Cells {
		c := CellReport{Seed: e.Cells[i].Seed, Key: jobs[i].Key, Outcome: outcomes[i], Levels: []string{}}
		for f, l := range e.Cells[i].Levels {
			c.Levels = append(c.Levels, e.Factors[f].Levels[l])
		}
		r.Cells = append(r.Cells, c)
	}
	if missing := r.CountCells(Missing); missing > 0 {
		r.Partial = fmt.Sprintf("%d of %d cells were not run", missing, len(r.Cells))
	}
	r.Verdicts = e.EvaluateExpectations(r.Summaries)
	r.Unsteady = e.findUnsteady(outcomes)
	return r
}

// WriteJSON writes the report.
func (r *Report) WriteJSON(w io.Writer) error {
	j := json.NewEncoder(w)
	j.SetIndent("", "  ")
	j.SetEscapeHTML(false)
	return j.Encode(r)
}

// ReadReport reads what WriteJSON has written.
func ReadReport(data []byte) (*Report, error) {
	r := &Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("it is not the result of an experiment: %w", err)
	}
	if r.Name == "" || r.Cells == nil {
		return nil, fmt.Errorf("it is not the result of an experiment: it has no name or no cells")
	}
	return r, nil
}
