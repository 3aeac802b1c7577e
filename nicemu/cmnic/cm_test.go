package cmnic

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

var (
	addrA = netip.MustParseAddr("10.0.0.1")
	addrB = netip.MustParseAddr("10.0.0.2")
)

func TestConfig(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.ResponseTimeout = 32 }, func(c *Config) { c.MaxRetries = 16 },
		func(c *Config) { c.PacketLifetime = 31 }, func(c *Config) { c.ACKDelay = 32 },
	} {
		config := DefaultConfig(1)
		change(&config)
		if _, err := New(config); err == nil {
			t.Errorf("%+v is taken", config)
		}
	}
}

func TestConnectParameters(t *testing.T) {
	good := Connect{Local: netip.AddrPortFrom(addrA, 1), Peer: addrB, QP: QP{Number: 2}, PathMTU: msg.MTU256}
	c, err := New(DefaultConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Connect(0, good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Connect){
		"no address":      func(a *Connect) { a.Peer = netip.Addr{} },
		"two versions":    func(a *Connect) { a.Peer = netip.MustParseAddr("fd00::1") },
		"transport":       func(a *Connect) { a.Transport = msg.TransportRD },
		"queue pair":      func(a *Connect) { a.QP.Number = 1 << 24 },
		"PSN":             func(a *Connect) { a.QP.StartPSN = 1 << 24 },
		"path MTU":        func(a *Connect) { a.PathMTU = 0 },
		"retry count":     func(a *Connect) { a.RetryCount = 8 },
		"RNR retry count": func(a *Connect) { a.RNRRetryCount = 8 },
		"flow label":      func(a *Connect) { a.FlowLabel = 1 << 20 },
	} {
		a := good
		change(&a)
		if _, err := c.Connect(0, a); !errors.Is(err, ErrParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c.Len() != 1 {
		t.Errorf("%d connections", c.Len())
	}
}

// TestACKTimeout compares ackTimeout with Linux's cm_ack_timeout.
func TestACKTimeout(t *testing.T) {
	for _, x := range []struct{ delay, lifetime, want msg.Timeout }{
		{15, 18, 19}, {15, 16, 17}, {15, 15, 17}, {15, 14, 16}, {15, 13, 16}, {15, 12, 15}, {15, 0, 15}, {0, 0, 2}, {31, 30, 31},
	} {
		if got := ackTimeout(x.delay, x.lifetime); got != x.want {
			t.Errorf("delay %d, lifetime %d: %d, not %d", x.delay, x.lifetime, got, x.want)
		}
	}
}

// TestMalformed: unreadable datagrams are counted, and requests of another version of the class are
// refused with the right version.
func TestMalformed(t *testing.T) {
	good := make([]byte, msg.MADLen)
	msg.PutMAD(good, 5, &msg.REQ{LocalID: 0x77})
	sidr := make([]byte, msg.MADLen)
	msg.PutMAD(sidr, 5, &msg.SIDRREQ{RequestID: 0x77})
	for name, x := range map[string]struct {
		mad    []byte
		change func([]byte)
		answer msg.Attribute // 0 if none
	}{
		"short":          {good[:msg.MADLen-1], nil, 0},
		"empty":          {nil, nil, 0},
		"base version":   {good, func(b []byte) { b[0] = 2 }, 0},
		"class":          {good, func(b []byte) { b[1] = 3 }, 0},
		"method":         {good, func(b []byte) { b[3] = 1 }, 0},
		"attribute":      {good, func(b []byte) { binary.BigEndian.PutUint16(b[16:], 0x1b) }, 0},
		"class version":  {good, func(b []byte) { b[2] = 1 }, msg.AttributeREJ},
		"of a SIDR_REQ":  {sidr, func(b []byte) { b[2] = 1 }, msg.AttributeSIDRREP},
		"of another RTU": {good, func(b []byte) { b[2] = 1; binary.BigEndian.PutUint16(b[16:], uint16(msg.AttributeRTU)) }, 0},
	} {
		c, err := New(DefaultConfig(1))
		if err != nil {
			t.Fatal(err)
		}
		b := append([]byte(nil), x.mad...)
		if x.change != nil {
			x.change(b)
		}
		c.Receive(0, addrA, addrB, b)
		if got := c.Counters().Malformed; got != 1 {
			t.Errorf("%s: %d malformed", name, got)
		}
		sends, events := c.TakeOutput()
		if len(events) != 0 || (x.answer == 0) != (len(sends) == 0) {
			t.Fatalf("%s: %v, %v", name, sends, events)
		}
		for _, s := range sends {
			if s.Message.Attribute() != x.answer || s.To != addrA || s.From != addrB || s.Transaction != 5 {
				t.Errorf("%s: %+v", name, s)
			}
			switch m := s.Message.(type) {
			case *msg.REJ:
				if m.Reason != msg.ReasonInvalidClassVersion || m.RemoteID != 0x77 || m.Info[0] != 2 {
					t.Errorf("%s: %s", name, describe(m))
				}
			case *msg.SIDRREP:
				if m.Status != msg.SIDRUnsupportedVersion || m.RequestID != 0x77 || m.Info[0] != 2 {
					t.Errorf("%s: %s", name, describe(m))
				}
			}
		}
	}
}

// TestIDsAreUnique: after a wrap, IDs in use and 0 are skipped.
func TestIDsAreUnique(t *testing.T) {
	config := DefaultConfig(1)
	config.FirstID = 0xffffffff
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	connect := func() msg.CommID {
		id, err := c.Connect(0, Connect{Local: netip.AddrPortFrom(addrA, 1), Peer: addrB, QP: QP{Number: 2}, PathMTU: msg.MTU256})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if a, b := connect(), connect(); a != 0xffffffff || b != 1 {
		t.Errorf("%#x, %#x", a, b)
	}
	c.nextID = 0xffffffff
	if id := connect(); id != 2 {
		t.Errorf("%#x", id)
	}
}

// TestCounters counts a REQ and its repetition on both sides.
func TestCounters(t *testing.T) {
	config := DefaultConfig(1)
	config.ResponseTimeout = 0
	config.PacketLifetime = 0
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Listen(Listen{Service: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Connect(0, Connect{Service: 5, Local: netip.AddrPortFrom(addrA, 1), Peer: addrA, QP: QP{Number: 2}, PathMTU: msg.MTU256}); err != nil {
		t.Fatal(err)
	}
	c.DoDueWork(c.NextWork())
	sends, _ := c.TakeOutput()
	b := make([]byte, msg.MADLen)
	for _, s := range sends {
		s.EncodeTo(b)
		c.Receive(units.Millisecond, s.From, s.To, b)
	}
	k := c.Counters()
	got := [4]uint64{k.Sent.CountOf(msg.AttributeREQ), k.Resent.CountOf(msg.AttributeREQ), k.Received.CountOf(msg.AttributeREQ), k.Duplicates.CountOf(msg.AttributeREQ)}
	if got != [4]uint64{1, 1, 2, 1} || k.Sent.CountOf(0) != 0 {
		t.Errorf("sent, resent, received, duplicates: %v", got)
	}
}

// TestLoopback: one CM connects to itself.
func TestLoopback(t *testing.T) {
	c, err := New(DefaultConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Listen(Listen{Service: 5}); err != nil {
		t.Fatal(err)
	}
	id, err := c.Connect(0, Connect{Service: 5, Local: netip.AddrPortFrom(addrA, 1), Peer: addrA, QP: QP{Number: 2}, PathMTU: msg.MTU256})
	if err != nil {
		t.Fatal(err)
	}
	var passive msg.CommID
	pump(t, c, func(e Event) {
		switch e.Kind {
		case Requested:
			passive = e.ID
			_, err = c.Accept(0, e.ID, Accept{QP: QP{Number: 3}})
		case Replied:
			err = c.Confirm(e.ID, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if c.State(id) != Established || c.State(passive) != Established {
		t.Errorf("%v, %v", c.State(id), c.State(passive))
	}
}

// pump delivers what a CM sends to itself until it is silent.
func pump(t testing.TB, c *CM, consume func(Event)) {
	t.Helper()
	b := make([]byte, msg.MADLen)
	for {
		sends, events := c.TakeOutput()
		if len(sends)+len(events) == 0 {
			return
		}
		for _, e := range events {
			consume(e)
		}
		for _, s := range sends {
			s.EncodeTo(b)
			c.Receive(0, s.From, s.To, b)
		}
	}
}

// BenchmarkTimers moves the timer of one among many waiting connections.
func BenchmarkTimers(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(map[int]string{10: "10", 10_000: "10000"}[n], func(b *testing.B) {
			c, err := New(DefaultConfig(1))
			if err != nil {
				b.Fatal(err)
			}
			var now units.Time
			connect := func() {
				now += units.Microsecond
				if _, err := c.Connect(now, Connect{Local: netip.AddrPortFrom(addrA, 1), Peer: addrB, QP: QP{Number: 2}, PathMTU: msg.MTU256}); err != nil {
					b.Fatal(err)
				}
			}
			for range n {
				connect()
			}
			c.TakeOutput()
			b.ReportAllocs()
			for b.Loop() {
				now = c.NextWork()
				c.DoDueWork(now) // one REQ is repeated, or given up
				if sends, events := c.TakeOutput(); len(events) > 0 {
					connect()
					c.TakeOutput()
				} else if len(sends) != 1 {
					b.Fatal(len(sends))
				}
			}
		})
	}
}
