package roce

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// header is a header after the BTH.
type header[H any] interface {
	*H
	Decode(b []byte) error
	EncodeTo(b []byte)
	extensionBit() Extension
}

// ExtendedLayer is the layer of a header after the BTH.
type ExtendedLayer[H any, P header[H]] struct {
	layers.BaseLayer
	Header H
	// Base determines what follows this header. Without it, the rest is treated as
	// opaque bytes.
	Base *BTHLayer
}

// Layers of the headers after the BTH.
type (
	DETHLayer         = ExtendedLayer[DETH, *DETH]
	XRCETHLayer       = ExtendedLayer[XRCETH, *XRCETH]
	RETHLayer         = ExtendedLayer[RETH, *RETH]
	AtomicETHLayer    = ExtendedLayer[AtomicETH, *AtomicETH]
	AETHLayer         = ExtendedLayer[AETH, *AETH]
	AtomicAckETHLayer = ExtendedLayer[AtomicAckETH, *AtomicAckETH]
	ImmDtLayer        = ExtendedLayer[ImmDt, *ImmDt]
	IETHLayer         = ExtendedLayer[IETH, *IETH]
	CNPLayer          = ExtendedLayer[CNPReserved, *CNPReserved]
	SendETHLayer      = ExtendedLayer[SendETH, *SendETH]
	SelETHLayer       = ExtendedLayer[SelETH, *SelETH]
)

func (l *ExtendedLayer[H, P]) extensionBit() Extension { return P(&l.Header).extensionBit() }

// LayerType returns the type of the header's layer.
func (l *ExtendedLayer[H, P]) LayerType() gopacket.LayerType { return layerType(l.extensionBit()) }

// CanDecode returns the type of the layer.
func (l *ExtendedLayer[H, P]) CanDecode() gopacket.LayerClass { return l.LayerType() }

// NextLayerType returns the next type according to the opcode of Base.
func (l *ExtendedLayer[H, P]) NextLayerType() gopacket.LayerType {
	if l.Base == nil {
		return gopacket.LayerTypePayload
	}
	return l.Base.nextLayerType(l.extensionBit(), len(l.Payload))
}

// DecodeFromBytes reads the header, or returns ErrShort.
func (l *ExtendedLayer[H, P]) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := P(&l.Header).Decode(data); err != nil {
		df.SetTruncated()
		return err
	}
	n := l.headersLen()
	l.BaseLayer = layers.BaseLayer{Contents: data[:n], Payload: data[n:]}
	return nil
}

// SerializeTo writes the header.
func (l *ExtendedLayer[H, P]) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	return prependHeader(b, l.headersLen(), P(&l.Header))
}

func (l *ExtendedLayer[H, P]) headersLen() int { return l.extensionBit().Len() }

// PayloadLayer is the payload of a packet and its pad.
type PayloadLayer struct {
	layers.BaseLayer        // Contents is Data and the pad
	Data             []byte // without the pad
	Pad              uint8
	Base             *BTHLayer // has the pad count
}

// LayerType returns LayerTypePayload.
func (l *PayloadLayer) LayerType() gopacket.LayerType { return LayerTypePayload }

// CanDecode returns LayerTypePayload.
func (l *PayloadLayer) CanDecode() gopacket.LayerClass { return LayerTypePayload }

// NextLayerType returns LayerTypeICRC if bytes are left.
func (l *PayloadLayer) NextLayerType() gopacket.LayerType {
	if len(l.Payload) == 0 {
		return gopacket.LayerTypeZero
	}
	return LayerTypeICRC
}

// DecodeFromBytes takes everything before the ICRC. From a truncated packet it
// takes everything, including any part of the pad. Without Base it treats
// everything as data. It returns ErrLength if data has no room for pad and ICRC.
func (l *PayloadLayer) DecodeFromBytes(data []byte, _ gopacket.DecodeFeedback) error {
	l.BaseLayer, l.Data, l.Pad = layers.BaseLayer{Contents: data}, data, 0
	if l.Base == nil || l.Base.Truncated {
		return nil
	}
	n := len(data) - ICRCLen - int(l.Base.Pad)
	if n < 0 {
		return fmt.Errorf("%w: %d bytes for payload, a pad of %d and the ICRC", ErrLength, len(data), l.Base.Pad)
	}
	l.Data, l.Pad = data[:n], l.Base.Pad
	l.BaseLayer = layers.BaseLayer{Contents: data[:n+int(l.Pad)], Payload: data[n+int(l.Pad):]}
	return nil
}

// SerializeTo writes Data and a pad of Pad bytes. With FixLengths it first sets Pad
// to the correct number. The BTH must have the same pad count.
func (l *PayloadLayer) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if opts.FixLengths {
		l.Pad = PadOf(len(l.Data))
	}
	to, err := b.PrependBytes(len(l.Data) + int(l.Pad))
	if err == nil {
		clear(to[copy(to, l.Data):])
	}
	return err
}

type decodable interface {
	gopacket.DecodingLayer
	gopacket.Layer
}

func newLayer(e Extension, bth *BTHLayer) decodable {
	switch e {
	case ExtDETH:
		return &DETHLayer{Base: bth}
	case ExtXRCETH:
		return &XRCETHLayer{Base: bth}
	case ExtRETH:
		return &RETHLayer{Base: bth}
	case ExtAtomicETH:
		return &AtomicETHLayer{Base: bth}
	case ExtAETH:
		return &AETHLayer{Base: bth}
	case ExtAtomicAckETH:
		return &AtomicAckETHLayer{Base: bth}
	case ExtImmDt:
		return &ImmDtLayer{Base: bth}
	case ExtIETH:
		return &IETHLayer{Base: bth}
	case ExtCNP:
		return &CNPLayer{Base: bth}
	case ExtSendETH:
		return &SendETHLayer{Base: bth}
	case ExtSelETH:
		return &SelETHLayer{Base: bth}
	}
	return &PayloadLayer{Base: bth}
}

func decodeNext(e Extension, bth *BTHLayer, data []byte, p gopacket.PacketBuilder) error {
	l := newLayer(e, bth)
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	if bth == nil {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	return decodeRest(l.NextLayerType(), bth, p)
}
