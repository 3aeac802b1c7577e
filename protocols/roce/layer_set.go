package roce

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/protocols/wire"
)

// Layers is one layer of each kind, for a gopacket.DecodingLayerParser, which
// decodes into them again and again without allocation.
type Layers struct {
	BTH          BTHLayer
	DETH         DETHLayer
	RETH         RETHLayer
	AtomicETH    AtomicETHLayer
	AETH         AETHLayer
	AtomicAckETH AtomicAckETHLayer
	ImmDt        ImmDtLayer
	IETH         IETHLayer
	CNP          CNPLayer
	Payload      PayloadLayer
	ICRC         ICRCLayer
}

// Decoders gives all layers for the parser. They know the BTH from then on, and
// so what follows each of them.
func (l *Layers) Decoders() []gopacket.DecodingLayer {
	b := &l.BTH
	l.DETH.Base, l.RETH.Base, l.AtomicETH.Base, l.AETH.Base, l.AtomicAckETH.Base = b, b, b, b, b
	l.ImmDt.Base, l.IETH.Base, l.CNP.Base, l.Payload.Base = b, b, b, b
	return []gopacket.DecodingLayer{b, &l.DETH, &l.RETH, &l.AtomicETH, &l.AETH, &l.AtomicAckETH, &l.ImmDt, &l.IETH, &l.CNP, &l.Payload, &l.ICRC}
}

// Serialize writes the layers of a whole packet, from Ethernet or IP to ICRC.
// With FixLengths it sets pad counts and lengths. With ComputeChecksums it sets
// the ICRC, the checksum of an IPv4 header, and that of UDP to 0,
// as rdma_rxe does: the ICRC protects the packet.
func Serialize(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions, l ...gopacket.SerializableLayer) error {
	var bth *BTHLayer
	var ip gopacket.LayerType
	for _, x := range l {
		switch x := x.(type) {
		case *layers.IPv4:
			ip = x.LayerType()
		case *layers.IPv6:
			ip = x.LayerType()
		case *BTHLayer:
			bth = x
			if opts.FixLengths {
				x.Pad = 0 // unless there is a payload
			}
		case *PayloadLayer:
			if bth != nil && opts.FixLengths {
				bth.Pad = PadOf(len(x.Data))
			}
		}
	}
	if err := b.Clear(); err != nil {
		return err
	}
	at := 0 // bytes from the IP header on
	for i := len(l) - 1; i >= 0; i-- {
		x, o := l[i], opts
		if u, ok := x.(*layers.UDP); ok && opts.ComputeChecksums {
			u.Checksum, o.ComputeChecksums = 0, false
		}
		if err := x.SerializeTo(b, o); err != nil {
			return err
		}
		b.PushLayer(x.LayerType())
		if x.LayerType() == ip {
			at = len(b.Bytes())
		}
	}
	if !opts.ComputeChecksums {
		return nil
	}
	if at < wire.IPv4Header || bth == nil {
		return fmt.Errorf("roce: an ICRC needs the layers from IP to ICRC, of which IP or BTH is missing: add it, or leave out ComputeChecksums")
	}
	whole := b.Bytes()
	return PutICRC(whole[len(whole)-at:])
}
