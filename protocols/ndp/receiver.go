package ndp

import (
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
)

// Pacer is the pull queue of a host's port. It serves connections in turn, or by priority, at
// the line rate. It is EQDS's pacer.
type Pacer = pull.Pacer[*Receiver]

// maxPulls is the most PULLs of a connection that may wait.
const maxPulls = 1 << 14

// Receiver is the receiving end of a connection.
type Receiver struct {
	pull.Sender[*Receiver]
	User any // for the owner

	pacer      *Pacer
	service    uint8
	connection uint32
	paths      uint32 // path IDs of PULLs, used in turn

	next     int64 // all before it have arrived
	total    int64 // packets; -1 if not known yet
	bits     []uint64
	ahead    int64 // that have arrived from next on
	received units.Bytes
	pulls    uint32
	path     uint32
}

// Reset starts a connection from which a packet with header h has arrived. It keeps memory.
func (r *Receiver) Reset(c *Config, p *Pacer, h *Header) {
	bits, user := r.bits, r.User
	if r.pacer != nil {
		r.pacer.RemoveSender(&r.Sender)
	}
	clear(bits)
	*r = Receiver{User: user, pacer: p, service: h.Service, connection: h.Connection, total: -1, bits: bits, paths: uint32(c.Paths), path: uint32(h.Path)}
	if r.bits == nil {
		r.bits = make([]uint64, 2)
	}
	p.JoinSender(&r.Sender, r, uint8(c.Priority), maxPulls)
}

// IsComplete reports whether everything has arrived.
func (r *Receiver) IsComplete() bool { return r.total >= 0 && r.next == r.total }

// ReceivedBytes returns the payload that has arrived, each byte counted once.
func (r *Receiver) ReceivedBytes() units.Bytes { return r.received }

// Receive handles a data packet of the connection with its payload; trimmed means that only the
// header has arrived. It returns the immediate answer; ok is false for a packet that cannot
// belong to this connection. PULLs are sent when the pacer says so.
func (r *Receiver) Receive(h *Header, payload units.Bytes, trimmed bool) (answer Header, ok bool) {
	seq := r.next + int64(int32(h.Seq-uint32(r.next)))
	last := h.Flags&FlagLast != 0
	switch {
	case seq < 0 || seq >= r.next+span || r.total >= 0 && (seq >= r.total || last != (seq == r.total-1)):
		return Header{}, false
	case last && r.total < 0 && (r.next > seq+1 || r.ahead > 0 && r.highestArrived() > seq):
		return Header{}, false // it would end before packets that have arrived
	}
	if last {
		r.total = seq + 1
	}
	answer = Header{Flags: FlagACK, Service: r.service, Path: h.Path, Connection: r.connection, Seq: h.Seq}
	switch {
	case r.hasArrived(seq):
	case trimmed:
		answer.Flags = FlagNACK
		r.requestMissing()
	default:
		r.recordArrival(seq)
		r.received += payload
		r.requestMissing()
	}
	answer.Pull = r.pulls
	return answer, true
}

// requestMissing adds a PULL if more packets are missing than were asked for.
func (r *Receiver) requestMissing() {
	switch {
	case r.IsComplete():
		r.pacer.RemoveSender(&r.Sender)
	case r.total < 0 || int64(r.WantedMTUs()) < r.total-r.next-r.ahead:
		r.pacer.RaiseTarget(&r.Sender, r.PullNumber()+uint16(r.WantedMTUs())+1)
	}
}

// MakePull returns the PULL that leaves when the pacer has chosen the connection.
func (r *Receiver) MakePull() Header {
	r.pulls++
	r.path = (r.path + 1) % r.paths
	return Header{Flags: FlagPULL, Service: r.service, Path: uint16(r.path), Connection: r.connection, Pull: r.pulls}
}

// arrivalBit returns the word and the bit that record the arrival of a packet.
func (r *Receiver) arrivalBit(seq int64) (*uint64, uint64) {
	return &r.bits[seq>>6&int64(len(r.bits)-1)], 1 << (seq & 63)
}

func (r *Receiver) hasArrived(seq int64) bool {
	if seq < r.next || seq >= r.next+int64(len(r.bits)-1)*64 {
		return seq < r.next
	}
	w, bit := r.arrivalBit(seq)
	return *w&bit != 0
}

// highestArrived returns the highest packet that has arrived, if one is ahead.
func (r *Receiver) highestArrived() int64 {
	for seq := r.next + int64(len(r.bits)-1)*64 - 1; seq > r.next; seq-- {
		if r.hasArrived(seq) {
			return seq
		}
	}
	return r.next
}

// recordArrival records that a packet has arrived for the first time.
func (r *Receiver) recordArrival(seq int64) {
	for seq >= r.next+int64(len(r.bits)-1)*64 {
		r.growWindow()
	}
	w, bit := r.arrivalBit(seq)
	*w |= bit
	r.ahead++
	for {
		w, bit := r.arrivalBit(r.next)
		if *w&bit == 0 {
			return
		}
		*w &^= bit
		r.next++
		r.ahead--
	}
}

// growWindow doubles the room for packets ahead.
func (r *Receiver) growWindow() {
	old := Receiver{next: r.next, bits: r.bits}
	r.bits = make([]uint64, 2*len(old.bits))
	for seq := r.next; seq < r.next+int64(len(old.bits)-1)*64; seq++ {
		if old.hasArrived(seq) {
			w, bit := r.arrivalBit(seq)
			*w |= bit
		}
	}
}

// Peer records which connections of another host with a service are over. The zero Peer knows
// of none.
type Peer struct {
	next uint32 // all before it are over
	over map[uint32]struct{}
}

// IsOver reports whether a connection is over.
func (p *Peer) IsOver(n uint32) bool {
	_, is := p.over[n]
	return is || int32(n-p.next) < 0
}

// RecordEnd records that a connection is over.
func (p *Peer) RecordEnd(n uint32) {
	if p.IsOver(n) {
		return
	}
	if n != p.next {
		if p.over == nil {
			p.over = map[uint32]struct{}{}
		}
		p.over[n] = struct{}{}
		return
	}
	for p.next++; ; p.next++ {
		if _, is := p.over[p.next]; !is {
			return
		}
		delete(p.over, p.next)
	}
}

// AnswerLate returns the answer to a data packet of a connection that is over: all of it has arrived.
func AnswerLate(h *Header) Header {
	return Header{Flags: FlagACK, Service: h.Service, Path: h.Path, Connection: h.Connection, Seq: h.Seq, Pull: h.Pull}
}
