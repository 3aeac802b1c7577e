package cm

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/wire/roce"
)

// gopacket's layer types of connection management. With this package, datagrams
// to queue pair 1 are decoded as a MAD and a message instead of a payload.
var (
	LayerTypeMAD     = gopacket.RegisterLayerType(firstLayer, gopacket.LayerTypeMetadata{Name: "MAD", Decoder: gopacket.DecodeFunc(decodeMAD)})
	LayerTypeREQ     = registerLayer[REQ](AttributeREQ)
	LayerTypeMRA     = registerLayer[MRA](AttributeMRA)
	LayerTypeREJ     = registerLayer[REJ](AttributeREJ)
	LayerTypeREP     = registerLayer[REP](AttributeREP)
	LayerTypeRTU     = registerLayer[RTU](AttributeRTU)
	LayerTypeDREQ    = registerLayer[DREQ](AttributeDREQ)
	LayerTypeDREP    = registerLayer[DREP](AttributeDREP)
	LayerTypeSIDRREQ = registerLayer[SIDRREQ](AttributeSIDRREQ)
	LayerTypeSIDRREP = registerLayer[SIDRREP](AttributeSIDRREP)
	LayerTypeLAP     = registerLayer[LAP](AttributeLAP)
	LayerTypeAPR     = registerLayer[APR](AttributeAPR)
)

// The layers of the messages.
type (
	REQLayer     = MessageLayer[REQ, *REQ]
	MRALayer     = MessageLayer[MRA, *MRA]
	REJLayer     = MessageLayer[REJ, *REJ]
	REPLayer     = MessageLayer[REP, *REP]
	RTULayer     = MessageLayer[RTU, *RTU]
	DREQLayer    = MessageLayer[DREQ, *DREQ]
	DREPLayer    = MessageLayer[DREP, *DREP]
	SIDRREQLayer = MessageLayer[SIDRREQ, *SIDRREQ]
	SIDRREPLayer = MessageLayer[SIDRREP, *SIDRREP]
	LAPLayer     = MessageLayer[LAP, *LAP]
	APRLayer     = MessageLayer[APR, *APR]
)

// firstLayer is the number of the first layer type, after those of package
// roce. Those of messages follow in the order of their attributes.
const firstLayer = 1730

func init() { roce.RegisterManagementLayerType(LayerTypeMAD) }

func layerType(a Attribute) gopacket.LayerType {
	return gopacket.LayerType(firstLayer + 1 + int(a-AttributeREQ))
}

func registerLayer[M any, P message[M]](a Attribute) gopacket.LayerType {
	decode := gopacket.DecodeFunc(func(data []byte, p gopacket.PacketBuilder) error {
		return addLayer(&MessageLayer[M, P]{}, data, p)
	})
	return gopacket.RegisterLayerType(int(layerType(a)), gopacket.LayerTypeMetadata{Name: a.String(), Decoder: decode})
}

// MADLayer is the header of a management datagram.
type MADLayer struct {
	layers.BaseLayer
	Header
}

// LayerType returns LayerTypeMAD.
func (l *MADLayer) LayerType() gopacket.LayerType { return LayerTypeMAD }

// CanDecode returns LayerTypeMAD.
func (l *MADLayer) CanDecode() gopacket.LayerClass { return LayerTypeMAD }

// DecodeFromBytes reads the header. Errors are those of Header.Decode.
func (l *MADLayer) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := l.Header.Decode(data); err != nil {
		if err == ErrShort {
			df.SetTruncated()
		}
		return err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:HeaderLen], Payload: data[HeaderLen:]}
	return nil
}

// NextLayerType returns the layer type of the message. The rest of other
// datagrams is a payload that includes the ICRC.
func (l *MADLayer) NextLayerType() gopacket.LayerType {
	if l.Check() != nil || NewMessage(l.Attribute) == nil {
		return gopacket.LayerTypePayload
	}
	return layerType(l.Attribute)
}

// SerializeTo writes the header.
func (l *MADLayer) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	to, err := b.PrependBytes(HeaderLen)
	if err == nil {
		l.Header.EncodeTo(to)
	}
	return err
}

// message is a Message that is a pointer to M.
type message[M any] interface {
	*M
	Message
}

// MessageLayer is a message of connection management as a layer.
type MessageLayer[M any, P message[M]] struct {
	layers.BaseLayer
	Message M
}

// LayerType returns the layer type of the message.
func (l *MessageLayer[M, P]) LayerType() gopacket.LayerType {
	return layerType(P(&l.Message).Attribute())
}

// CanDecode returns the layer's own type.
func (l *MessageLayer[M, P]) CanDecode() gopacket.LayerClass { return l.LayerType() }

// DecodeFromBytes reads the message, or returns ErrShort.
func (l *MessageLayer[M, P]) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := P(&l.Message).Decode(data); err != nil {
		df.SetTruncated()
		return err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:DataLen], Payload: data[DataLen:]}
	return nil
}

// NextLayerType returns roce.LayerTypeICRC if an ICRC follows.
func (l *MessageLayer[M, P]) NextLayerType() gopacket.LayerType {
	switch {
	case len(l.Payload) == 0:
		return gopacket.LayerTypeZero
	case len(l.Payload) == roce.ICRCLen:
		return roce.LayerTypeICRC
	}
	return gopacket.LayerTypePayload
}

// SerializeTo writes the message.
func (l *MessageLayer[M, P]) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	to, err := b.PrependBytes(DataLen)
	if err == nil {
		P(&l.Message).EncodeTo(to)
	}
	return err
}

func decodeMAD(data []byte, p gopacket.PacketBuilder) error { return addLayer(&MADLayer{}, data, p) }

func addLayer[L interface {
	gopacket.DecodingLayer
	gopacket.Layer
}](l L, data []byte, p gopacket.PacketBuilder) error {
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	if next := l.NextLayerType(); next != gopacket.LayerTypeZero {
		return p.NextDecoder(next)
	}
	return nil
}
