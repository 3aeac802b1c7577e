package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// monitor is a QMP client of a QEMU (docs/interop/qmp-spec.txt).
type monitor struct {
	conn    net.Conn
	encoder *json.Encoder
	event   func(name string) // receives events, in order

	mu      sync.Mutex // one command at a time
	answers chan answer
	over    chan struct{}
}

type answer struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	Event string          `json:"event"`
	QMP   json.RawMessage `json:"QMP"`
}

type command struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
}

// newMonitor takes over the connection to a QEMU. Commands may be sent at once.
func newMonitor(conn net.Conn, event func(string)) *monitor {
	m := &monitor{conn: conn, encoder: json.NewEncoder(conn), event: event, answers: make(chan answer, 1), over: make(chan struct{})}
	go m.readReplies()
	go func() { _ = m.executeCommand("qmp_capabilities", nil) }() // the first command, or the others are refused
	return m
}

func (m *monitor) readReplies() {
	defer close(m.over)
	d := json.NewDecoder(m.conn)
	for {
		var a answer
		if d.Decode(&a) != nil {
			return
		}
		switch {
		case a.QMP != nil:
		case a.Event != "":
			m.event(a.Event)
		default:
			m.answers <- a
		}
	}
}

// errMonitor means that QEMU no longer answers.
var errMonitor = errors.New("QEMU has exited")

// executeCommand executes a command.
func (m *monitor) executeCommand(name string, arguments any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.encoder.Encode(command{name, arguments}); err != nil {
		return errMonitor
	}
	select {
	case a := <-m.answers:
		if a.Error != nil {
			return fmt.Errorf("QEMU refused %s: %s", name, a.Error.Desc)
		}
		return nil
	case <-m.over:
		return errMonitor
	}
}
