package cmnic

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/internal/oracle"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/wire/roce"
)

// captured are captures of two machines with Linux 6.1's rdma_rxe: see the tests of package roce.
var captured = []string{"../../wire/roce/testdata/rping.pcap", "../../wire/roce/testdata/pingpong.pcap"}

// recorded is a datagram of a capture.
type recorded struct {
	from, to netip.Addr
	mad      []byte
	h        msg.Header
	m        msg.Message
}

func records(t *testing.T, name string) (all []recorded) {
	const ip, udp = 14, 14 + 20
	for _, b := range oracle.Frames(t, name) {
		if len(b) < udp+8 || binary.BigEndian.Uint16(b[12:]) != 0x0800 || b[ip+9] != 17 || binary.BigEndian.Uint16(b[udp+2:]) != roce.Port {
			continue
		}
		var p roce.Packet
		if err := p.DecodeIP(b[ip:]); err != nil {
			t.Fatal(err)
		}
		if p.BTH.DestQP != roce.ManagementQP {
			continue
		}
		x := recorded{from: netip.AddrFrom4([4]byte(b[ip+12:])), to: netip.AddrFrom4([4]byte(b[ip+16:]))}
		x.mad = b[udp+8+roce.BTHLen+roce.DETHLen:][:msg.MADLen]
		var err error
		if x.h, x.m, err = msg.Parse(x.mad); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// sent compares the only message that a CM has sent with Linux's at that point. Each side chooses
// the transaction numbers of its own exchanges.
func sent(t *testing.T, c *CM, linux recorded, answer bool) {
	t.Helper()
	sends, _ := c.TakeOutput()
	if len(sends) != 1 {
		t.Fatalf("%d messages in place of Linux's %v", len(sends), linux.h.Attribute)
	}
	s := sends[0]
	if !answer {
		s.Transaction = linux.h.Transaction
	}
	b := make([]byte, msg.MADLen)
	s.EncodeTo(b)
	if diff := cmp.Diff(linux.mad, b); diff != "" {
		t.Errorf("a %v (-Linux +ours):\n%s", linux.h.Attribute, diff)
	}
	if s.From != linux.from || s.To != linux.to {
		t.Errorf("a %v goes from %v to %v, Linux's from %v to %v", linux.h.Attribute, s.From, s.To, linux.from, linux.to)
	}
}

// happened expects one event and no message.
func happened(t *testing.T, c *CM, kind Kind) Event {
	t.Helper()
	sends, events := c.TakeOutput()
	if len(events) != 1 || events[0].Kind != kind || len(sends) != 0 {
		t.Fatalf("events %v, %d messages in place of %v", events, len(sends), kind)
	}
	return events[0]
}

// TestLinuxClient: our passive side answers Linux's active side with the same bytes as Linux's
// passive side.
func TestLinuxClient(t *testing.T) {
	for _, name := range captured {
		r := records(t, name)
		rep := r[1].m.(*msg.REP)
		config := DefaultConfig(rep.CAGUID)
		config.FirstID = rep.LocalID
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		req := r[0].m.(*msg.REQ)
		if _, err := c.Listen(Listen{Service: req.Service, Address: r[0].to}); err != nil {
			t.Fatal(err)
		}
		receive := func(x recorded) { c.Receive(0, x.from, x.to, x.mad) }
		receive(r[0])
		e := happened(t, c, Requested)
		if e.Source.Addr() != r[0].from || e.Destination.Addr() != r[0].to {
			t.Errorf("a request from %v to %v", e.Source, e.Destination)
		}
		a, err := c.Accept(0, e.ID, Accept{
			QP: QP{rep.QPN, rep.StartPSN, rep.SRQ, rep.FlowControl}, ResponderResources: rep.ResponderResources, InitiatorDepth: rep.InitiatorDepth, RNRRetryCount: rep.RNRRetryCount,
		})
		if err != nil {
			t.Fatal(err)
		}
		if a.ACKTimeout != req.Primary.ACKTimeout {
			t.Errorf("the passive side's ACK timeout is %d, the active side's %d", a.ACKTimeout, req.Primary.ACKTimeout)
		}
		sent(t, c, r[1], true)
		receive(r[2])
		happened(t, c, Connected)
		receive(r[3])
		happened(t, c, DisconnectRequested)
		if err := c.Disconnect(0, e.ID, nil); err != nil {
			t.Fatal(err)
		}
		sent(t, c, r[4], true)
	}
}

// TestLinuxServer: our active side sends Linux's passive side the same bytes as Linux's active
// side, and takes its answers.
func TestLinuxServer(t *testing.T) {
	for _, name := range captured {
		r := records(t, name)
		req := r[0].m.(*msg.REQ)
		var h msg.IPHeader
		if err := h.Decode(req.PrivateData[:]); err != nil {
			t.Fatal(err)
		}
		config := DefaultConfig(req.CAGUID)
		config.FirstID = req.LocalID
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.Connect(0, Connect{
			Service: req.Service, Local: h.Source, Peer: h.Destination, QP: QP{req.QPN, req.StartPSN, req.SRQ, req.FlowControl}, PathMTU: req.PathMTU, PKey: req.PKey,
			RetryCount: req.RetryCount, RNRRetryCount: req.RNRRetryCount, ResponderResources: req.ResponderResources, InitiatorDepth: req.InitiatorDepth,
			TrafficClass: req.Primary.TrafficClass, HopLimit: req.Primary.HopLimit, PrivateData: req.PrivateData[msg.IPHeaderLen:],
		})
		if err != nil {
			t.Fatal(err)
		}
		sent(t, c, r[0], false)
		receive := func(x recorded) { c.Receive(0, x.from, x.to, x.mad) }
		receive(r[1])
		happened(t, c, Replied)
		if err := c.Confirm(id, nil); err != nil {
			t.Fatal(err)
		}
		sent(t, c, r[2], false)
		if err := c.Disconnect(0, id, nil); err != nil {
			t.Fatal(err)
		}
		sent(t, c, r[3], false)
		receive(r[4])
		happened(t, c, Disconnected)
	}
}
