package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/weftlab/weft/netns-lab/vm"
)

// agentProtocol is the protocol that a connection to POST /v1/hosts/{host}/agent
// switches to: a session of package agent.
const agentProtocol = "weft-agent"

// agentTimeout is how long to wait for a guest's agent.
const agentTimeout = 3 * time.Second

// guestNamed finds the virtual machine of a host.
func (l *Lab) guestNamed(name string) *guest {
	for _, g := range l.guests {
		if g.name == name {
			return g
		}
	}
	return nil
}

// machineStatus describes the machine.
func (g *guest) machineStatus(dir string) *Machine {
	m := &Machine{Running: true, PID: g.machine.PID(), Agent: g.machine.Link().IsReady(), Console: vm.ConsolePath(dir), Log: g.machine.Console()}
	select {
	case <-g.machine.Over():
		m.Running, m.Agent, m.Ended = false, false, g.machine.Err().Error()
	default:
	}
	return m
}

// postAgent connects a client to the agent of a guest.
func (s *server) postAgent(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("host")
	g := s.lab.guestNamed(name)
	if g == nil {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is no virtual machine %q in the lab", name))
		return
	}
	select { // the agent may start a moment after the machine is up
	case <-g.machine.Link().Ready():
	case <-g.machine.Over():
	case <-time.After(agentTimeout):
	}
	if m := g.machineStatus(s.lab.guestDir(name)); !m.Agent {
		writeError(w, http.StatusConflict, m.unreachableError(name))
		return
	}
	if r.Header.Get("Upgrade") != agentProtocol {
		writeError(w, http.StatusUpgradeRequired, fmt.Errorf("this connection uses the protocol %s: ask for it with Upgrade", agentProtocol))
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		writeError(w, http.StatusInternalServerError, err)
		return
	}
	_, err = fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", agentProtocol)
	if err = errors.Join(err, buffered.Flush()); err != nil {
		conn.Close()
		return
	}
	// The end of the lab ends the session too: it ends the guest.
	g.machine.Link().RelaySession(begun{conn, buffered.Reader})
}

// unreachableError returns an error that says why no program can run in the machine.
func (m *Machine) unreachableError(name string) error {
	if !m.Running {
		return fmt.Errorf("the virtual machine %s has ended: %s", name, m.Ended)
	}
	return fmt.Errorf("weft's agent does not answer in %s, so no program can be run there from outside: weft shell %s opens its console (your own image must run the agent, see docs/lab/vm.md)", name, name)
}

// begun is a connection from which some data has already been buffered.
type begun struct {
	net.Conn
	rest *bufio.Reader
}

// Read reads the buffered data, then the connection.
func (b begun) Read(p []byte) (int, error) { return b.rest.Read(p) }

// Agent connects to the agent of a guest, for agent.Run.
func (c *Client) Agent(ctx context.Context, host string) (io.ReadWriteCloser, error) {
	p := c.awaitAnswer(ctx, true)
	q, err := http.NewRequestWithContext(p, http.MethodPost, "http://lab/v1/hosts/"+url.PathEscape(host)+"/agent", nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Connection", "Upgrade")
	q.Header.Set("Upgrade", agentProtocol)
	r, err := c.sendRequest(q, http.StatusSwitchingProtocols)
	if err != nil {
		p.endRequest()
		return nil, err
	}
	p.endWait() // only ctx limits the session
	stream, ok := r.Body.(io.ReadWriteCloser)
	if !ok {
		r.Body.Close()
		return nil, errors.New("the lab's control socket did not switch protocols")
	}
	return stream, nil
}
