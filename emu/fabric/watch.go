package fabric

import (
	"fmt"
	"slices"
	"sync"

	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// Watched is one port of a capture and the directions that are captured.
type Watched struct {
	Node, Port int
	In, Out    bool
}

// watch feeds the captures of one port.
type watch struct {
	encode *encoder // of modelled flows
	render renderer // of all others
	buf    []byte   // for packets whose bytes render makes
	taps   []tap
}

// shared is a capture's tap, which has a single producer: if the ports of a
// capture belong to several shards they take turns.
type shared struct {
	lock bool
	mu   sync.Mutex
	tap  *capture.Tap
}

func (s *shared) put(c capture.Packet) {
	if s.lock {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	s.tap.PutPacket(c)
}

type tap struct {
	to      *shared
	index   int32 // of the port in the capture
	in, out bool
}

// NewCapture prepares a capture of ports; o must have everything but Interfaces
// and Describe. Watch starts it. NewCapture may be called from any goroutine.
func (f *Fabric) NewCapture(ports []Watched, o capture.Options) (*capture.Capture, error) {
	o.Interfaces = nil
	for _, w := range ports {
		i := capture.Interface{Name: f.Plan.PortName(w.Node, w.Port), Description: "not connected"}
		if p := &f.Plan.Nodes[w.Node].Ports[w.Port]; p.Link >= 0 {
			far := f.Plan.Links[p.Link].Ends[1-p.End]
			i.Speed = f.Plan.Links[p.Link].Dir[p.End].Rate
			i.Description = "link to " + f.Plan.PortName(far.Node, far.Port)
		}
		o.Interfaces = append(o.Interfaces, i)
	}
	o.Describe = func(index int32, dir capture.Direction, fate uint8, depth units.Bytes) string {
		return describe(f.Plan.PortName(ports[index].Node, ports[index].Port), dir, packet.Fate(fate), depth)
	}
	return capture.New(o)
}

// describe returns the comment on a packet in a capture: what happened, where,
// and the queue that was the reason.
func describe(name string, dir capture.Direction, fate packet.Fate, depth units.Bytes) string {
	where := name + " in"
	if dir == capture.Out {
		where = name + " out"
	}
	switch fate {
	case packet.Fine:
		return ""
	case packet.Xoff, packet.Xon:
		if dir == capture.In {
			return fmt.Sprintf("%s: the peer of %s %s", fate, name, fate.Description())
		}
		return fmt.Sprintf("%s: %s %s, %d B that came in wait", fate, name, fate.Description(), int64(depth))
	case packet.Credit:
		if dir == capture.In {
			return fmt.Sprintf("%s: the peer of %s %s", fate, name, fate.Description())
		}
		return fmt.Sprintf("%s: %s %s, %d B that came in wait", fate, name, fate.Description(), int64(depth))
	case packet.Marked, packet.Trimmed, packet.Returned, packet.QueueFull, packet.BufferFull, packet.HeadroomFull, packet.HeaderFull, packet.EarlyDrop:
		return fmt.Sprintf("%s at %s, queue %d B", fate.Description(), where, int64(depth))
	}
	return fmt.Sprintf("%s at %s", fate.Description(), where)
}

// Watch feeds c with the packets of ports from now on. The returned function
// stops that. The packets are in order of time if the ports share one engine, as
// in a fabric of New.
func (f *Fabric) Watch(ports []Watched, c *capture.Capture) (stop func()) {
	to := &shared{tap: c.Tap()}
	for _, w := range ports {
		to.lock = to.lock || f.ShardOf(w.Node) != f.ShardOf(ports[0].Node)
	}
	for i, w := range ports {
		p := f.ports[w.Node][w.Port]
		watched := f.watches[p]
		if watched == nil {
			watched = &watch{encode: &encoder{fabric: f}}
			watched.render.flows = watched.encode
			f.watches[p] = watched
			p.SetObserver(f.nowAt(w.Node), watched)
		}
		watched.taps = append(watched.taps, tap{to: to, index: int32(i), in: w.In, out: w.Out})
	}
	return func() {
		for _, w := range ports {
			p := f.ports[w.Node][w.Port]
			watched := f.watches[p]
			if watched == nil {
				continue
			}
			watched.taps = slices.DeleteFunc(watched.taps, func(t tap) bool { return t.to == to })
			if len(watched.taps) == 0 {
				delete(f.watches, p)
				p.SetObserver(f.nowAt(w.Node), nil)
			}
		}
		c.Close()
	}
}

// Observe copies one packet into every capture that wants it.
func (w *watch) Observe(now units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, fate packet.Fate, depth units.Bytes) {
	var data []byte
	if p.Kind == packet.Modelled {
		data = w.encode.frame(p)
	} else if data = w.render.render(p, w.buf); p.Frame == nil || p.Sum != 0 {
		w.buf = data
	}
	c := capture.Packet{
		At: now, Dir: capture.In, Data: data, Length: int32(p.Size),
		Fate: uint8(fate), Queue: depth, FCSError: p.BadFCS && dir == port.In,
	}
	if dir == port.Out {
		c.Dir = capture.Out
	}
	for _, t := range w.taps {
		if dir == port.In && t.in || dir == port.Out && t.out {
			c.Port = t.index
			t.to.put(c)
		}
	}
}
