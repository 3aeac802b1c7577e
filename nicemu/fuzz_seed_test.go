package nicemu

import (
	"encoding/binary"
	"testing"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// wireSeeds are inputs of FuzzReceiveFrame that queue pairs of an exposed NIC take: for each
// service the packets of all operations, to a queue pair that expects them, and to the others of
// the service. Captures of real NICs have other numbers than these queue pairs, so alone they do
// not get past the first checks.
func wireSeeds(t testing.TB) (seeds [][]byte) {
	x := expose(t)
	for _, q := range x.qps {
		service := serviceOf(q.config.Type)
		var seed []byte
		psn := uint32(7)
		for op := roce.SendFirst; op <= roce.SendOnlyInv; op++ {
			o := service.WithOperation(op)
			if !o.IsValid() {
				continue
			}
			var p roce.Packet
			p.BTH = roce.BTH{Opcode: o, PKey: roce.DefaultPKey, DestQP: q.Number(), AckReq: op%2 == 0, PSN: psn}
			p.RETH = roce.RETH{VA: x.a.mr.Addr(64), RKey: x.a.mr.RKey(), Length: 512}
			p.FurtherHeaders().Atomic = roce.AtomicETH{VA: x.a.mr.Addr(8), RKey: x.a.mr.RKey(), Swap: 1}
			p.FurtherHeaders().DETH = roce.DETH{QKey: 0x1234, SourceQP: 5}
			p.IETH.RKey = x.a.mr.RKey()
			if o.Extensions().Has(roce.ExtPayload) {
				p.Payload = make([]byte, 256)
			}
			if op < roce.ReadFirst || op > roce.AtomicAck {
				psn++ // a request
			}
			seed = appendFrame(seed, &p, 0)
		}
		seed = appendFrame(seed, &roce.Packet{BTH: roce.CNPHeader(q.Number())}, 0)
		seed = appendFrame(seed, &roce.Packet{BTH: roce.BTH{Opcode: service.WithOperation(roce.SendOnly), PKey: roce.DefaultPKey, DestQP: MulticastQPN}}, wire.CE)
		seeds = append(seeds, seed)
	}
	return seeds
}

// appendFrame appends a packet from the second host to the first, after its length.
func appendFrame(b []byte, p *roce.Packet, tos uint8) []byte {
	to := v4(0)
	if p.BTH.DestQP == MulticastQPN && p.BTH.Opcode.Service() == serviceOf(qp.UD) {
		to = addr("239.1.2.3")
	}
	n := wire.IPv4Header + wire.UDPHeader + p.Len()
	f := make([]byte, wire.EthernetHeader+n)
	f[0], f[6], f[12] = 2, 2, 0x08
	ip := f[wire.EthernetHeader:]
	ip[0], ip[1], ip[8], ip[9] = 4<<4|wire.IPv4Header/4, tos, 64, wire.ProtoUDP
	binary.BigEndian.PutUint16(ip[2:], uint16(n))
	src, dst := v4(1).As4(), to.As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	binary.BigEndian.PutUint16(ip[10:], wire.IPv4Checksum(ip[:wire.IPv4Header]))
	udp := ip[wire.IPv4Header:]
	udp[0] = 0xc0
	binary.BigEndian.PutUint16(udp[2:], roce.Port)
	binary.BigEndian.PutUint16(udp[4:], uint16(n-wire.IPv4Header))
	p.Put(udp[wire.UDPHeader:])
	return append(binary.BigEndian.AppendUint16(b, uint16(len(f))), f...)
}

// TestWireSeeds: the NIC takes the packets of the seeds that are in order; a fuzzer that starts
// with refused ones only would not get far.
func TestWireSeeds(t *testing.T) {
	x := expose(t)
	for i, seed := range wireSeeds(t) {
		before := x.device().counters
		x.takeFrames(seed, true)
		if now := x.device().counters; now.RxICRCErrors != before.RxICRCErrors || now.RcvErrors != before.RcvErrors || now.WrongAddress != before.WrongAddress {
			t.Errorf("seed %d, for queue pair %d: %+v, before %+v", i, x.qps[i].Number(), now, before)
		}
	}
	for _, kind := range []qp.Type{qp.RC, qp.UC, qp.UD} {
		if q := x.qps[7*int(kind-qp.RC)+3]; q.config.Type != kind || q.counters.RxPackets == 0 {
			t.Errorf("queue pair %d of type %v has had %d packets", q.Number(), q.config.Type, q.counters.RxPackets)
		}
	}
	x.end()
}
