package ndp

import (
	_ "embed" // ndp.lua

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/sim/registry"
)

// LayerType is gopacket's layer type of the header. A packet to UDP port 54794 is decoded as
// Ethernet, IP, UDP, Layer and payload.
var LayerType = gopacket.RegisterLayerType(layerNumber, gopacket.LayerTypeMetadata{Name: "NDP", Decoder: gopacket.DecodeFunc(decodeHeader)})

// layerNumber does not collide with that of package eqds; gopacket leaves numbers from 1000 on
// to others.
const layerNumber = 1760

//go:embed ndp.lua
var lua string

func init() {
	layers.RegisterUDPPortLayerType(Port, LayerType)
	registry.Dissectors.Register("ndp", lua)
}

// Layer is the header of a packet.
type Layer struct {
	layers.BaseLayer
	Header
}

// LayerType returns LayerType.
func (l *Layer) LayerType() gopacket.LayerType { return LayerType }

// CanDecode returns LayerType.
func (l *Layer) CanDecode() gopacket.LayerClass { return LayerType }

// DecodeFromBytes reads the header. Errors are those of Header.Decode.
func (l *Layer) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	*l = Layer{}
	if err := l.Decode(data); err != nil {
		if err == ErrShort {
			df.SetTruncated()
		}
		return err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:HeaderLen], Payload: data[HeaderLen:]}
	return nil
}

// NextLayerType returns the layer type of the payload.
func (l *Layer) NextLayerType() gopacket.LayerType {
	if len(l.Payload) == 0 {
		return gopacket.LayerTypeZero
	}
	return gopacket.LayerTypePayload
}

// SerializeTo writes the header in front of the payload.
func (l *Layer) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(HeaderLen)
	if err == nil {
		l.EncodeTo(bytes)
	}
	return err
}

func decodeHeader(data []byte, p gopacket.PacketBuilder) error {
	l := new(Layer)
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	if next := l.NextLayerType(); next != gopacket.LayerTypeZero {
		return p.NextDecoder(next)
	}
	return nil
}
