package roce

import (
	"errors"
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Layers has one layer of each kind, for a gopacket.DecodingLayerParser, which
// reuses them without allocation.
type Layers struct {
	BTH          BTHLayer
	DETH         DETHLayer
	XRCETH       XRCETHLayer
	RETH         RETHLayer
	AtomicETH    AtomicETHLayer
	AETH         AETHLayer
	AtomicAckETH AtomicAckETHLayer
	ImmDt        ImmDtLayer
	IETH         IETHLayer
	CNP          CNPLayer
	SendETH      SendETHLayer
	SelETH       SelETHLayer
	Payload      PayloadLayer
	ICRC         ICRCLayer
}

// Decoders returns all layers for the parser. It also gives them the BTH, from
// which they know what follows them.
func (l *Layers) Decoders() []gopacket.DecodingLayer {
	b := &l.BTH
	l.DETH.Base, l.XRCETH.Base, l.RETH.Base, l.AtomicETH.Base, l.AETH.Base, l.AtomicAckETH.Base = b, b, b, b, b, b
	l.ImmDt.Base, l.IETH.Base, l.CNP.Base, l.SendETH.Base, l.SelETH.Base, l.Payload.Base = b, b, b, b, b, b
	return []gopacket.DecodingLayer{
		b, &l.DETH, &l.XRCETH, &l.RETH, &l.AtomicETH, &l.AETH, &l.AtomicAckETH, &l.ImmDt, &l.IETH, &l.CNP, &l.SendETH, &l.SelETH, &l.Payload, &l.ICRC,
	}
}

// SerializePacket writes the layers of a whole packet, from Ethernet or IP to ICRC. With
// FixLengths it sets pad counts and lengths. With ComputeChecksums it sets the
// ICRC, the checksum of an IPv4 header, and sets the UDP checksum to 0, as rdma_rxe
// does: the ICRC protects the packet.
func SerializePacket(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions, l ...gopacket.SerializableLayer) error {
	if opts.FixLengths {
		fixPad(l)
	}
	if err := b.Clear(); err != nil {
		return err
	}
	open := opts.ComputeChecksums // no ICRC yet
	for _, x := range slices.Backward(l) {
		o := opts
		if u, ok := x.(*layers.UDP); ok && opts.ComputeChecksums {
			u.Checksum, o.ComputeChecksums = 0, false
		}
		if err := x.SerializeTo(b, o); err != nil {
			return err
		}
		b.PushLayer(x.LayerType())
		if t := x.LayerType(); open && (t == layers.LayerTypeIPv4 || t == layers.LayerTypeIPv6) {
			if err := PutICRC(b.Bytes()); err != nil {
				return err
			}
			open = false
		}
	}
	if open {
		return errors.New("roce: an ICRC covers the IP header, and there is none: add it, or leave out ComputeChecksums")
	}
	return nil
}

// fixPad sets the pad count of the BTH to that of the payload.
func fixPad(l []gopacket.SerializableLayer) {
	n := 0
	for _, x := range slices.Backward(l) {
		switch x := x.(type) {
		case *PayloadLayer:
			n = len(x.Data)
		case *BTHLayer:
			x.Pad = PadOf(n)
		}
	}
}
