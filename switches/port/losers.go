package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire/roce"
)

// This file records which flows lose packets at a full queue, and which queue pairs lose the
// same packet again and again. In a network without any variation the same packets can meet in
// the same way for ever; a report names such a phase lock.

// Loser is a flow that lost packets because there was no room for them at a port: a modelled
// flow, or the packets with data of one queue pair to another.
type Loser struct {
	Kind packet.Kind     // Modelled or NIC
	Flow int32           // number of a modelled flow
	From packet.Endpoint // that sent the packets
	QPN  uint32          // of the destination, for NIC
	To   *packet.Addresses
	Lost uint64 // packets

	// For a reliable queue pair: the packet that was lost most often in succession, each
	// time as the first one that was lost after the sender had gone back to it.
	PSN   uint32
	Times uint32
}

// maxLosers bounds how many flows of a port are recorded: the first that lose.
const maxLosers = 1024

// loserKey identifies a loser.
type loserKey struct {
	kind      packet.Kind
	flow      int32
	from      packet.Endpoint
	qpn       uint32
	responses bool // of READ
}

// loser is a Loser with the state that finds out its PSN.
type loser struct {
	Loser
	first, last uint32 // PSN of the first and the last loss since the sender last went back
	times       uint32 // of first, in succession
}

// losers are the losers of a port.
type losers struct {
	byKey map[loserKey]*loser
	order []*loser
}

// isForLackOfRoom reports whether a packet was lost because others were there before it.
func isForLackOfRoom(fate packet.Fate) bool {
	return fate == packet.QueueFull || fate == packet.BufferFull
}

// recordLoss records a packet that was lost for lack of room.
func (l *losers) recordLoss(pkt *packet.Packet) {
	switch {
	case pkt.Kind == packet.Modelled:
		if x := l.find(loserKey{kind: pkt.Kind, flow: pkt.Flow}, pkt); x != nil {
			x.Lost++
		}
	case pkt.Kind == packet.NIC && isRepeated(pkt.RoCE.BTH.Opcode):
		h := &pkt.RoCE.BTH
		x := l.find(loserKey{packet.NIC, 0, pkt.Origin, h.DestQP, isResponse(h.Opcode)}, pkt)
		if x != nil {
			x.To = pkt.RoCE.Addresses
			x.countPSN(h.PSN)
			x.Lost++
		}
	}
}

// find returns a loser; nil if it is new and there are too many.
func (l *losers) find(key loserKey, pkt *packet.Packet) *loser {
	x := l.byKey[key]
	if x == nil && len(l.order) < maxLosers {
		if l.byKey == nil {
			l.byKey = map[loserKey]*loser{}
		}
		x = &loser{Loser: Loser{Kind: pkt.Kind, Flow: key.flow, From: pkt.Origin, QPN: key.qpn}}
		l.byKey[key] = x
		l.order = append(l.order, x)
	}
	return x
}

// countPSN records that a packet is lost. A PSN that is not after the last one means that the
// sender has gone back; it has gone back to the same packet as before if the first one that is
// lost then is the same.
func (x *loser) countPSN(psn uint32) {
	switch {
	case x.Lost == 0:
		x.first, x.times = psn, 1
	case (psn-x.last)&roce.PSNMask-1 < roce.PSNMask/2: // after the last one
	case psn == x.first:
		x.times++
	case psn == x.last: // what was lost before it has arrived meanwhile
		x.first, x.times = psn, 2
	default:
		x.first, x.times = psn, 1
	}
	x.last = psn
	if x.times > x.Times {
		x.PSN, x.Times = x.first, x.times
	}
}

// isRepeated reports whether a packet has data and is sent again if it is lost.
func isRepeated(o roce.Opcode) bool {
	if s := o.Service(); s != roce.RC && s != roce.IRN && s != roce.XRC {
		return false
	}
	switch o.Operation() {
	case roce.Ack, roce.AtomicAck, roce.Nack, roce.ReadAck:
		return false
	}
	return true
}

func isResponse(o roce.Opcode) bool {
	op := o.Operation()
	return op >= roce.ReadFirst && op <= roce.ReadOnly
}

// Losers returns the flows that have lost packets for lack of room at the port, in the order of
// their first loss, and at most 1024 of them.
func (p *Port) Losers() []Loser {
	if p.losses == nil {
		return nil
	}
	all := make([]Loser, len(p.losses.losers.order))
	for i, x := range p.losses.losers.order {
		all[i] = x.Loser
	}
	return all
}
