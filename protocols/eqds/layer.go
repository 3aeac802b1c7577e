package eqds

import (
	_ "embed" // eqds.lua

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/sim/registry"
)

// LayerType is gopacket's layer type of both headers. A packet to UDP port 54793 is decoded
// as Ethernet, IP, UDP, Layer and what the tunnel carries.
var LayerType = gopacket.RegisterLayerType(layerNumber, gopacket.LayerTypeMetadata{Name: "EQDS", Decoder: gopacket.DecodeFunc(decodeHeader)})

// layerNumber does not collide with those of package roce, from 1710 on; gopacket leaves
// numbers from 1000 on to others.
const layerNumber = 1750

//go:embed eqds.lua
var lua string

func init() {
	layers.RegisterUDPPortLayerType(Port, LayerType)
	registry.Dissectors.Register("eqds", lua)
}

// Layer is a header of a tunnel.
type Layer struct {
	layers.BaseLayer
	IsControl bool
	Data      Data    // zero if IsControl
	Control   Control // zero unless IsControl
}

// LayerType returns LayerType.
func (l *Layer) LayerType() gopacket.LayerType { return LayerType }

// CanDecode returns LayerType.
func (l *Layer) CanDecode() gopacket.LayerClass { return LayerType }

// DecodeFromBytes reads the header. Errors are those of Data.Decode and Control.Decode.
func (l *Layer) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) (err error) {
	*l = Layer{IsControl: IsControl(data)}
	if l.IsControl {
		err = l.Control.Decode(data)
	} else {
		err = l.Data.Decode(data)
	}
	if err == ErrShort {
		df.SetTruncated()
	}
	if err == nil {
		l.BaseLayer = layers.BaseLayer{Contents: data[:HeaderLen], Payload: data[HeaderLen:]}
	}
	return err
}

// NextLayerType returns the layer type of what the tunnel carries.
func (l *Layer) NextLayerType() gopacket.LayerType {
	if l.IsControl || len(l.Payload) == 0 {
		return gopacket.LayerTypeZero
	}
	switch l.Data.Next {
	case NextIPv4:
		return layers.LayerTypeIPv4
	case NextIPv6:
		return layers.LayerTypeIPv6
	case NextEthernet:
		return layers.LayerTypeEthernet
	case NextVXLAN:
		return layers.LayerTypeVXLAN
	}
	return gopacket.LayerTypePayload
}

// SerializeTo writes the header in front of what the tunnel carries.
func (l *Layer) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(HeaderLen)
	if err != nil {
		return err
	}
	if l.IsControl {
		l.Control.EncodeTo(bytes)
	} else {
		l.Data.EncodeTo(bytes)
	}
	return nil
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
