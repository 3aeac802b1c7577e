package cmnic

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// TestTranscripts plays two CMs, a and b, by hand: each message that one sends
// gets a number, and is delivered when, and as often as, the file says. Rewrite
// with go test ./nicemu/cmnic -rewrite and check the difference by hand.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		p := new(player)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.out.Reset()
			switch d.Cmd {
			case "ends": // [ipv6] [KEY=VALUE]: new CMs
				p.start(t, d)
			case "play":
				for _, line := range strings.Split(d.Input, "\n") {
					fmt.Fprintf(&p.out, "> %s\n", line)
					if err := p.step(strings.Fields(line)); err != nil {
						fmt.Fprintf(&p.out, "  %v\n", err)
					}
				}
			default:
				t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			}
			return p.out.String()
		})
	})
}

type player struct {
	now   units.Time
	ends  map[string]*end
	sends []Send
	out   strings.Builder
}

func (p *player) start(t *testing.T, d *datadriven.TestData) {
	addresses := [2]string{"10.0.0.1", "10.0.0.2"}
	if d.HasArg("ipv6") {
		addresses = [2]string{"fd00::1", "fd00::2"}
	}
	p.now, p.sends, p.ends = 0, nil, map[string]*end{}
	for i, name := range []string{"a", "b"} {
		config := DefaultConfig(uint64(0xa0 + 16*i))
		config.FirstID = msg.CommID(0xa1 + 16*i)
		config.MaxRetries = 2
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		p.ends[name] = &end{c, name, netip.MustParseAddr(addresses[i])}
	}
}

func (p *player) other(e *end) *end {
	if e.name == "a" {
		return p.ends["b"]
	}
	return p.ends["a"]
}

// step runs one line: "deliver N...", "until INSTANT", "state", "END VERB ...", the last with
// words, numbers NAME=N, and one text that is the private data.
func (p *player) step(w []string) error {
	switch w[0] {
	case "deliver":
		for _, s := range w[1:] {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || n > len(p.sends) {
				return fmt.Errorf("no message %s", s)
			}
			p.deliver(&p.sends[n-1])
		}
		return nil
	case "until":
		at, err := units.ParseTime(w[1])
		if err != nil {
			return err
		}
		for {
			a, b := p.ends["a"], p.ends["b"]
			due := min(a.NextWork(), b.NextWork())
			if due > at {
				break
			}
			p.now = due
			a.DoDueWork(due)
			p.show(a)
			b.DoDueWork(due)
			p.show(b)
		}
		p.now = at
		return nil
	case "state":
		for _, e := range []*end{p.ends["a"], p.ends["b"]} {
			fmt.Fprintf(&p.out, "  %s:", e.name)
			for id := e.config.FirstID; id < e.nextID; id++ {
				fmt.Fprintf(&p.out, " %x %v", uint32(id), e.State(id))
			}
			c := e.Counters()
			fmt.Fprintf(&p.out, "; malformed %d unexpected %d no-listener %d backlog %d refused %d stale %d\n", c.Malformed, c.Unexpected, c.NoListener, c.BacklogFull, c.Refused, c.Stale)
		}
		return nil
	}
	e := p.ends[w[0]]
	if e == nil {
		return fmt.Errorf("no end %s", w[0])
	}
	n, text := map[string]uint64{}, []byte(nil)
	for _, s := range w[2:] {
		if key, value, ok := strings.Cut(s, "="); ok {
			v, err := strconv.ParseUint(value, 0, 64)
			if err != nil {
				return err
			}
			n[key] = v
		} else {
			text = []byte(s)
		}
	}
	err := p.input(e, w[1], n, text)
	p.show(e)
	return err
}

func (p *player) input(e *end, verb string, n map[string]uint64, text []byte) error {
	number := func(key string, otherwise uint64) uint64 {
		if v, ok := n[key]; ok {
			return v
		}
		return otherwise
	}
	id := msg.CommID(number("id", uint64(e.config.FirstID)))
	service := msg.IPService(msg.ProtocolTCP, uint16(n["port"]))
	if n["protocol"] != 0 {
		service = msg.IPService(uint8(n["protocol"]), uint16(n["port"]))
	}
	if v, ok := n["service"]; ok {
		service = msg.ServiceID(v)
	}
	o := p.other(e)
	switch verb {
	case "listen":
		l := Listen{Service: service, Backlog: int(n["backlog"]), Datagram: n["datagram"] != 0}
		if n["own"] != 0 {
			l.Address = e.addr
		}
		id, err := e.Listen(l)
		fmt.Fprintf(&p.out, "  listener %d\n", id)
		return err
	case "unlisten":
		return e.StopListening(ListenID(n["listener"]))
	case "connect":
		_, err := e.Connect(p.now, Connect{
			Service: service, Local: netip.AddrPortFrom(e.addr, 40000), Peer: o.addr, QP: QP{Number: uint32(number("qpn", 17)), StartPSN: 100},
			PathMTU: msg.MTU1024, PKey: 0xffff, RetryCount: 7, RNRRetryCount: 6, ResponderResources: uint8(number("responder", 4)), InitiatorDepth: uint8(number("initiator", 3)),
			HopLimit: 64, TrafficClass: uint8(n["class"]), Transport: msg.Transport(n["transport"]), PrivateData: text,
		})
		return err
	case "accept":
		a, err := e.Accept(p.now, id, Accept{QP: QP{Number: uint32(number("qpn", 18)), StartPSN: 200}, ResponderResources: uint8(number("responder", 2)), InitiatorDepth: uint8(number("initiator", 8)), RNRRetryCount: 5, PrivateData: text})
		if err == nil {
			fmt.Fprintf(&p.out, "  %s agreed %s\n", e.name, describeAttributes(&a))
		}
		return err
	case "confirm":
		return e.Confirm(id, text)
	case "prolong":
		return e.ProlongTimeout(id, msg.Timeout(n["timeout"]), text)
	case "reject":
		return e.Reject(p.now, id, Reject{Reason: msg.Reason(n["reason"]), PrivateData: text})
	case "established":
		return e.Established(id)
	case "disconnect":
		return e.Disconnect(p.now, id, text)
	case "destroy":
		return e.Destroy(p.now, id)
	case "resolve":
		_, err := e.Resolve(p.now, Resolve{Service: service, Local: netip.AddrPortFrom(e.addr, 40000), Peer: o.addr, PKey: 0xffff, PrivateData: text})
		return err
	case "answer":
		return e.AnswerResolution(p.now, id, Answer{Status: msg.SIDRStatus(n["status"]), QPN: uint32(n["qpn"]), QKey: uint32(n["qkey"]), PrivateData: text})
	case "forge": // a message as if of this end
		p.forge(e, n, string(text))
		return nil
	}
	return errors.New("unknown input")
}

// forge makes a message that no CM has sent, ready for delivery.
func (p *player) forge(e *end, n map[string]uint64, what string) {
	local, remote := msg.CommID(n["local"]), msg.CommID(n["remote"])
	var m msg.Message
	switch what {
	case "REQ":
		r := &msg.REQ{LocalID: local, Service: msg.ServiceID(n["service"]), CAGUID: e.config.CAGUID, QPN: uint32(n["qpn"]), Transport: msg.Transport(n["transport"]), PathMTU: msg.MTU(n["mtu"])}
		r.Alternate.HopLimit = uint8(n["alternate"])
		m = r
	case "REP":
		m = &msg.REP{LocalID: local, RemoteID: remote, QPN: uint32(n["qpn"]), CAGUID: e.config.CAGUID}
	case "RTU":
		m = &msg.RTU{LocalID: local, RemoteID: remote}
	case "MRA":
		m = &msg.MRA{LocalID: local, RemoteID: remote, Subject: msg.Subject(n["subject"])}
	case "REJ":
		m = &msg.REJ{LocalID: local, RemoteID: remote, Subject: msg.Subject(n["subject"]), Reason: msg.Reason(n["reason"]), InfoLen: uint8(n["infolen"])}
	case "DREQ":
		m = &msg.DREQ{LocalID: local, RemoteID: remote, RemoteQPN: uint32(n["qpn"])}
	case "DREP":
		m = &msg.DREP{LocalID: local, RemoteID: remote}
	case "SIDR_REP":
		m = &msg.SIDRREP{RequestID: uint32(remote)}
	case "LAP":
		m = &msg.LAP{LocalID: local, RemoteID: remote}
	case "APR":
		m = &msg.APR{LocalID: local, RemoteID: remote}
	default:
		panic("forging " + what)
	}
	p.sent(e, Send{From: e.addr, To: p.other(e).addr, Transaction: n["transaction"], Message: m})
}

func (p *player) deliver(s *Send) {
	b := make([]byte, msg.MADLen)
	s.EncodeTo(b)
	for _, e := range []*end{p.ends["a"], p.ends["b"]} {
		if e.addr == s.To {
			e.Receive(p.now, s.From, s.To, b)
			p.show(e)
		}
	}
}

func (p *player) sent(e *end, s Send) {
	p.sends = append(p.sends, s)
	fmt.Fprintf(&p.out, "  %.3fs #%d %s sends %v tid=%x %s\n", p.now.Seconds(), len(p.sends), e.name, s.Message.Attribute(), s.Transaction, describe(s.Message))
}

// show prints the result of an input.
func (p *player) show(e *end) {
	sends, events := e.TakeOutput()
	for i := range events {
		fmt.Fprintf(&p.out, "  %.3fs %s %s\n", p.now.Seconds(), e.name, describeEvent(&events[i]))
	}
	for _, s := range sends {
		p.sent(e, s)
	}
}
