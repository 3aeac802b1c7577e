package roce

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// layerNames returns the layers after UDP in a packet of an opcode. An empty
// payload has no layer.
func layerNames(o Opcode, payload bool) (names []gopacket.LayerType) {
	names = append(names, LayerTypeBTH)
	by := []struct {
		e Extension
		t gopacket.LayerType
	}{{ExtDETH, LayerTypeDETH}, {ExtXRCETH, LayerTypeXRCETH}, {ExtRETH, LayerTypeRETH}, {ExtAtomicETH, LayerTypeAtomicETH}, {ExtAETH, LayerTypeAETH},
		{ExtAtomicAckETH, LayerTypeAtomicAckETH}, {ExtImmDt, LayerTypeImmDt}, {ExtIETH, LayerTypeIETH}, {ExtCNP, LayerTypeCNP},
		{ExtSendETH, LayerTypeSendETH}, {ExtSelETH, LayerTypeSelETH}}
	for _, x := range by {
		if o.Extensions().Has(x.e) {
			names = append(names, x.t)
		}
	}
	if payload {
		names = append(names, LayerTypePayload)
	}
	return append(names, LayerTypeICRC)
}

// TestLayers parses whole packets of all opcodes, at once, lazily and with a
// DecodingLayerParser, and serializes the layers to the same bytes.
func TestLayers(t *testing.T) {
	var set Layers
	var ip4 layers.IPv4
	var ip6 layers.IPv6
	var udp layers.UDP
	var found []gopacket.LayerType
	four := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv4, append(set.Decoders(), &ip4, &udp)...)
	six := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv6, append(set.Decoders(), &ip6, &udp)...)
	for _, b := range made(t) {
		var p Packet
		if err := p.DecodeIP(b[ethernet:]); err != nil {
			t.Fatal(err)
		}
		want := layerNames(p.BTH.Opcode, p.Length > 0)
		for _, o := range []gopacket.DecodeOptions{gopacket.Default, gopacket.Lazy} {
			g := gopacket.NewPacket(b, layers.LayerTypeEthernet, o)
			if e := g.ErrorLayer(); e != nil {
				t.Fatalf("%v: %v", p.BTH.Opcode, e.Error())
			}
			if g.Metadata().Truncated {
				t.Errorf("%v is said to be truncated", p.BTH.Opcode)
			}
			var got []gopacket.LayerType
			for _, l := range g.Layers()[3:] {
				got = append(got, l.LayerType())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", p.BTH.Opcode, diff)
			}
			if got := g.Layer(LayerTypeICRC).(*ICRCLayer).Value; got != p.ICRC {
				t.Errorf("%v: ICRC %#x, want %#x", p.BTH.Opcode, got, p.ICRC)
			}
			if bth := g.Layer(LayerTypeBTH).(*BTHLayer); bth.BTH != p.BTH {
				t.Errorf("%+v, want %+v", bth.BTH, p.BTH)
			}
			if l, ok := g.Layer(LayerTypePayload).(*PayloadLayer); ok && !bytes.Equal(l.Data, p.Payload) {
				t.Errorf("payload % x, want % x", l.Data, p.Payload)
			}
		}
		parser := four
		if b[ethernet]>>4 == 6 {
			parser = six
		}
		if err := parser.DecodeLayers(b[ethernet:], &found); err != nil {
			t.Errorf("%v: %v", p.BTH.Opcode, err)
		}
		if diff := cmp.Diff(want, found[2:]); diff != "" {
			t.Errorf("%v, by the parser (-want +got):\n%s", p.BTH.Opcode, diff)
		}
		if p.Extensions.Has(ExtRETH) && set.RETH.Header != p.RETH || set.ICRC.Value != p.ICRC {
			t.Errorf("%v: %+v, %#x; want %+v, %#x", p.BTH.Opcode, set.RETH.Header, set.ICRC.Value, p.RETH, p.ICRC)
		}
		again := relayer(t, b)
		if want := b[:ethernet+len(whole(b))]; !bytes.Equal(want, again[:len(want)]) {
			t.Errorf("%v: made of its layers (-was +made):\n%s", p.BTH.Opcode, cmp.Diff(want, again))
		}
	}
}

// TestLayersOfTrimmed: a trimmed packet keeps its remaining headers.
func TestLayersOfTrimmed(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	b := render(t, r, 4, random(r, RC.WithOperation(WriteOnlyImm), 1000))
	bth := ethernet + 28
	for _, c := range []struct {
		keep  int
		want  []gopacket.LayerType
		error error
	}{
		{bth + 11, nil, ErrShort},
		{bth + 12, []gopacket.LayerType{LayerTypeBTH}, nil},
		{bth + 27, []gopacket.LayerType{LayerTypeBTH}, ErrShort},
		{bth + 28, []gopacket.LayerType{LayerTypeBTH, LayerTypeRETH}, nil},
		{bth + 32, []gopacket.LayerType{LayerTypeBTH, LayerTypeRETH, LayerTypeImmDt}, nil},
		{bth + 36, []gopacket.LayerType{LayerTypeBTH, LayerTypeRETH, LayerTypeImmDt, LayerTypePayload}, nil},
		{len(b) - 1, []gopacket.LayerType{LayerTypeBTH, LayerTypeRETH, LayerTypeImmDt, LayerTypePayload}, nil},
		{len(b), []gopacket.LayerType{LayerTypeBTH, LayerTypeRETH, LayerTypeImmDt, LayerTypePayload, LayerTypeICRC}, nil},
	} {
		p := gopacket.NewPacket(b[:c.keep], layers.LayerTypeEthernet, gopacket.Default)
		var got []gopacket.LayerType
		for _, l := range p.Layers()[3:] {
			if _, failed := l.(gopacket.ErrorLayer); !failed {
				got = append(got, l.LayerType())
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d bytes (-want +got):\n%s", c.keep, diff)
		}
		var err error
		if e := p.ErrorLayer(); e != nil {
			err = e.Error()
		}
		if !errors.Is(err, c.error) {
			t.Errorf("%d bytes: %v, want %v", c.keep, err, c.error)
		}
		if cut := c.keep < len(b); p.Metadata().Truncated != cut {
			t.Errorf("%d bytes of %d: truncated %v", c.keep, len(b), !cut)
		}
	}
}

func TestLayersRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	ack := whole(render(t, r, 4, random(r, RC.WithOperation(Ack), 0)))[28:]
	for name, b := range map[string][]byte{
		"without an ICRC":         ack[:16],
		"with a payload":          append(bytes.Clone(ack), 0, 0, 0, 0),
		"without its headers":     ack[:12],
		"of no multiple of four":  append(bytes.Clone(ack), 0),
		"with a pad, but nothing": append([]byte{ack[0], 0x10}, ack[2:]...),
	} {
		p := gopacket.NewPacket(b, LayerTypeBTH, gopacket.Default)
		if e := p.ErrorLayer(); e == nil || e.Error() != ErrLength || p.Layer(LayerTypeBTH) == nil {
			t.Errorf("an acknowledgement %s: %v", name, p)
		}
	}
	for _, c := range []struct {
		at   int
		v    byte
		want error
	}{{0, 0x44, ErrOpcode}, {1, 0x01, ErrVersion}} {
		b := render(t, r, 4, random(r, RC.WithOperation(SendOnly), 100))
		b[ethernet+28+c.at] = c.v
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		if e := p.ErrorLayer(); e == nil || !errors.Is(e.Error(), c.want) {
			t.Errorf("%v, want %v", e, c.want)
		}
	}
	all := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	for name, l := range map[string][]gopacket.SerializableLayer{
		"without IP":              {&BTHLayer{BTH: BTH{Opcode: RC.WithOperation(Ack)}}, &AETHLayer{}, &ICRCLayer{}},
		"a payload without a pad": {&BTHLayer{BTH: BTH{Opcode: RC.WithOperation(SendOnly)}}, gopacket.Payload("x"), &ICRCLayer{}},
	} {
		if err := SerializePacket(gopacket.NewSerializeBuffer(), all, l...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLoneLayers: a header that is decoded by its type alone is read, and the rest
// is opaque bytes.
func TestLoneLayers(t *testing.T) {
	b := bytes.Repeat([]byte{7}, 60)
	for _, e := range []Extension{ExtDETH, ExtRETH, ExtAtomicETH, ExtAETH, ExtAtomicAckETH, ExtImmDt, ExtIETH, ExtCNP, ExtSendETH, ExtSelETH} {
		p := gopacket.NewPacket(b, layerType(e), gopacket.Default)
		if n := len(p.Layers()); n != 2 || p.ErrorLayer() != nil || p.Layers()[0].LayerType() != layerType(e) || len(p.Layers()[0].LayerContents()) != e.Len() {
			t.Errorf("%v: %v", layerType(e), p)
		}
		if p := gopacket.NewPacket(b[:e.Len()-1], layerType(e), gopacket.Default); p.ErrorLayer() == nil || !p.Metadata().Truncated {
			t.Errorf("%v cut short: %v", layerType(e), p)
		}
	}
}

func TestTheParserDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var set Layers
	parser := gopacket.NewDecodingLayerParser(LayerTypeBTH, set.Decoders()...)
	var found []gopacket.LayerType
	for _, o := range opcodes() {
		b := whole(render(t, r, 4, random(r, o, 100)))[28:]
		if n := testing.AllocsPerRun(10, func() {
			if err := parser.DecodeLayers(b, &found); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", o, n)
		}
	}
}
