package roce

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// TestOpcodes compares the opcodes with an independent list from IBTA §9.2.1.
func TestOpcodes(t *testing.T) {
	valid := map[Opcode]bool{}
	for _, o := range opcodes() {
		valid[o] = true
	}
	for i := range 256 {
		o := Opcode(i)
		if o.IsValid() != valid[o] || (o.Extensions() != 0) != valid[o] {
			t.Errorf("%v: valid %v, want %v", o, o.IsValid(), valid[o])
		}
		if o.Service().WithOperation(o.Operation()) != o {
			t.Errorf("%#x is not its service with its operation", i)
		}
	}
	lengths := map[Opcode]int{
		RC.WithOperation(SendOnly): 12, RC.WithOperation(SendOnlyImm): 16, RC.WithOperation(SendOnlyInv): 16, RC.WithOperation(SendLastInv): 16,
		RC.WithOperation(WriteFirst): 28, RC.WithOperation(WriteOnlyImm): 32, RC.WithOperation(WriteMiddle): 12, RC.WithOperation(WriteLastImm): 16,
		RC.WithOperation(ReadRequest): 28, RC.WithOperation(ReadFirst): 16, RC.WithOperation(ReadMiddle): 12, RC.WithOperation(ReadOnly): 16,
		RC.WithOperation(Ack): 16, RC.WithOperation(AtomicAck): 24, RC.WithOperation(CompareSwap): 40, RC.WithOperation(FetchAdd): 40,
		XRC.WithOperation(SendMiddle): 16, XRC.WithOperation(SendLastImm): 20, XRC.WithOperation(WriteOnlyImm): 36, XRC.WithOperation(ReadRequest): 32, XRC.WithOperation(ReadFirst): 16, XRC.WithOperation(Ack): 16, XRC.WithOperation(FetchAdd): 44,
		UC.WithOperation(SendOnly): 12, UC.WithOperation(WriteOnly): 28, UD.WithOperation(SendOnly): 20, UD.WithOperation(SendOnlyImm): 24, NotifyCongestion: 28,
		IRN.WithOperation(SendMiddle): 20, IRN.WithOperation(SendOnlyInv): 24, IRN.WithOperation(WriteMiddle): 28, IRN.WithOperation(WriteLastImm): 32, IRN.WithOperation(Ack): 16, IRN.WithOperation(Nack): 20, IRN.WithOperation(ReadAck): 16, IRN.WithOperation(ReadRequest): 32, IRN.WithOperation(FetchAdd): 44, IRN.WithOperation(ReadMiddle): 12, IRN.WithOperation(AtomicAck): 24,
	}
	for o, want := range lengths {
		if o.HeaderLen() != want || BTHLen+o.Extensions().Len() != want {
			t.Errorf("%v has %d bytes of headers, want %d", o, o.HeaderLen(), want)
		}
	}
	for o, want := range map[Opcode]string{
		0x0a: "RC RDMA WRITE Only", 0x24: "UC SEND Only", 0x65: "UD SEND Only with Immediate", 0x81: "CNP",
		0x15: "opcode 0x15", 0x2c: "opcode 0x2c", 0x64 - 1: "opcode 0x63", 0xa4: "XRC SEND Only", 0xb5: "opcode 0xb5", 0xd8: "IRN Negative Acknowledge", 0x18: "opcode 0x18",
	} {
		if o.String() != want {
			t.Errorf("%#x is called %q, want %q", uint8(o), o.String(), want)
		}
	}
	if s := Service(2).String() + XRC.String() + RC.String() + UC.String() + UD.String() + CNP.String() + IRN.String(); s != "service 2XRCRCUCUDCNPIRN" {
		t.Errorf("services are called %s", s)
	}
}

// drawPacket draws any valid packet.
func drawPacket(t *rapid.T) *Packet {
	o := rapid.SampledFrom(opcodes()).Draw(t, "opcode")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	return random(r, o, rapid.IntRange(0, 300).Draw(t, "payload"))
}

// allHeaders compares packets with their further headers, which are zero if they were
// never used.
var allHeaders = cmp.Options{cmp.AllowUnexported(Packet{}), cmp.Transformer("Further", func(h *Further) Further {
	if h == nil {
		return Further{}
	}
	return *h
})}

// TestSet: a copy has every header and shares nothing with the original.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawPacket(t), drawPacket(t)
		b, again := make([]byte, p.Len()), make([]byte, p.Len())
		p.Put(b)
		c.Set(p)
		*p.FurtherHeaders() = Further{DETH: DETH{QKey: 1}, Atomic: AtomicETH{VA: 1}, AtomicAck: AtomicAckETH{Original: 1}}
		clear(p.Payload)
		if n := c.Put(again); n != len(b) || !bytes.Equal(b, again) {
			t.Fatalf("the copy is written as % x, not as % x", again, b)
		}
	})
}

func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPacket(t)
		b := bytes.Repeat([]byte{0xee}, p.Len()+3)
		if n := p.Put(b); n != p.Len() || !bytes.Equal(b[n:], []byte{0xee, 0xee, 0xee}) {
			t.Fatalf("%d bytes put, of %d: % x", n, p.Len(), b)
		}
		var got Packet
		if err := got.Decode(b, p.Len()); err != nil {
			t.Fatal(err)
		}
		want := *p
		want.Extensions, want.Length, want.BTH.Pad = p.BTH.Opcode.Extensions(), len(p.Payload), PadOf(len(p.Payload))
		if len(want.Payload) == 0 {
			want.Payload, got.Payload = nil, nil
		}
		if diff := cmp.Diff(want, got, allHeaders); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestSizesAlone: a packet with only a modelled length is written with a payload of
// zeros, and reads back so. If the payload is shorter than Length, the rest is zeros;
// a longer payload counts completely.
func TestSizesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPacket(t)
		full := *p
		if !p.BTH.Opcode.Extensions().Has(ExtPayload) {
			p.Length = 0
		} else {
			p.Length = rapid.IntRange(0, 300).Draw(t, "length")
			full.Payload = append(bytes.Clone(p.Payload), make([]byte, max(0, p.Length-len(p.Payload)))...)
		}
		b, want := bytes.Repeat([]byte{0xee}, p.Len()+3), make([]byte, full.Len())
		full.Put(want)
		if n := p.Put(b); n != p.Len() || !bytes.Equal(b[:n], want) || !bytes.Equal(b[n:], []byte{0xee, 0xee, 0xee}) {
			t.Fatalf("%d bytes put, of %d: % x, want % x", n, p.Len(), b, want)
		}
		var got Packet
		if err := got.Decode(want, len(want)); err != nil || got.Length != len(full.Payload) {
			t.Fatalf("reads back with %d bytes of payload, want %d: %v", got.Length, len(full.Payload), err)
		}
	})
}

// TestTrimmed cuts packets at every byte: complete headers are read, and the packet
// is marked as truncated.
func TestTrimmed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPacket(t)
		b := make([]byte, p.Len())
		p.Put(b)
		var full Packet
		if err := full.Decode(b, len(b)); err != nil {
			t.Fatal(err)
		}
		for n := range b {
			var got Packet
			err := got.Decode(b[:n], len(b))
			if !got.Truncated || (err != nil) != (n < BTHLen) || err != nil && err != ErrShort {
				t.Fatalf("%d of %d bytes: truncated %v, %v", n, len(b), got.Truncated, err)
			}
			if err != nil {
				continue
			}
			var want Packet
			want.Set(&full)
			want.Truncated, want.ICRC, want.Extensions, want.Payload = true, 0, 0, nil
			at := BTHLen
			for e := ExtDETH; e <= ExtPayload; e <<= 1 {
				if full.Extensions.Has(e) {
					if at += e.Len(); at > n {
						break
					}
					want.Extensions |= e
				}
			}
			if !want.Extensions.Has(ExtDETH) {
				want.FurtherHeaders().DETH = DETH{}
			}
			if !want.Extensions.Has(ExtXRCETH) {
				want.FurtherHeaders().XRC = XRCETH{}
			}
			if !want.Extensions.Has(ExtRETH) {
				want.RETH = RETH{}
			}
			if !want.Extensions.Has(ExtAtomicETH) {
				want.FurtherHeaders().Atomic = AtomicETH{}
			}
			if !want.Extensions.Has(ExtAETH) {
				want.AETH = AETH{}
			}
			if !want.Extensions.Has(ExtAtomicAckETH) {
				want.FurtherHeaders().AtomicAck = AtomicAckETH{}
			}
			if !want.Extensions.Has(ExtImmDt) {
				want.ImmDt = ImmDt{}
			}
			if !want.Extensions.Has(ExtIETH) {
				want.IETH = IETH{}
			}
			if !want.Extensions.Has(ExtSendETH) {
				want.Send = SendETH{}
			}
			if !want.Extensions.Has(ExtSelETH) {
				want.Selective = SelETH{}
			}
			header := p.BTH.Opcode.HeaderLen()
			if there := max(0, min(n-header, len(p.Payload))); !bytes.Equal(got.Payload, p.Payload[:there]) {
				t.Fatalf("%d bytes of payload, want %d", len(got.Payload), there)
			}
			got.Payload = nil
			if diff := cmp.Diff(want, got, allHeaders); diff != "" {
				t.Fatalf("%d of %d bytes (-want +got):\n%s", n, len(b), diff)
			}
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	put := func(p Packet) []byte {
		b := make([]byte, p.Len())
		p.Put(b)
		return b
	}
	send := put(Packet{BTH: BTH{Opcode: RC.WithOperation(SendOnly)}, Payload: []byte{1, 2, 3, 4}})
	ack := put(Packet{BTH: BTH{Opcode: RC.WithOperation(Ack)}})
	with := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		more int // excess of the UDP length over the bytes present
		want error
	}{
		"nothing":                               {nil, 0, ErrShort},
		"11 bytes":                              {send[:11], 0, ErrShort},
		"version 1":                             {with(send, 1, 0x01), 0, ErrVersion},
		"version 15":                            {with(send, 1, 0x0f), 0, ErrVersion},
		"RD":                                    {with(send, 0, 0x44), 0, ErrOpcode},
		"XRC with a reserved operation":         {with(send, 0, 0xb5), 0, ErrOpcode},
		"UD of several packets":                 {with(send, 0, 0x60), 0, ErrOpcode},
		"READ over UC":                          {with(send, 0, 0x2c), 0, ErrOpcode},
		"no ICRC":                               {send[:12], 0, ErrLength},
		"three bytes of ICRC":                   {send[:15], 0, ErrLength},
		"no multiple of four":                   {send[:17], 0, ErrLength},
		"a pad longer than there is room":       {with(send[:16], 1, 0x10), 0, ErrLength},
		"a WRITE without its RETH":              {with(send, 0, 0x0a), 0, ErrLength},
		"an acknowledgement with payload":       {append(bytes.Clone(ack), 0, 0, 0, 0), 0, ErrLength},
		"an acknowledgement with a pad":         {with(append(bytes.Clone(ack), 0, 0, 0, 0), 1, 0x30), 0, ErrLength},
		"a CNP of 28 bytes":                     {with(make([]byte, 28), 0, 0x81), 0, ErrLength},
		"a cut one with too small a UDP length": {with(send, 0, 0x0a), 4, ErrLength},
	} {
		var p Packet
		if err := p.Decode(c.b, len(c.b)+c.more); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestNotification checks the bytes of a CNP (ConnectX sends the same, with DSCP 48).
func TestNotification(t *testing.T) {
	p := Packet{BTH: CNPHeader(0xd2)}
	b := make([]byte, p.Len())
	p.Put(b)
	want := append([]byte{0x81, 0x00, 0xff, 0xff, 0x40, 0, 0, 0xd2, 0, 0, 0, 0}, make([]byte, 20)...)
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
}

// TestHeadersTakeTheirBits: a number that is too large for its field does not
// spill into its neighbours.
func TestHeadersTakeTheirBits(t *testing.T) {
	b := make([]byte, BTHLen)
	(&BTH{Pad: 0xff, DestQP: ^uint32(0), PSN: ^uint32(0)}).EncodeTo(b)
	if want := []byte{0, 0x30, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff}; !bytes.Equal(b, want) {
		t.Errorf("BTH % x, want % x", b, want)
	}
	(&AETH{Syndrome: 1, MSN: ^uint32(0)}).EncodeTo(b)
	(&DETH{SourceQP: ^uint32(0)}).EncodeTo(b[4:])
	if want := []byte{1, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff}; !bytes.Equal(b, want) {
		t.Errorf("AETH and DETH % x, want % x", b, want)
	}
}

func TestRNRTime(t *testing.T) {
	for code, want := range map[uint8]units.Time{
		0: 655360 * units.Microsecond, 1: 10 * units.Microsecond, 5: 60 * units.Microsecond, 12: 640 * units.Microsecond,
		16: 2560 * units.Microsecond, 31: 491520 * units.Microsecond, SyndromeRNR | 31: 491520 * units.Microsecond,
	} {
		if got := RNRTime(code); got != want {
			t.Errorf("code %d is %v, want %v", code, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		wait := units.Time(rapid.Int64Range(0, int64(units.Second)).Draw(t, "wait"))
		got := RNRTime(RNRCode(wait))
		if got < wait && got != RNRTime(0) {
			t.Fatalf("%v is asked for as %v", wait, got)
		}
		for code := range uint8(32) {
			if x := RNRTime(code); x >= wait && x < got {
				t.Fatalf("%v is asked for as %v, not as %v", wait, got, x)
			}
		}
	})
}

func TestThePacketPathDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, version := range []int{4, 6} {
		for _, o := range opcodes() {
			b := render(t, r, version, random(r, o, 100))
			var p Packet
			again := make([]byte, len(b))
			if n := testing.AllocsPerRun(10, func() {
				if p.DecodeIP(b[ethernet:]) != nil || CheckICRC(b[ethernet:]) != nil || PutICRC(b[ethernet:]) != nil {
					t.Error("refused")
				}
				p.Put(again)
			}); n != 0 {
				t.Errorf("%v over IPv%d: %v allocations", o, version, n)
			}
		}
	}
}

func BenchmarkCheckICRC(b *testing.B) {
	r := rand.New(rand.NewPCG(13, 14))
	ip := whole(render(b, r, 4, random(r, RC.WithOperation(SendMiddle), 1024)))
	b.SetBytes(int64(len(ip)))
	for b.Loop() {
		if err := CheckICRC(ip); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeIP(b *testing.B) {
	r := rand.New(rand.NewPCG(15, 16))
	ip := whole(render(b, r, 4, random(r, RC.WithOperation(WriteOnly), 1024)))
	var p Packet
	for b.Loop() {
		if err := p.DecodeIP(ip); err != nil {
			b.Fatal(err)
		}
	}
}
