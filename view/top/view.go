package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/weftlab/weft/emu/report"
)

// The styles. No information is shown by colour alone.
var (
	bold    = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	titles  = lipgloss.NewStyle().Underline(true)
	sorted  = lipgloss.NewStyle().Underline(true).Bold(true)
	lost    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	marked  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	warning = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
)

const help = "<> sort  r reverse  / filter  t hosts  c classes  p pause  arrows move  q quit"

// maxTrouble is how many lines the monitor may fill.
const maxTrouble = 3

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screenLines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "weft top"
	if m.now != nil {
		v.WindowTitle += " " + m.now.Lab
	}
	return v
}

// screenLines returns the screen: never more lines than it has, and none wider.
func (m *model) screenLines() []string {
	out := append(m.headerLines(), m.titleLine())
	for i := m.top; i < min(m.top+m.portLines(), len(m.list)); i++ {
		out = append(out, m.rowLine(&m.rows[m.list[i]], i == m.at))
	}
	for len(out) < m.height-1 {
		out = append(out, "")
	}
	if m.typing {
		out = append(out, bold.Render("show ports with: ")+m.filter+"_")
	} else {
		out = append(out, faint.Render(help))
	}
	out = out[:min(len(out), max(m.height, 0))]
	for i := range out {
		out[i] = ansi.Truncate(out[i], m.width, "")
	}
	return out
}

// portLines returns how many lines there are for ports.
func (m *model) portLines() int { return max(m.height-len(m.headerLines())-2, 1) }

// headerLines shows the state of the lab and the choice of rows.
func (m *model) headerLines() []string {
	if m.now == nil {
		if m.err != nil {
			return []string{warning.Render(m.err.Error())}
		}
		return []string{"waiting for the first sample"}
	}
	lines := summaryLines(m.before, m.now)
	lines[0] = bold.Render(lines[0])
	switch {
	case m.hasEnded():
		lines = append(lines, warning.Render("the lab has ended: this is its last sample"))
	case m.err != nil:
		lines = append(lines, warning.Render(ansi.Truncate("no sample: "+m.err.Error(), m.width, "")))
	case m.now.Trouble != "":
		trouble := strings.Split(ansi.Wordwrap(m.now.Trouble, max(m.width, 20), ""), "\n")
		if len(trouble) > maxTrouble {
			trouble = append(trouble[:maxTrouble-1], trouble[maxTrouble-1]+" ...")
		}
		for _, s := range trouble {
			lines = append(lines, warning.Render(s))
		}
	}
	return append(lines, m.describeChoice())
}

// describeChoice describes which rows are shown and in which order.
func (m *model) describeChoice() string {
	var b strings.Builder
	order := "largest first"
	if c := columns[m.sort]; c.text != nil {
		order = "in order"
	}
	if m.reverse {
		order = "reversed"
	}
	ports := 0
	for _, i := range m.list {
		if m.rows[i].class == "" {
			ports++
		}
	}
	fmt.Fprintf(&b, "%s (%d) by %s, %s", m.kind, ports, columns[m.sort].title, order)
	if m.filter != "" {
		fmt.Fprintf(&b, ", with %q", m.filter)
	}
	fmt.Fprintf(&b, ", every %v", m.interval)
	if m.still {
		return b.String() + "  " + warning.Render("FROZEN: p resumes")
	}
	return b.String()
}

// summaryLines returns two lines about a lab; what matters is in the first 80 cells.
func summaryLines(before, now *report.Sample) []string {
	l, a := &now.Timing.Lateness, &now.Accounts
	first := fmt.Sprintf("lab %s  %s emulated, %s", now.Lab, formatElapsed(now), report.ClockText(now.Clock, now.Dilation))
	second := fmt.Sprintf("late p50 %s  p99 %s  >%v: %s%%", report.Span(l.P50), report.Span(l.P99), l.Limit, formatPercent(100*float64(l.Share)))
	if before == nil || now.Emulated <= before.Emulated {
		return []string{first, second}
	}
	b, p := &before.Accounts, &before.Timing.Lateness
	dt := (now.Emulated - before.Emulated).Seconds()
	run := (now.Emulated + now.Timing.Stood - before.Emulated - before.Timing.Stood).Seconds() * float64(max(now.Dilation, 1))
	first += fmt.Sprintf("  cpu %.2f, engine %.2f", (now.CPUTime-before.CPUTime).Seconds()/run, (now.EngineCPUTime-before.EngineCPUTime).Seconds()/run)
	if n := l.Count - p.Count; n > 0 {
		second += fmt.Sprintf(", now %s%%", formatPercent(100*float64(l.Beyond-p.Beyond)/float64(n)))
	}
	second += fmt.Sprintf("  drops %s/s  marks %s/s", formatAmount(float64(a.Dropped-b.Dropped)/dt), formatAmount(float64(a.Marked-b.Marked)/dt))
	return []string{first, second}
}

func formatElapsed(s *report.Sample) string {
	d := s.Emulated.Duration()
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// nameWidth returns the width of the first column: that of the longest name,
// but leaving room for the essential columns.
func (m *model) nameWidth() int {
	w := 8
	for _, i := range m.list {
		w = max(w, ansi.StringWidth(m.rows[i].portName()))
	}
	return min(w, max(m.width-essential, 12))
}

// shownColumns returns the columns that fit.
func (m *model) shownColumns() []column {
	left := m.width - m.nameWidth()
	for i := 1; i < len(columns); i++ {
		if left -= 1 + columns[i].width; left < 0 {
			return columns[:i]
		}
	}
	return columns
}

func (m *model) titleLine() string {
	var b strings.Builder
	for i, c := range m.shownColumns() {
		text := m.padCell(i, c.title)
		gap := ""
		if i > 0 {
			gap = " "
		}
		if i == m.sort {
			b.WriteString(titles.Render(gap + text[:len(text)-len(strings.TrimLeft(text, " "))]))
			b.WriteString(sorted.Render(strings.TrimLeft(text, " ")))
			continue
		}
		b.WriteString(titles.Render(gap + text))
	}
	return b.String()
}

// padCell pads or cuts a text to its column's width: texts left-aligned, numbers right-aligned.
func (m *model) padCell(i int, s string) string {
	c := &columns[i]
	w := c.width
	if i == 0 {
		w = m.nameWidth()
	}
	if n := ansi.StringWidth(s); n > w {
		s = "~" + ansi.TruncateLeft(s, n-w+1, "") // ports differ at the end of their names
	}
	space := strings.Repeat(" ", w-ansi.StringWidth(s))
	if c.text != nil {
		return s + space
	}
	return space + s
}

func (m *model) rowLine(r *row, isChosen bool) string {
	var b strings.Builder
	for i, c := range m.shownColumns() {
		if i > 0 {
			b.WriteString(lipgloss.NewStyle().Reverse(isChosen).Render(" "))
		}
		b.WriteString(styleOf(&c, r).Reverse(isChosen).Render(m.padCell(i, c.cellText(r))))
	}
	return b.String()
}

// styleOf highlights unusual values.
func styleOf(c *column, r *row) lipgloss.Style {
	switch {
	case c.title == "DROP/s" && r.drops > 0, c.isDown(r):
		return lost
	case c.title == "MARK/s" && r.marks > 0, c.title == "TRIM/s" && r.trims > 0, c.now != nil && c.now(r):
		return marked
	}
	return lipgloss.NewStyle()
}
