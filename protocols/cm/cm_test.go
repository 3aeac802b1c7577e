package cm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// TestLayouts writes messages that tshark does not read, and bits that the
// captures leave out, as in the tables of IBTA chapter 12. Dots are zeros up to
// DataLen.
func TestLayouts(t *testing.T) {
	gid := func(b byte) (g GID) { return GID(bytes.Repeat([]byte{b}, 16)) }
	path := Path{
		LocalLID: 0x1112, RemoteLID: 0x2122, LocalGID: gid(0x33), RemoteGID: gid(0x44), FlowLabel: 0xabcde,
		Rate: 0x3f, TrafficClass: 0x55, HopLimit: 0x66, SL: 0x9, SubnetLocal: true, ACKTimeout: 0x11,
	}
	gids := strings.Repeat("33", 16) + strings.Repeat("44", 16)
	for _, c := range []struct {
		m    Message
		want string
	}{
		{&MRA{LocalID: 0x01020304, RemoteID: 0x11121314, Subject: SubjectLAP, ServiceTimeout: 0x15, PrivateData: [MRAPrivateLen]byte{0xee}},
			"01020304 11121314 80 a8 ee"},
		{&REJ{LocalID: 0x01020304, RemoteID: 0x11121314, Subject: SubjectREP, InfoLen: 72, Reason: ReasonConsumer, Info: [REJInfoLen]byte{0xdd}, PrivateData: [REJPrivateLen]byte{0xee}},
			"01020304 11121314 40 90 001c dd" + strings.Repeat("00", 71) + "ee"},
		{&DREQ{LocalID: 0x01020304, RemoteID: 0x11121314, RemoteQPN: 0x212223, PrivateData: [DREQPrivateLen]byte{0xee}},
			"01020304 11121314 21222300 ee"},
		{&SIDRREQ{RequestID: 0x01020304, PKey: 0x1112, Service: 0x2122232425262728, PrivateData: [SIDRREQPrivateLen]byte{0xee}},
			"01020304 1112 0000 2122232425262728 ee"},
		{&SIDRREP{RequestID: 0x01020304, Status: SIDRNoQP, InfoLen: 7, QPN: 0x212223, Service: 0x3132333435363738, QKey: 0x41424344, Info: [SIDRREPInfoLen]byte{0xdd}, PrivateData: [SIDRREPPrivateLen]byte{0xee}},
			"01020304 03 07 0000 21222300 3132333435363738 41424344 dd" + strings.Repeat("00", 71) + "ee"},
		{&LAP{LocalID: 0x01020304, RemoteID: 0x11121314, RemoteQPN: 0x212223, RemoteTimeout: 0x15, Alternate: path, PrivateData: [LAPPrivateLen]byte{0xee}},
			"01020304 11121314 00000000 212223a8 00000000 1112 2122" + gids + "abcde0 55 66 3f 98 88 ee"},
		{&APR{LocalID: 0x01020304, RemoteID: 0x11121314, InfoLen: 7, Status: APUnsupported, Info: [APRInfoLen]byte{0xdd}, PrivateData: [APRPrivateLen]byte{0xee}},
			"01020304 11121314 07 02 0000 dd" + strings.Repeat("00", 71) + "ee"},
		{&REQ{FlowControl: true, Transport: TransportUC, RDCExists: true, PathMTU: MTU4096, SRQ: true, ExtendedTransport: 1, Alternate: path},
			strings.Repeat("00", 43) + "03 000000 00 0000 58 09" + strings.Repeat("00", 44) + "1112 2122" + gids + "abcde0 3f 55 66 98 88"},
		{&REP{ACKDelay: 0x15, Failover: FailoverRejected, FlowControl: true, RNRRetryCount: 5, SRQ: true},
			strings.Repeat("00", 26) + "ad b0"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]byte, DataLen-len(want))...)
		got := bytes.Repeat([]byte{0xff}, DataLen)
		c.m.EncodeTo(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.m.Attribute(), diff)
		}
		again := NewMessage(c.m.Attribute())
		if err := again.Decode(want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.m, again); diff != "" {
			t.Errorf("%v (-want +read):\n%s", c.m.Attribute(), diff)
		}
	}
}

// TestRoundTrip: any message is read back as written, and no field spills into
// its neighbours.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for _, a := range attributes {
			b := make([]byte, DataLen)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			m := NewMessage(a)
			if err := m.Decode(b); err != nil {
				t.Fatal(err)
			}
			mad := make([]byte, MADLen)
			id := r.Uint64()
			PutMAD(mad, id, m)
			h, again, err := Parse(mad)
			if err != nil || h != NewHeader(id, a) {
				t.Fatalf("%+v, %v", h, err)
			}
			if diff := cmp.Diff(m, again); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", a, diff)
			}
			// Bits that are not reserved are read back.
			for i, x := range mad[HeaderLen:] {
				if x&^b[i] != 0 {
					t.Fatalf("%v: byte %d was %#02x, is %#02x", a, i, b[i], x)
				}
			}
		}
	})
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Header{
			Class: rapid.Byte().Draw(t, "class"), ClassVersion: rapid.Byte().Draw(t, "version"), Method: rapid.Byte().Draw(t, "method"),
			Status: rapid.Uint16().Draw(t, "status"), ClassSpecific: rapid.Uint16().Draw(t, "specific"), Transaction: rapid.Uint64().Draw(t, "transaction"),
			Attribute: Attribute(rapid.Uint16().Draw(t, "attribute")), Modifier: rapid.Uint32().Draw(t, "modifier"),
		}
		b := bytes.Repeat([]byte{0xff}, HeaderLen)
		want.EncodeTo(b)
		var got Header
		if err := got.Decode(b); err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	good := make([]byte, MADLen)
	PutMAD(good, 1, &RTU{})
	with := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		b     []byte
		want  error
		words string
	}{
		"nothing":        {nil, ErrShort, "it has 0"},
		"a byte short":   {good[:255], ErrShort, "it has 255"},
		"base version":   {with(0, 2), ErrVersion, "base version"},
		"another class":  {with(1, 3), ErrClass, "class 0x03"},
		"class version":  {with(2, 1), ErrClass, "version 1"},
		"a Get":          {with(3, 1), ErrClass, "method 0x01"},
		"ClassPortInfo":  {with(17, 1), ErrAttribute, "attribute 0x0001"},
		"behind the APR": {with(17, 0x1b), ErrAttribute, "attribute 0x001b"},
	} {
		_, m, err := Parse(c.b)
		if !errors.Is(err, c.want) || m != nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, %v; want %v with %q", name, m, err, c.want, c.words)
		}
	}
	for _, a := range attributes {
		if err := NewMessage(a).Decode(make([]byte, DataLen-1)); err != ErrShort {
			t.Errorf("a %v of %d bytes: %v", a, DataLen-1, err)
		}
	}
	if err := new(Header).Decode(good[:23]); err != ErrShort {
		t.Errorf("a header of 23 bytes: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	for x, want := range map[Timeout]units.Time{
		0: 4096 * units.Nanosecond, 1: 8192 * units.Nanosecond, 14: 67108864 * units.Nanosecond,
		20: 4294967296 * units.Nanosecond, 31: 8796093022208 * units.Nanosecond,
	} {
		if got := x.Time(); got != want {
			t.Errorf("%d is %v, want %v", x, got, want)
		}
		if got := TimeoutOf(want); got != x {
			t.Errorf("%v is %d, want %d", want, got, x)
		}
		if got := TimeoutOf(want + 1); got != min(x+1, MaxTimeout) {
			t.Errorf("%v is %d, want %d", want+1, got, min(x+1, MaxTimeout))
		}
	}
	if a, b := TimeoutOf(-1), TimeoutOf(units.Never); a != 0 || b != MaxTimeout {
		t.Errorf("no time is %d, all time is %d", a, b)
	}
}

func TestMTU(t *testing.T) {
	for n, want := range map[units.Bytes]MTU{0: 0, 255: 0, 256: MTU256, 511: MTU256, 1023: MTU512, 1024: MTU1024, 1420: MTU1024, 4095: MTU2048, 4096: MTU4096, 9000: MTU4096} {
		if got := MTUOf(n); got != want {
			t.Errorf("%d bytes make %v, want %v", n, got, want)
		}
	}
	for m, want := range map[MTU]units.Bytes{0: 0, MTU256: 256, MTU1024: 1024, MTU4096: 4096, 6: 0, 255: 0} {
		if got := m.Bytes(); got != want {
			t.Errorf("%v is %d bytes, want %d", m, got, want)
		}
	}
}

func TestServiceID(t *testing.T) {
	for id, want := range map[ServiceID]struct {
		protocol uint8
		port     uint16
		ip       bool
	}{
		0x0000000001061c06: {ProtocolTCP, 7174, true},
		0x000000000111ffff: {ProtocolUDP, 65535, true},
		0x0000000002061c06: {ProtocolTCP, 7174, false},
		0x1000000001061c06: {ProtocolTCP, 7174, false},
	} {
		protocol, port, ip := id.IP()
		if protocol != want.protocol || port != want.port || ip != want.ip {
			t.Errorf("%v: %d, %d, %v; want %v", id, protocol, port, ip, want)
		}
		if ip && IPService(protocol, port) != id {
			t.Errorf("protocol %d, port %d make %v, want %v", protocol, port, IPService(protocol, port), id)
		}
	}
}

func TestPort(t *testing.T) {
	for id, want := range map[ServiceID]bool{
		IPService(ProtocolTCP, 7174): true, IPService(ProtocolUDP, 7174): true, IPoIBService(7174): true, 0x0000000000021c06: true,
		0x0000000000031c06: false, 0x0000000002061c06: false, 0x1000000000021c06: false, 0x1c06: false,
	} {
		if port, ok := id.Port(); port != 7174 || ok != want {
			t.Errorf("%v: port %d, %v; want %v", id, port, ok, want)
		}
	}
}

func TestIPHeader(t *testing.T) {
	for _, h := range []IPHeader{
		{netip.MustParseAddrPort("10.0.0.2:41977"), netip.MustParseAddr("10.0.0.1")},
		{netip.MustParseAddrPort("[fd00::2]:1"), netip.MustParseAddr("fd00::1")},
		{netip.MustParseAddrPort("[::ffff:10.0.0.2]:65535"), netip.MustParseAddr("::ffff:10.0.0.1")},
	} {
		b := bytes.Repeat([]byte{0xff}, REQPrivateLen)
		h.EncodeTo(b)
		var got IPHeader
		if err := got.Decode(b); err != nil || got != h {
			t.Errorf("%v, %v; want %v", got, err, h)
		}
		for at, v := range map[int]byte{0: 0x10, 1: 0x50} {
			bad := bytes.Clone(b)
			bad[at] = v
			if err := got.Decode(bad); err != ErrPrivateData {
				t.Errorf("byte %d is %#x: %v", at, v, err)
			}
		}
		if err := got.Decode(b[:IPHeaderLen-1]); err != ErrPrivateData {
			t.Errorf("35 bytes: %v", err)
		}
	}
}

func TestGID(t *testing.T) {
	for _, s := range []string{"10.0.0.1", "fd00::1", "::"} {
		if got := GIDOf(netip.MustParseAddr(s)).String(); got != s {
			t.Errorf("%s becomes %s", s, got)
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		ReasonInvalidServiceID.String(): "invalid service ID", ReasonConsumer.String(): "consumer reject", Reason(34).String(): "reason 34",
		AttributeSIDRREP.String(): "SIDR_REP", Attribute(0x1b).String(): "attribute 0x001b",
		SIDRUnsupported.String(): "service ID not supported", SIDRStatus(6).String(): "status 6",
		APUnsupported.String(): "alternate paths not supported", APStatus(14).String(): "status 14",
		MTU1024.String(): "1024", MTU(0).String(): "MTU code 0", ServiceID(0x1061c06).String(): "0x0000000001061c06",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for r := ReasonNoQP; r <= ReasonVendorOptionUnsupported; r++ {
		if named := !strings.HasPrefix(r.String(), "reason "); named != (r != 34) {
			t.Errorf("reason %d is called %q", uint16(r), r)
		}
	}
}

func TestCodecsDoNotAllocate(t *testing.T) {
	b := make([]byte, MADLen)
	var h Header
	for _, a := range attributes {
		m := NewMessage(a)
		if n := testing.AllocsPerRun(10, func() {
			PutMAD(b, 1, m)
			if h.Decode(b) != nil || m.Decode(b[HeaderLen:]) != nil {
				t.Error("refused")
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", a, n)
		}
	}
}

// TestLayers parses messages of all kinds, whole and cut.
func TestLayers(t *testing.T) {
	for _, b := range made(t) {
		h, _, err := Parse(mad(b))
		if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		l := p.Layers()
		if e := p.ErrorLayer(); e != nil || len(l) != 8 || l[5].(*MADLayer).Header != h || l[6].LayerType() != layerType(h.Attribute) || l[7].LayerType() != roce.LayerTypeICRC {
			t.Errorf("%v: %v", h.Attribute, p)
		}
		p = gopacket.NewPacket(b[:len(b)-20], layers.LayerTypeEthernet, gopacket.Default)
		if e := p.ErrorLayer(); e == nil || e.Error() != ErrShort || p.Layer(LayerTypeMAD) == nil || !p.Metadata().Truncated {
			t.Errorf("a cut %v: %v", h.Attribute, p)
		}
	}
	// A datagram of another class is payload.
	b := make([]byte, MADLen)
	(&Header{Class: 3, ClassVersion: 2, Method: 1}).EncodeTo(b)
	p := gopacket.NewPacket(b, LayerTypeMAD, gopacket.Default)
	if l := p.Layers(); len(l) != 2 || l[1].LayerType() != gopacket.LayerTypePayload {
		t.Errorf("another class: %v", p)
	}
}

// FuzzParse reads any bytes as a datagram: a valid message is the same after it
// is written and read again.
func FuzzParse(f *testing.F) {
	for _, b := range made(f) {
		f.Add(mad(b))
	}
	for _, b := range mads(f, captures[0]) {
		f.Add(mad(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		gopacket.NewPacket(b, LayerTypeMAD, gopacket.DecodeOptions{SkipDecodeRecovery: true})
		h, m, err := Parse(b)
		if err != nil {
			return
		}
		again := make([]byte, MADLen)
		PutMAD(again, h.Transaction, m)
		h2, m2, err := Parse(again)
		if err != nil || h2 != NewHeader(h.Transaction, h.Attribute) {
			t.Fatalf("%+v again is %+v, %v", h, h2, err)
		}
		if diff := cmp.Diff(m, m2); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
		var private []byte
		switch m := m.(type) {
		case *REQ:
			private = m.PrivateData[:]
		case *SIDRREQ:
			private = m.PrivateData[:]
		}
		var x, y IPHeader
		if x.Decode(private) == nil {
			x.EncodeTo(private)
			if err := y.Decode(private); err != nil || x != y {
				t.Errorf("%v again is %v, %v", x, y, err)
			}
		}
	})
}
