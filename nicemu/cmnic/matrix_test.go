package cmnic

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// The names that the other side of TestMatrix has for its connection and itself.
const (
	theirID   = msg.CommID(0x77)
	theirGUID = 0x22
	theirQPN  = 9
	theirTID  = 7
)

// bench is a CM whose other side is the test. Its first ID is 1.
type bench struct {
	*CM
	t   *testing.T
	now units.Time
}

func newBench(t *testing.T) bench {
	config := DefaultConfig(0x11)
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	b := bench{c, t, 0}
	for _, datagram := range []bool{false, true} {
		_, err := c.Listen(Listen{Service: 5, Datagram: datagram})
		b.ok(err)
	}
	return b
}

func (b bench) ok(err error) {
	if err != nil {
		b.t.Helper()
		b.t.Fatal(err)
	}
}

func (b bench) receive(m msg.Message) {
	mad := make([]byte, msg.MADLen)
	msg.PutMAD(mad, theirTID, m)
	b.Receive(b.now, addrB, addrA, mad)
}

var ways = map[State]func(b bench){
	REQSent: func(b bench) {
		_, err := b.Connect(0, Connect{Service: 5, Local: netip.AddrPortFrom(addrA, 1), Peer: addrB, QP: QP{Number: 3}, PathMTU: msg.MTU1024})
		b.ok(err)
	},
	SIDRREQSent: func(b bench) {
		_, err := b.Resolve(0, Resolve{Service: 5, Local: netip.AddrPortFrom(addrA, 1), Peer: addrB})
		b.ok(err)
	},
	REQRcvd:     func(b bench) { b.receive(messages["REQ"]) },
	SIDRREQRcvd: func(b bench) { b.receive(messages["SIDR_REQ"]) },
	SIDRREPSent: func(b bench) { b.ok(b.AnswerResolution(0, 1, Answer{QPN: 3})) },
	REPWait:     func(b bench) { b.receive(messages["MRA(REQ)"]) },
	REPRcvd:     func(b bench) { b.receive(messages["REP"]) },
	MRAREPSent:  func(b bench) { b.ok(b.ProlongTimeout(1, 20, nil)) },
	MRASent:     func(b bench) { b.ok(b.ProlongTimeout(1, 20, nil)) },
	REPSent: func(b bench) {
		_, err := b.Accept(0, 1, Accept{QP: QP{Number: 3}})
		b.ok(err)
	},
	RTUWait: func(b bench) { b.receive(messages["MRA(REP)"]) },
	Established: func(b bench) {
		if b.State(1) == REPRcvd {
			b.ok(b.Confirm(1, nil))
			return
		}
		b.receive(messages["RTU"])
	},
	DREQSent: func(b bench) { b.ok(b.Disconnect(0, 1, nil)) },
	DREQRcvd: func(b bench) { b.receive(messages["DREQ"]) },
	TimeWait: func(b bench) { b.receive(messages["DREP"]) },
	Refused:  func(b bench) { b.ok(b.Reject(0, 1, Reject{})) },
}

var routes = [][]State{
	{REQSent}, {REQSent, REPWait}, {REQSent, REPRcvd}, {REQSent, REPRcvd, MRAREPSent}, {REQSent, REPRcvd, Established}, {REQSent, REPRcvd, Established, DREQSent},
	{REQSent, REPRcvd, Established, DREQRcvd}, {REQSent, REPRcvd, Established, DREQSent, TimeWait}, {REQSent, REPRcvd, Refused},
	{REQRcvd}, {REQRcvd, MRASent}, {REQRcvd, REPSent}, {REQRcvd, REPSent, RTUWait}, {REQRcvd, REPSent, Established}, {REQRcvd, REPSent, Established, DREQSent},
	{REQRcvd, REPSent, Established, DREQRcvd}, {REQRcvd, REPSent, Established, DREQSent, TimeWait}, {REQRcvd, Refused},
	{SIDRREQSent}, {SIDRREQRcvd}, {SIDRREQRcvd, SIDRREPSent},
}

// messages is one of each message of the other side.
var messages = map[string]msg.Message{
	"REQ":                   &msg.REQ{LocalID: theirID, Service: 5, CAGUID: theirGUID, QPN: theirQPN, PathMTU: msg.MTU1024, RemoteTimeout: 20, LocalTimeout: 20, Primary: msg.Path{ACKTimeout: 19}},
	"REQ, another QP":       &msg.REQ{LocalID: theirID, Service: 5, CAGUID: theirGUID, QPN: 10, PathMTU: msg.MTU1024},
	"REQ, another ID":       &msg.REQ{LocalID: 0x78, Service: 5, CAGUID: theirGUID, QPN: theirQPN, PathMTU: msg.MTU1024},
	"MRA(REQ)":              &msg.MRA{LocalID: theirID, RemoteID: 1, Subject: msg.SubjectREQ, ServiceTimeout: 20},
	"MRA(REP)":              &msg.MRA{LocalID: theirID, RemoteID: 1, Subject: msg.SubjectREP, ServiceTimeout: 20},
	"MRA(LAP)":              &msg.MRA{LocalID: theirID, RemoteID: 1, Subject: msg.SubjectLAP, ServiceTimeout: 20},
	"REJ(REQ)":              &msg.REJ{LocalID: theirID, RemoteID: 1, Subject: msg.SubjectREQ, Reason: msg.ReasonConsumer},
	"REJ(REQ), stale":       &msg.REJ{RemoteID: 1, Subject: msg.SubjectREQ, Reason: msg.ReasonStaleConnection},
	"REJ(REP)":              &msg.REJ{LocalID: theirID, RemoteID: 1, Subject: msg.SubjectREP, Reason: msg.ReasonConsumer},
	"REJ, timeout, no ID":   &msg.REJ{LocalID: theirID, Subject: msg.SubjectOther, Reason: msg.ReasonTimeout, InfoLen: 8, Info: [msg.REJInfoLen]byte{7: theirGUID}},
	"REP":                   &msg.REP{LocalID: theirID, RemoteID: 1, QPN: theirQPN, CAGUID: theirGUID, ACKDelay: 15},
	"REP, another ID":       &msg.REP{LocalID: 0x78, RemoteID: 1, QPN: 10, CAGUID: theirGUID},
	"REP, no QP":            &msg.REP{LocalID: theirID, RemoteID: 1, QPN: 0, CAGUID: theirGUID},
	"RTU":                   &msg.RTU{LocalID: theirID, RemoteID: 1},
	"DREQ":                  &msg.DREQ{LocalID: theirID, RemoteID: 1, RemoteQPN: 3},
	"DREQ, wrong QP":        &msg.DREQ{LocalID: theirID, RemoteID: 1, RemoteQPN: 4},
	"DREP":                  &msg.DREP{LocalID: theirID, RemoteID: 1},
	"LAP":                   &msg.LAP{LocalID: theirID, RemoteID: 1},
	"APR":                   &msg.APR{LocalID: theirID, RemoteID: 1},
	"SIDR_REQ":              &msg.SIDRREQ{RequestID: uint32(theirID), Service: 5},
	"SIDR_REQ, no listener": &msg.SIDRREQ{RequestID: 0x79, Service: 6},
	"SIDR_REP":              &msg.SIDRREP{RequestID: 1, Service: 5},
}

var order = []string{"REQ", "REQ, another QP", "REQ, another ID", "MRA(REQ)", "MRA(REP)", "MRA(LAP)", "REJ(REQ)", "REJ(REQ), stale", "REJ(REP)", "REJ, timeout, no ID",
	"REP", "REP, another ID", "REP, no QP", "RTU", "DREQ", "DREQ, wrong QP", "DREP", "LAP", "APR", "SIDR_REQ", "SIDR_REQ, no listener", "SIDR_REP"}

// TestMatrix gives every message in every state, on both sides. The results are in testdata/matrix;
// messages not listed there are counted and change nothing.
func TestMatrix(t *testing.T) {
	datadriven.RunTest(t, "testdata/matrix", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, route := range routes {
			fmt.Fprintf(&out, "%s:\n", strings.Trim(fmt.Sprint(route), "[]"))
			var nothing []string
			for _, name := range order {
				line := try(t, route, name)
				if line == "" {
					nothing = append(nothing, name)
					continue
				}
				fmt.Fprintf(&out, "  %-22s %s\n", name, line)
			}
			fmt.Fprintf(&out, "  nothing of            %s\n", strings.Join(nothing, "; "))
		}
		return out.String()
	})
}

// try returns the result of a message in a state, "" if there is none.
func try(t *testing.T, route []State, name string) string {
	b := newBench(t)
	for _, state := range route {
		ways[state](b)
		if got := b.State(1); got != state {
			t.Fatalf("%v: the state is %v", route, got)
		}
	}
	b.TakeOutput()
	b.now = units.Millisecond
	before, due := b.Counters(), b.NextWork()
	b.receive(messages[name])
	after := b.Counters()
	var did []string
	if s := b.State(1); s != route[len(route)-1] {
		did = append(did, "-> "+s.String())
	}
	sends, events := b.TakeOutput()
	for i := range events {
		did = append(did, describeEvent(&Event{Kind: events[i].Kind, ID: events[i].ID, Reason: events[i].Reason}))
	}
	for _, s := range sends {
		did = append(did, fmt.Sprintf("sends %v %s", s.Message.Attribute(), describe(s.Message)))
		if s.To != addrB || s.From != addrA {
			t.Errorf("%v, %s: from %v to %v", route, name, s.From, s.To)
		}
	}
	if len(did) == 0 && b.NextWork() != due {
		did = append(did, "prolongs")
	}
	a := messages[name].Attribute()
	if after.Received.CountOf(a) != before.Received.CountOf(a)+1 {
		t.Errorf("%v, %s: it is not counted", route, name)
	}
	if ignored := after.Unexpected + after.Duplicates.CountOf(a) - before.Unexpected - before.Duplicates.CountOf(a); len(did) == 0 && ignored != 1 {
		t.Errorf("%v, %s: nothing comes of it, and it is counted as unexpected or repeated %d times", route, name, ignored)
	}
	b.end()
	return strings.Join(did, "; ")
}

// end destroys everything, and checks that nothing is left.
func (b bench) end() {
	for id := msg.CommID(1); id < b.nextID; id++ {
		if _, err := b.findConnection(id); err == nil {
			b.ok(b.Destroy(b.now, id))
			if _, err := b.findConnection(id); err == nil {
				b.t.Errorf("%#x is known after its end", id)
			}
		}
	}
	b.TakeOutput()
	for b.NextWork() != units.Never {
		b.DoDueWork(b.NextWork())
	}
	if _, events := b.TakeOutput(); len(events) != 0 || b.Len() != 0 || len(b.peers) != 0 || len(b.queues) != 0 || len(b.resolving) != 0 {
		b.t.Errorf("there are left %d events, %d connections, %d peers, %d queue pairs, %d resolutions", len(events), b.Len(), len(b.peers), len(b.queues), len(b.resolving))
	}
}

// TestPrivateDataLimits: each message takes as much as it has room for, and one more byte is an
// error that changes nothing.
func TestPrivateDataLimits(t *testing.T) {
	local := netip.AddrPortFrom(addrA, 1)
	connect := func(service msg.ServiceID) func(b bench, data []byte) error {
		return func(b bench, data []byte) error {
			_, err := b.Connect(0, Connect{Service: service, Local: local, Peer: addrB, QP: QP{Number: 3}, PathMTU: msg.MTU1024, PrivateData: data})
			return err
		}
	}
	resolve := func(service msg.ServiceID) func(b bench, data []byte) error {
		return func(b bench, data []byte) error {
			_, err := b.Resolve(0, Resolve{Service: service, Local: local, Peer: addrB, PrivateData: data})
			return err
		}
	}
	reject := func(b bench, data []byte) error { return b.Reject(0, 1, Reject{PrivateData: data}) }
	prolong := func(b bench, data []byte) error { return b.ProlongTimeout(1, 3, data) }
	disconnect := func(b bench, data []byte) error { return b.Disconnect(0, 1, data) }
	for _, x := range []struct {
		name  string
		route []State
		do    func(b bench, data []byte) error
		limit int
	}{
		{"REQ", nil, connect(5), 92},
		{"REQ of the IP CM service", nil, connect(service7), 56},
		{"REP", []State{REQRcvd}, func(b bench, data []byte) error {
			_, err := b.Accept(0, 1, Accept{QP: QP{Number: 3}, PrivateData: data})
			return err
		}, 196},
		{"RTU", []State{REQSent, REPRcvd}, func(b bench, data []byte) error { return b.Confirm(1, data) }, 224},
		{"MRA of a REQ", []State{REQRcvd}, prolong, 222},
		{"MRA of a REP", []State{REQSent, REPRcvd}, prolong, 222},
		{"REJ of a REQ", []State{REQRcvd}, reject, 148},
		{"REJ of a REP", []State{REQSent, REPRcvd}, reject, 148},
		{"DREQ", []State{REQSent, REPRcvd, Established}, disconnect, 220},
		{"DREP", []State{REQSent, REPRcvd, Established, DREQRcvd}, disconnect, 224},
		{"SIDR_REQ", nil, resolve(5), 216},
		{"SIDR_REQ of the IP CM service", nil, resolve(service7), 180},
		{"SIDR_REP", []State{SIDRREQRcvd}, func(b bench, data []byte) error { return b.AnswerResolution(0, 1, Answer{PrivateData: data}) }, 136},
	} {
		b := newBench(t)
		for _, state := range x.route {
			ways[state](b)
		}
		b.TakeOutput()
		state := b.State(1)
		if err := x.do(b, make([]byte, x.limit+1)); !errors.Is(err, ErrPrivateData) {
			t.Errorf("%s with %d bytes: %v", x.name, x.limit+1, err)
		}
		if sends, _ := b.TakeOutput(); len(sends) != 0 || b.State(1) != state {
			t.Errorf("%s with %d bytes: %d messages, in %v", x.name, x.limit+1, len(sends), b.State(1))
		}
		data := make([]byte, x.limit)
		data[x.limit-1] = 0xee
		if err := x.do(b, data); err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		sends, _ := b.TakeOutput()
		mad := make([]byte, msg.MADLen)
		sends[0].EncodeTo(mad)
		if len(sends) != 1 || !bytes.Contains(mad, []byte{0xee}) {
			t.Errorf("%s: %d messages, without the data's last byte", x.name, len(sends))
		}
		b.end()
	}
}

// TestAdditionalInfo: additional information has a limit, too, and arrives.
func TestAdditionalInfo(t *testing.T) {
	b := newBench(t)
	ways[REQRcvd](b)
	b.TakeOutput()
	if err := b.Reject(0, 1, Reject{Info: make([]byte, 73)}); !errors.Is(err, ErrParameter) {
		t.Error(err)
	}
	b.ok(b.Reject(0, 1, Reject{Reason: msg.ReasonInvalidMTU, Info: []byte{3}}))
	sends, _ := b.TakeOutput()
	if m := sends[0].Message.(*msg.REJ); m.InfoLen != 1 || m.Info[0] != 3 || m.Reason != msg.ReasonInvalidMTU {
		t.Error(describe(m))
	}
	b = newBench(t)
	ways[SIDRREQRcvd](b)
	b.TakeOutput()
	for _, a := range []Answer{{Info: make([]byte, 73)}, {QPN: 1 << 24}} {
		if err := b.AnswerResolution(0, 1, a); !errors.Is(err, ErrParameter) {
			t.Error(err)
		}
	}
	b.ok(b.AnswerResolution(0, 1, Answer{Status: msg.SIDRRedirect, Info: []byte{4}}))
	sends, _ = b.TakeOutput()
	if m := sends[0].Message.(*msg.SIDRREP); m.InfoLen != 1 || m.Info[0] != 4 || m.Status != msg.SIDRRedirect {
		t.Error(describe(m))
	}
}
