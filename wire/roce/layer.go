package roce

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// gopacket's layer types of RoCEv2. A packet to UDP port 4791 is decoded as
// Ethernet, IP, UDP, BTH, the headers that its opcode requires, payload, ICRC.
var (
	LayerTypeBTH          = registerLayer(0, "BTH", decodeBTH)
	LayerTypeDETH         = registerLone(1, "DETH", ExtDETH)
	LayerTypeXRCETH       = registerLone(2, "XRCETH", ExtXRCETH)
	LayerTypeRETH         = registerLone(3, "RETH", ExtRETH)
	LayerTypeAtomicETH    = registerLone(4, "AtomicETH", ExtAtomicETH)
	LayerTypeAETH         = registerLone(5, "AETH", ExtAETH)
	LayerTypeAtomicAckETH = registerLone(6, "AtomicAckETH", ExtAtomicAckETH)
	LayerTypeImmDt        = registerLone(7, "ImmDt", ExtImmDt)
	LayerTypeIETH         = registerLone(8, "IETH", ExtIETH)
	LayerTypeCNP          = registerLone(9, "CNP", ExtCNP)
	LayerTypeSendETH      = registerLone(10, "SendETH", ExtSendETH)
	LayerTypeSelETH       = registerLone(11, "SelETH", ExtSelETH)
	LayerTypePayload      = registerLone(12, "RoCEPayload", ExtPayload)
	LayerTypeICRC         = registerLayer(13, "ICRC", decodeICRC)
)

// firstLayer is the number of the first layer type; gopacket leaves numbers from
// 1000 on to other packages.
const firstLayer = 1710

func registerLayer(n int, name string, decode gopacket.DecodeFunc) gopacket.LayerType {
	return gopacket.RegisterLayerType(firstLayer+n, gopacket.LayerTypeMetadata{Name: name, Decoder: decode})
}

// registerLone registers a header that can be decoded without the BTH before it.
func registerLone(n int, name string, e Extension) gopacket.LayerType {
	return registerLayer(n, name, func(data []byte, p gopacket.PacketBuilder) error { return decodeNext(e, nil, data, p) })
}

var managementLayerType = gopacket.LayerTypeZero

func init() {
	layers.RegisterUDPPortLayerType(Port, LayerTypeBTH)
}

// RegisterManagementLayerType sets the layer type of the payload of datagrams to
// queue pair 1. Package cm calls it. LayerTypeICRC must follow the layer.
func RegisterManagementLayerType(t gopacket.LayerType) { managementLayerType = t }

// layerType returns the type of a header. The types are in the order of the bits.
func layerType(e Extension) gopacket.LayerType {
	return gopacket.LayerType(firstLayer + 1 + bits.TrailingZeros16(uint16(e)))
}

// BTHLayer is a base transport header.
type BTHLayer struct {
	layers.BaseLayer
	BTH
	// Truncated: the packet was trimmed, or its capture cut it. It has no ICRC.
	Truncated bool
}

// LayerType returns LayerTypeBTH.
func (l *BTHLayer) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH.
func (l *BTHLayer) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// DecodeFromBytes reads the header. df says whether an earlier layer found the
// packet truncated. Errors are those of Packet.Decode; the fields are set with all
// but ErrShort.
func (l *BTHLayer) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	l.Truncated = isTruncated(df)
	if err := l.BTH.Decode(data); err != nil {
		if err == ErrShort {
			df.SetTruncated()
		}
		return err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:BTHLen], Payload: data[BTHLen:]}
	if !l.Opcode.IsValid() {
		return fmt.Errorf("%w: it is %#02x", ErrOpcode, uint8(l.Opcode))
	}
	if l.Truncated {
		return nil
	}
	_, err := l.payloadLen(len(data))
	return err
}

// isTruncated reports whether an earlier layer found the packet truncated, which
// gopacket's interface does not expose.
func isTruncated(df gopacket.DecodeFeedback) bool {
	switch df := df.(type) {
	case gopacket.Packet:
		return df.Metadata().Truncated
	case *gopacket.DecodingLayerParser:
		return df.Truncated
	}
	return false
}

// NextLayerType returns the type of the first header after the BTH.
func (l *BTHLayer) NextLayerType() gopacket.LayerType { return l.nextLayerType(0, len(l.Payload)) }

// nextLayerType returns the type of what follows the headers up to done, with rest
// bytes left.
func (l *BTHLayer) nextLayerType(done Extension, rest int) gopacket.LayerType {
	left := l.Opcode.Extensions()
	if done != 0 {
		left &^= done | (done - 1)
	}
	management := managementLayerType != gopacket.LayerTypeZero && l.DestQP == ManagementQP && l.Opcode.Service() == UD
	switch {
	case rest == 0:
		return gopacket.LayerTypeZero
	case left&^ExtPayload != 0:
		return layerType(left & -left)
	case !l.Truncated && (left == 0 || rest == ICRCLen):
		return LayerTypeICRC
	case left == 0:
		return gopacket.LayerTypeZero
	case management:
		return managementLayerType
	}
	return LayerTypePayload
}

// SerializeTo writes the header. It fails if the bytes after it are not a multiple
// of 4: the payload then lacks its pad.
func (l *BTHLayer) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	if n := len(b.Bytes()); n&3 != 0 {
		return fmt.Errorf("roce: %d bytes follow the BTH: pad the payload to a multiple of 4 (PayloadLayer does)", n)
	}
	return prependHeader(b, BTHLen, &l.BTH)
}

func prependHeader(b gopacket.SerializeBuffer, n int, h interface{ EncodeTo([]byte) }) error {
	to, err := b.PrependBytes(n)
	if err == nil {
		h.EncodeTo(to)
	}
	return err
}

func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	l := &BTHLayer{}
	err := l.DecodeFromBytes(data, p)
	if len(l.Contents) > 0 {
		p.AddLayer(l)
	}
	if err != nil {
		return err
	}
	return decodeRest(l.NextLayerType(), l, p)
}

// decodeRest continues with a layer of the packet that begins with bth.
func decodeRest(t gopacket.LayerType, bth *BTHLayer, p gopacket.PacketBuilder) error {
	if t == gopacket.LayerTypeZero {
		return nil
	}
	// These layers need the BTH to decode, which the decoder of a LayerType lacks.
	if t < layerType(ExtDETH) || t > layerType(ExtPayload) {
		return p.NextDecoder(t)
	}
	return p.NextDecoder(gopacket.DecodeFunc(func(data []byte, p gopacket.PacketBuilder) error {
		return decodeNext(1<<(t-layerType(ExtDETH)), bth, data, p)
	}))
}

// ICRCLayer is the invariant CRC after the payload.
type ICRCLayer struct {
	layers.BaseLayer
	Value uint32 // not checked: CheckICRC does
}

// LayerType returns LayerTypeICRC.
func (l *ICRCLayer) LayerType() gopacket.LayerType { return LayerTypeICRC }

// CanDecode returns LayerTypeICRC.
func (l *ICRCLayer) CanDecode() gopacket.LayerClass { return LayerTypeICRC }

// NextLayerType returns LayerTypeZero: nothing follows.
func (l *ICRCLayer) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes reads the four bytes, or returns ErrShort.
func (l *ICRCLayer) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < ICRCLen {
		df.SetTruncated()
		return ErrShort
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:ICRCLen]}
	l.Value = binary.LittleEndian.Uint32(data)
	return nil
}

// SerializeTo writes Value. Serialize then overwrites it with the correct one.
func (l *ICRCLayer) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	to, err := b.PrependBytes(ICRCLen)
	if err == nil {
		binary.LittleEndian.PutUint32(to, l.Value)
	}
	return err
}

func decodeICRC(data []byte, p gopacket.PacketBuilder) error {
	l := &ICRCLayer{}
	err := l.DecodeFromBytes(data, p)
	if err == nil {
		p.AddLayer(l)
	}
	return err
}
