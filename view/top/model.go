// Package top shows a running lab in a terminal: its ports, the rates at which
// they carry, queue, mark, trim, drop and pause, and how the emulator keeps up.
package top

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
)

// Source takes a sample of a lab. status.ErrEnded means that the lab is gone.
type Source func(context.Context) (*report.Sample, error)

// patience is how long a sample may take.
const patience = 10 * time.Second

// model is the view's state. It is determined by the samples and keys it was given.
type model struct {
	take     Source
	interval time.Duration

	width, height int
	before, now   *report.Sample
	err           error // of the last sample
	rows          []row // of now

	sort    int // column
	reverse bool
	filter  string // part of a port's name
	typing  bool   // the filter
	kind    kind
	open    map[string]bool // ports that show their classes
	still   bool            // sampling is stopped

	list []int // of rows, as shown
	at   int   // in list: the selected line
	top  int   // in list: the first line on the screen
}

// kind selects the nodes whose ports are shown.
type kind int

const (
	allKinds kind = iota
	switches
	hosts
	kinds
)

func (k kind) String() string { return [...]string{"all ports", "switches", "hosts"}[k] }

func (k kind) hasPort(p *status.Port) bool {
	return k == allKinds || (k == switches) == (p.Kind == "switch")
}

// newModel returns a view of 80 by 24 cells until the terminal reports its size.
func newModel(take Source, interval time.Duration) *model {
	return &model{take: take, interval: interval, width: 80, height: 24, sort: outColumn, open: map[string]bool{}}
}

// sampled is a sample, or the error if there is none.
type sampled struct {
	sample *report.Sample
	err    error
}

// due means that it is time for the next sample.
type due struct{}

func (m *model) Init() tea.Cmd { return m.takeSample }

func (m *model) takeSample() tea.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := m.take(ctx)
	return sampled{s, err}
}

// Update takes a sample, a key or a new size of the terminal.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case sampled:
		m.processSample(msg)
		next = tea.Tick(m.interval, func(time.Time) tea.Msg { return due{} })
	case due:
		next = m.takeSample
		if m.still {
			next = tea.Tick(m.interval, func(time.Time) tea.Msg { return due{} })
		}
	case tea.KeyPressMsg:
		next = m.handleKey(msg.String(), msg.Text)
	}
	m.updateRows()
	return m, next
}

// processSample processes one sample. A sample with an earlier time is from another run:
// the lab has been restarted.
func (m *model) processSample(s sampled) {
	if m.err = s.err; m.err != nil || m.still {
		return
	}
	m.before, m.now = m.now, s.sample
	if m.before != nil && m.before.Emulated >= m.now.Emulated {
		m.before = nil
	}
	m.rows = rowsOf(m.before, m.now)
}

// hasEnded reports whether the lab is gone.
func (m *model) hasEnded() bool { return errors.Is(m.err, status.ErrEnded) }

// handleKey handles a key.
func (m *model) handleKey(key, text string) tea.Cmd {
	switch key {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	}
	if m.typing {
		m.editFilter(key, text)
		return nil
	}
	page := max(m.portLines(), 1)
	switch key {
	case "q":
		return tea.Quit
	case "left", "<", ",":
		m.chooseColumn(-1)
	case "right", ">", ".":
		m.chooseColumn(1)
	case "r":
		m.reverse = !m.reverse
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
	case "t":
		m.kind = (m.kind + 1) % kinds
	case "c", "enter":
		if r := m.chosenRow(); r != nil {
			m.open[r.port.Name] = !m.open[r.port.Name]
		}
	case "space", "p":
		m.still = !m.still
	case "up", "k":
		m.at--
	case "down", "j":
		m.at++
	case "pgup", "ctrl+b":
		m.at -= page
	case "pgdown", "ctrl+f":
		m.at += page
	case "home", "g":
		m.at = 0
	case "end", "G":
		m.at = len(m.list)
	}
	return nil
}

// editFilter edits the filter.
func (m *model) editFilter(key, text string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace", "ctrl+h":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-n]
	case "ctrl+u":
		m.filter = ""
	default:
		m.filter += text
	}
}

// chooseColumn sorts by another of the shown columns.
func (m *model) chooseColumn(by int) {
	n := len(m.shownColumns())
	m.sort, m.reverse = (min(m.sort, n-1)+by+n)%n, false
}

// chosenRow returns the row of the selected line.
func (m *model) chosenRow() *row {
	if m.at < len(m.list) {
		return &m.rows[m.list[m.at]]
	}
	return nil
}

// updateRows updates the list of shown rows and keeps the selected line on the screen.
func (m *model) updateRows() {
	m.sort = min(m.sort, len(m.shownColumns())-1)
	m.list = arrangeRows(m.rows, &columns[m.sort], m.reverse, func(r *row) bool {
		return (r.class == "" || m.open[r.port.Name]) && m.kind.hasPort(r.port) &&
			strings.Contains(strings.ToLower(r.port.Name), strings.ToLower(m.filter))
	})
	m.at = max(min(m.at, len(m.list)-1), 0)
	m.top = max(min(m.top, m.at, len(m.list)-m.portLines()), m.at-m.portLines()+1, 0)
}

// arrangeRows returns the indices of the rows to show: ports ordered by a column,
// each followed by its classes.
func arrangeRows(rows []row, by *column, reverse bool, show func(*row) bool) []int {
	var ports []int
	for i := range rows {
		if rows[i].class == "" && show(&rows[i]) {
			ports = append(ports, i)
		}
	}
	slices.SortStableFunc(ports, func(a, b int) int { return by.compareRows(&rows[a], &rows[b], reverse) })
	list := make([]int, 0, len(ports))
	for _, i := range ports {
		list = append(list, i)
		for i++; i < len(rows) && rows[i].class != ""; i++ {
			if show(&rows[i]) {
				list = append(list, i)
			}
		}
	}
	return list
}
