package flowfile

import (
	"fmt"
	"io"
	"strings"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// ReadHtsim reads the connection matrices of htsim (Broadcom/csg-htsim,
// sim/datacenter/connection_matrix.cpp): lines "Nodes N", "Connections M" and, if there
// are triggers, "Triggers K"; then a line for each connection and trigger:
//
//	SRC->DST start PICOSECONDS size BYTES
//	SRC->DST id ID start PICOSECONDS size BYTES send_done_trigger ID
//	SRC->DST id ID trigger ID size BYTES recv_done_trigger ID
//	trigger id ID oneshot
//	trigger id ID multishot
//	trigger id ID barrier count N
//
// Empty lines and lines that begin with # are skipped. htsim reads times with
// approximately seven digits; here they are exact.
//
// The number after prio has no effect, as in htsim: it is the rank of a connection's PULLs, and the
// pull queues do not look at it. It refuses, with the name and the line: connections without a
// size or with size 0, which htsim runs forever; addon; failures.
func ReadHtsim(r io.Reader) (File, error) {
	s := newScanner(r)
	m := matrix{flows: map[int]int{}, triggers: map[int]int{}, counts: map[string]int{}}
	for fields := s.nextFields(); fields != nil; fields = s.nextFields() {
		if err := m.readLine(fields, s.line); err != nil {
			return File{}, s.lineErrorf("%w", err)
		}
	}
	if err := s.scanError(); err != nil {
		return File{}, err
	}
	if err := m.checkHeader(s); err != nil {
		return File{}, err
	}
	m.file.Nodes = m.counts["Nodes"]
	return m.file, nil
}

// matrix is a connection matrix being read.
type matrix struct {
	file     File
	counts   map[string]int // counts in the header
	flows    map[int]int    // lines, by id
	triggers map[int]int    // positions in the file's list, from 1, by id
	defined  []int          // lines that define triggers; 0 if not seen yet
	used     []int          // lines that first use them
	ids      []int
}

func (m *matrix) readLine(fields []string, line int) error {
	switch first := fields[0]; {
	case strings.HasPrefix(first, "#"):
		return nil
	case first == "Nodes" || first == "Connections" || first == "Triggers" || first == "Failures":
		if len(m.file.Flows)+len(m.ids) > 0 {
			return fmt.Errorf("%s must come before connections and triggers", first)
		}
		if len(fields) != 2 {
			return fmt.Errorf("%s takes one number", first)
		}
		n, err := parseNumber("a number", fields[1])
		if err != nil {
			return err
		}
		if _, twice := m.counts[first]; twice {
			return fmt.Errorf("duplicate %s", first)
		}
		if first == "Failures" && n > 0 {
			return fmt.Errorf("failures are not supported: take links down with events of the lab")
		}
		m.counts[first] = n
		return nil
	case first == "failure":
		return fmt.Errorf("failures are not supported: take links down with events of the lab")
	case first == "trigger":
		return m.readTrigger(fields[1:], line)
	case strings.Contains(first, "->"):
		return m.readConnection(fields, line)
	default:
		return fmt.Errorf("%q: a line begins with Nodes, Connections, Triggers, SRC->DST or trigger", first)
	}
}

// words iterates over the words of a line, which may be followed by a number.
type words struct{ rest []string }

func (w *words) nextWord() (word string, ok bool) {
	if len(w.rest) == 0 {
		return "", false
	}
	word, w.rest = w.rest[0], w.rest[1:]
	return word, true
}

// nextNumber returns the number after a word.
func (w *words) nextNumber(of string, minValue int) (int, error) {
	text, ok := w.nextWord()
	if !ok {
		return 0, fmt.Errorf("%s without a number", of)
	}
	n, err := parseNumber("a number", text)
	if err == nil && n < minValue {
		err = fmt.Errorf("%s %d: it must be at least %d", of, n, minValue)
	}
	return n, err
}

// triggerPlace returns the position of a trigger by its id, from 1; it adds a trigger not seen
// before.
func (m *matrix) triggerPlace(id, line int) int {
	if m.triggers[id] == 0 {
		m.file.Triggers = append(m.file.Triggers, pattern.Trigger{})
		m.ids = append(m.ids, id)
		m.defined = append(m.defined, 0)
		m.used = append(m.used, line)
		m.triggers[id] = len(m.ids)
	}
	return m.triggers[id]
}

func (m *matrix) readConnection(fields []string, line int) error {
	from, to, _ := strings.Cut(fields[0], "->")
	f := pattern.Listed{Line: line}
	var err error
	if f.From, err = m.parseHost(from); err != nil {
		return err
	}
	if f.To, err = m.parseHost(to); err != nil {
		return err
	}
	w := words{fields[1:]}
	var timed, sized bool
	for word, ok := w.nextWord(); ok; word, ok = w.nextWord() {
		var n int
		switch word {
		case "start":
			text, _ := w.nextWord()
			f.At, err = parseTime(text, "ps")
			timed = true
		case "size":
			n, err = w.nextNumber(word, 0)
			f.Size, sized = units.Bytes(n), n > 0
		case "id":
			if n, err = w.nextNumber(word, 1); err == nil {
				if before := m.flows[n]; before > 0 {
					return fmt.Errorf("id %d is already used by the connection in line %d", n, before)
				}
				m.flows[n] = line
			}
		case "trigger", "send_done_trigger", "recv_done_trigger":
			if n, err = w.nextNumber(word, 1); err == nil {
				*map[string]*int{"trigger": &f.Trigger, "send_done_trigger": &f.Sent, "recv_done_trigger": &f.Received}[word] = m.triggerPlace(n, line)
			}
		case "prio": // htsim reads it, and its pull queues do not look at it (sim/fairpullqueue.cpp)
			_, err = w.nextNumber(word, 0)
		case "addon":
			return fmt.Errorf("%s is not supported", word)
		default:
			return fmt.Errorf("%q: a connection has start, size, id, prio, trigger, send_done_trigger and recv_done_trigger", word)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case !sized:
		return fmt.Errorf("a connection without a size runs forever in htsim, which is not supported: give it a size")
	case timed && f.Trigger > 0:
		return fmt.Errorf("both start and trigger")
	case !timed && f.Trigger == 0:
		return fmt.Errorf("neither start nor trigger")
	}
	m.file.Flows = append(m.file.Flows, f)
	return nil
}

// parseHost parses the number of a host.
func (m *matrix) parseHost(text string) (int, error) {
	nodes, ok := m.counts["Nodes"]
	if !ok {
		return 0, fmt.Errorf("a line \"Nodes N\" must stand before the connections")
	}
	n, err := parseNumber("the number of a host", text)
	if err == nil && n >= nodes {
		err = fmt.Errorf("there is no host %d: the file has %d hosts, numbered from 0", n, nodes)
	}
	return n, err
}

func (m *matrix) readTrigger(fields []string, line int) error {
	w := words{fields}
	var t pattern.Trigger
	id, kinds := 0, 0
	for word, ok := w.nextWord(); ok; word, ok = w.nextWord() {
		var err error
		switch word {
		case "id":
			id, err = w.nextNumber(word, 1)
		case "count":
			t.Count, err = w.nextNumber(word, 1)
		case "oneshot":
			t.Kind, kinds = pattern.Oneshot, kinds+1
		case "multishot":
			t.Kind, kinds = pattern.Multishot, kinds+1
		case "barrier":
			t.Kind, kinds = pattern.Barrier, kinds+1
		default:
			err = fmt.Errorf("%q: a trigger has id, count, and oneshot, multishot or barrier", word)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case id == 0:
		return fmt.Errorf("a trigger without id")
	case kinds != 1:
		return fmt.Errorf("a trigger must be one of oneshot, multishot and barrier")
	case (t.Kind == pattern.Barrier) != (t.Count > 0):
		return fmt.Errorf("a barrier needs a count, other triggers have none")
	}
	i := m.triggerPlace(id, line) - 1
	if m.defined[i] > 0 {
		return fmt.Errorf("trigger %d already exists, in line %d", id, m.defined[i])
	}
	m.defined[i] = line
	m.file.Triggers[i] = t
	return nil
}

// checkHeader compares the header with the rest of the file.
func (m *matrix) checkHeader(s *scanner) error {
	for i, line := range m.defined {
		if line == 0 {
			return fmt.Errorf("line %d: there is no trigger with id %d", m.used[i], m.ids[i])
		}
	}
	if claimed, has := m.counts["Connections"], len(m.file.Flows); claimed != has {
		return s.lineErrorf("the file says Connections %d, but has %d", claimed, has)
	}
	if claimed, has := m.counts["Triggers"], len(m.ids); claimed != has {
		return s.lineErrorf("the file says Triggers %d, but has %d", claimed, has)
	}
	if len(m.file.Flows) == 0 {
		return s.lineErrorf("a file without connections")
	}
	return nil
}
