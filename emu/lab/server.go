package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/routing"
	"github.com/weftlab/weft/emu/status"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/mactable"
	"github.com/weftlab/weft/wire"
)

// server answers on the control socket.
type server struct {
	lab      *Lab
	listener net.Listener
	http     http.Server
}

// listenControl creates the control socket, accessible to the owner of the lab only.
func (l *Lab) listenControl() (*server, error) {
	path := filepath.Join(l.hosts.Dir(), SocketName)
	// A lab of this name that was killed leaves its socket in the directory,
	// which this lab now owns.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// Set the mode at creation: others could connect between bind and chmod.
	// The directory is 0700 as well.
	old := unix.Umask(0o177)
	listener, err := net.Listen("unix", path)
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &server{lab: l, listener: listener}
	s.http.Handler = s.makeRoutes()
	return s, nil
}

func (s *server) serveRequests(warn func(error)) {
	if err := s.http.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		warn(fmt.Errorf("control socket: %w", err))
	}
}

// closeServer closes the socket after answers in progress (captures, the report of a down) have
// had up to 2 s to finish.
func (s *server) closeServer() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	s.listener.Close()
}

func writeReply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	// Ignore a client that has gone away.
	_ = e.Encode(body)
}

func writeError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(errorBody{err.Error()})
}

// doOnEngine runs f on the engine's thread and reports whether it ran.
func (s *server) doOnEngine(w http.ResponseWriter, f func()) bool {
	if err := s.lab.doStopped(f); err != nil {
		writeError(w, http.StatusGone, err)
		return false
	}
	return true
}

func (s *server) getLab(w http.ResponseWriter, _ *http.Request) {
	lab, info := s.lab.plan, s.lab.hosts.Info()
	out := Status{Name: lab.Name, File: lab.File, Dilation: lab.Dilation, PID: info.PID, Started: info.Started, Clocks: report.NodeClocks(lab)}
	if !s.doOnEngine(w, func() { out.Emulated = s.lab.fabric.Now() }) {
		return
	}
	out.Trouble = s.lab.monitor.currentWarning()
	for n := range lab.Nodes {
		node := &lab.Nodes[n]
		if node.Kind == plan.Switch {
			out.Switches = append(out.Switches, node.Name)
			if node.Router != nil {
				out.Routers = append(out.Routers, Router{Name: node.Name, Addresses: textsOf(node.Router.Addresses), Ports: interfacesOf(lab, node)})
			}
			continue
		}
		h := Host{Name: node.Name, Attach: node.Attach.String()}
		if isReal(node) {
			h.Namespace = netnslab.NamespaceName(lab.Name, node.Name)
		}
		if g := s.lab.guestNamed(node.Name); g != nil {
			h.VM = g.machineStatus(s.lab.guestDir(node.Name))
		}
		h.Interfaces = interfacesOf(lab, node)
		out.Hosts = append(out.Hosts, h)
	}
	writeReply(w, out)
}

func interfacesOf(lab *plan.Plan, node *plan.Node) (out []Interface) {
	for _, p := range node.Ports {
		i := Interface{Name: p.Name, MAC: net.HardwareAddr(p.MAC[:]).String(), Addresses: textsOf(p.Addresses)}
		if p.Link >= 0 {
			far := lab.Links[p.Link].Ends[1-p.End]
			i.Peer = lab.PortName(far.Node, far.Port)
		}
		out = append(out, i)
	}
	return out
}

func textsOf[T fmt.Stringer](addresses []T) []string {
	out := make([]string, len(addresses))
	for i, a := range addresses {
		out[i] = a.String()
	}
	return out
}

func (s *server) getReport(w http.ResponseWriter, _ *http.Request) { writeReply(w, s.lab.Report()) }

func (s *server) getSample(w http.ResponseWriter, _ *http.Request) {
	sample, err := s.lab.Sample()
	if err != nil {
		writeError(w, http.StatusGone, err)
		return
	}
	writeReply(w, sample)
}

func (s *server) getPorts(w http.ResponseWriter, _ *http.Request) {
	var out []status.Port
	if s.doOnEngine(w, func() { out = s.lab.fabric.Status() }) {
		writeReply(w, out)
	}
}

func (s *server) getPort(w http.ResponseWriter, r *http.Request) {
	node, index, err := s.lab.plan.Endpoint(r.PathValue("endpoint"))
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	var out status.Port
	if s.doOnEngine(w, func() { out = s.lab.fabric.PortStatus(node, index) }) {
		writeReply(w, out)
	}
}

func (s *server) getPause(w http.ResponseWriter, r *http.Request) {
	node, index, err := s.lab.plan.Endpoint(r.PathValue("endpoint"))
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	var out status.PauseCheck
	if !s.doOnEngine(w, func() { out, err = s.lab.fabric.CheckPause(node, index) }) {
		return
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	writeReply(w, out)
}

// getNICs returns the NICs of a host or an interface, or all.
func (s *server) getNICs(w http.ResponseWriter, r *http.Request) {
	answerOf(s, w, r, s.lab.fabric.NICsOf)
}

// getQPs returns the queue pairs of a host or an interface, or all.
func (s *server) getQPs(w http.ResponseWriter, r *http.Request) {
	answerOf(s, w, r, s.lab.fabric.QPsOf)
}

// getEdges returns the flows of the edge services of a host or an interface, or all.
func (s *server) getEdges(w http.ResponseWriter, r *http.Request) {
	answerOf(s, w, r, s.lab.fabric.EdgeFlowsOf)
}

// answerOf answers with what of returns for the name in the path, "" if there is none.
func answerOf[T any](s *server, w http.ResponseWriter, r *http.Request, of func(name string) ([]T, error)) {
	var out []T
	var err error
	if !s.doOnEngine(w, func() { out, err = of(r.PathValue("name")) }) {
		return
	}
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	writeReply(w, out)
}

func (s *server) getTable(w http.ResponseWriter, r *http.Request) {
	lab := s.lab.plan
	n, ok := lab.Node(r.PathValue("switch"))
	if !ok || lab.Nodes[n].Kind != plan.Switch {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is no switch %q", r.PathValue("switch")))
		return
	}
	var table switches.Table
	var routes []routing.Route
	var learned []mactable.Entry
	var now units.Time
	var counts status.Switch
	if !s.doOnEngine(w, func() {
		table = s.lab.fabric.Switches[n].Table()
		learned, now = s.lab.fabric.MACs(n)
		counts = s.lab.fabric.SwitchStatusOf(n)
		if lab.Nodes[n].Router != nil {
			routes = s.lab.fabric.Routes(n)
		}
	}) {
		return
	}
	if lab.Nodes[n].Router != nil {
		writeReply(w, s.routerTable(n, routes))
		return
	}
	out := Table{Switch: lab.Nodes[n].Name}
	for id, e := range s.lab.fabric.Endpoints() {
		p := &lab.Nodes[e.Node].Ports[e.Port]
		route := Route{
			Host: lab.PortName(e.Node, e.Port), MAC: net.HardwareAddr(p.MAC[:]).String(), Addresses: textsOf(p.Addresses), Ports: []string{},
		}
		g := table.Route[id]
		route.Static = table.IsStatic(g)
		ports, weights := table.GroupWeights(g)
		for i, p := range ports {
			route.Ports = append(route.Ports, lab.Nodes[n].Ports[p].Name)
			if weights[i] != weights[0] {
				route.Weights = weights
			}
		}
		out.Routes = append(out.Routes, route)
	}
	for i, in := range table.Tree {
		if in {
			out.Tree = append(out.Tree, lab.Nodes[n].Ports[i].Name)
		}
	}
	for _, e := range learned {
		at := s.lab.fabric.MACPlace(e)
		l := Learned{VLAN: e.VLAN, Host: lab.PortName(at.Node, at.Port), Ports: []string{}, Age: now - e.Seen, Moved: e.Moved}
		mac := make(net.HardwareAddr, wire.MACLen)
		e.MAC.EncodeTo(mac)
		l.MAC = mac.String()
		ports, _ := table.GroupWeights(table.Route[e.At])
		for _, p := range ports {
			l.Ports = append(l.Ports, lab.Nodes[n].Ports[p].Name)
		}
		out.Learned = append(out.Learned, l)
	}
	out.Counts = &counts
	writeReply(w, out)
}

// routerTable returns the table of a router.
func (s *server) routerTable(n int, routes []routing.Route) Table {
	lab := s.lab.plan
	out := Table{Switch: lab.Nodes[n].Name, Router: true, Routes: []Route{}, Tree: []string{}}
	for _, r := range routes {
		p := Prefix{To: r.To.String(), Local: r.Local, Ports: []string{}, Weights: r.Weights, Static: r.Static}
		for _, i := range r.Ports {
			p.Ports = append(p.Ports, lab.Nodes[n].Ports[i].Name)
		}
		for _, e := range r.Via {
			p.Via = append(p.Via, lab.PortName(e.Node, e.Port))
		}
		out.Prefixes = append(out.Prefixes, p)
	}
	return out
}

func (s *server) patchLink(w http.ResponseWriter, r *http.Request) {
	lab := s.lab.plan
	node, index, err := lab.Endpoint(r.PathValue("endpoint"))
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	p := lab.Nodes[node].Ports[index]
	if p.Link < 0 {
		writeError(w, http.StatusBadRequest, fmt.Errorf("%s has no link", lab.PortName(node, index)))
		return
	}
	var dir [2]bool
	switch d := r.URL.Query().Get("direction"); d {
	case "", Both:
		dir = [2]bool{true, true}
	case Egress:
		dir[p.End] = true
	case Ingress:
		dir[1-p.End] = true
	default:
		writeError(w, http.StatusBadRequest, noDirection(d))
		return
	}
	patch, err := change.ReadPatch(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", tooLong.Limit))
		return
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	var out SetResult
	var serr error
	if !s.doOnEngine(w, func() {
		if serr = s.lab.fabric.Set(p.Link, dir, patch); serr != nil {
			return
		}
		for _, e := range lab.Links[p.Link].Ends {
			out.Ports = append(out.Ports, s.lab.fabric.PortStatus(e.Node, e.Port))
		}
	}) {
		return
	}
	if serr != nil {
		writeError(w, http.StatusBadRequest, serr)
		return
	}
	writeReply(w, out)
}

func (s *server) patchQueue(w http.ResponseWriter, r *http.Request) {
	lab := s.lab.plan
	node, index, err := lab.Endpoint(r.PathValue("endpoint"))
	if err != nil {
		writeError(w, http.StatusNotFound, err)
		return
	}
	class, err := lab.ClassIndex(node, index, r.URL.Query().Get("class"))
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	patch, err := change.ReadQueuePatch(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", tooLong.Limit))
		return
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	var out status.Port
	var serr error
	if !s.doOnEngine(w, func() {
		if serr = s.lab.fabric.SetQueue(plan.End{Node: node, Port: index}, class, patch); serr == nil {
			out = s.lab.fabric.PortStatus(node, index)
		}
	}) {
		return
	}
	if serr != nil {
		writeError(w, http.StatusBadRequest, serr)
		return
	}
	writeReply(w, out)
}

// getCapture streams pcapng until the client goes away, the lab ends or the
// requested number of packets has been written.
func (s *server) getCapture(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ports, err := s.watchedPorts(q["port"], q.Get("direction"))
	var unknown *unknownPort
	if errors.As(err, &unknown) {
		writeError(w, http.StatusNotFound, err)
		return
	}
	var o capture.Options
	if err == nil {
		o, err = captureOptions(q.Get("snaplen"), q.Get("count"))
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	o.Filter, o.Epoch = q.Get("filter"), s.lab.clock.Start()
	o.Comment = fmt.Sprintf("weft lab %s, wall clock, emulated time, dilation %d", s.lab.plan.Name, s.lab.plan.Dilation)
	c, err := s.lab.fabric.NewCapture(ports, o)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	id, err := s.lab.startCapture(ports, c)
	if err != nil {
		writeError(w, http.StatusGone, err)
		return
	}
	defer s.lab.endCapture(id)
	w.Header().Set("Content-Type", "application/x-pcapng")
	w.Header().Set(captureID, strconv.Itoa(id))
	w.Header().Set("Trailer", captureTrailer)
	w.WriteHeader(http.StatusOK)
	summary, err := c.Run(r.Context(), w)
	text, _ := json.Marshal(summary)
	w.Header().Set(captureTrailer, string(text))
	if err != nil && r.Context().Err() == nil {
		// The headers have been sent: cutting the stream is the only way left
		// to tell the client that it is incomplete.
		panic(http.ErrAbortHandler)
	}
}

// deleteCapture ends a capture cleanly: its stream is completed.
func (s *server) deleteCapture(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !s.lab.endCapture(id) {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is no capture %q, or it has ended", r.PathValue("id")))
		return
	}
	writeReply(w, struct{}{})
}

// The headers of a capture's answer: the number that DELETE takes and, after
// the stream, its capture.Summary.
const (
	captureID      = "X-Weft-Capture-Id"
	captureTrailer = "X-Weft-Capture"
)

// unknownPort is the error of a port that is not in the lab.
type unknownPort struct{ error }

// watchedPorts finds the ports of a capture.
func (s *server) watchedPorts(names []string, direction string) (ports []fabric.Watched, err error) {
	if len(names) == 0 {
		return nil, errors.New("a capture needs at least one port")
	}
	in, out := direction != Egress, direction != Ingress
	if direction != "" && direction != Both && in && out {
		return nil, noDirection(direction)
	}
	for _, name := range names {
		node, index, err := s.lab.plan.Endpoint(name)
		if err != nil {
			return nil, &unknownPort{err}
		}
		ports = append(ports, fabric.Watched{Node: node, Port: index, In: in, Out: out})
	}
	return ports, nil
}

func noDirection(d string) error {
	return fmt.Errorf("%q is not a direction (there are %s, %s and %s)", d, Both, Egress, Ingress)
}

func captureOptions(snaplen, count string) (o capture.Options, err error) {
	if snaplen != "" {
		if o.SnapLen, err = strconv.Atoi(snaplen); err != nil || o.SnapLen < 1 {
			return o, fmt.Errorf("snaplen %q is not a number of bytes", snaplen)
		}
	}
	if count != "" {
		if o.Count, err = strconv.ParseUint(count, 10, 64); err != nil {
			return o, fmt.Errorf("count %q is not a number of packets", count)
		}
	}
	return o, nil
}

// startCapture feeds c from now on and returns the number for endCapture.
func (l *Lab) startCapture(ports []fabric.Watched, c *capture.Capture) (id int, err error) {
	err = l.doStopped(func() {
		stop := l.fabric.Watch(ports, c)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.nextID++
		id = l.nextID
		l.captures[id] = stop
	})
	return id, err
}

// endCapture ends a capture and reports whether it was in progress.
func (l *Lab) endCapture(id int) (ended bool) {
	_ = l.doStopped(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if stop := l.captures[id]; stop != nil {
			stop()
			delete(l.captures, id)
			ended = true
		}
	})
	return ended
}

// postDown ends the lab and answers with its final report.
func (s *server) postDown(w http.ResponseWriter, _ *http.Request) {
	s.lab.Stop()
	<-s.lab.stopped
	writeReply(w, s.lab.final)
}
