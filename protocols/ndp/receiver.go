package ndp

import (
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/sim/units"
)

// Pacer is the pull queue of a host's port: connections by turns, or by priority, at the rate
// of the line. It is EQDS's.
type Pacer = pull.Pacer[*Receiver]

// mostPulls is how many PULLs of a connection may wait.
const mostPulls = 1 << 14

// Receiver is the end that data comes to.
type Receiver struct {
	pull.Sender[*Receiver]
	User any // the owner's

	pacer      *Pacer
	service    uint8
	connection uint32
	paths      uint32 // path IDs of PULLs, by turns

	next     int64 // all before it have come
	total    int64 // packets; -1 while it is not known
	bits     []uint64
	ahead    int64 // that have come from next on
	received units.Bytes
	pulls    uint32
	path     uint32
}

// Reset begins with a connection of which a packet has come. Memory is kept.
func (r *Receiver) Reset(c *Config, p *Pacer, h *Header) {
	bits, user := r.bits, r.User
	if r.pacer != nil {
		r.pacer.Leave(&r.Sender)
	}
	clear(bits)
	*r = Receiver{User: user, pacer: p, service: h.Service, connection: h.Connection, total: -1, bits: bits, paths: uint32(c.Paths), path: uint32(h.Path)}
	if r.bits == nil {
		r.bits = make([]uint64, 2)
	}
	p.Join(&r.Sender, r, uint8(c.Priority), mostPulls)
}

// Complete tells whether everything has come.
func (r *Receiver) Complete() bool { return r.total >= 0 && r.next == r.total }

// Received is the payload that has come, each byte once.
func (r *Receiver) Received() units.Bytes { return r.received }

// Receive takes a data packet of the connection with its payload; trimmed is that only the
// header has come. It gives what is to be answered at once; ok is false for a packet that
// cannot be of this connection. PULLs come by the pacer.
func (r *Receiver) Receive(h *Header, payload units.Bytes, trimmed bool) (answer Header, ok bool) {
	seq := r.next + int64(int32(h.Seq-uint32(r.next)))
	last := h.Flags&FlagLast != 0
	switch {
	case seq < 0 || seq >= r.next+span || r.total >= 0 && (seq >= r.total || last != (seq == r.total-1)):
		return Header{}, false
	case last && r.total < 0 && (r.next > seq+1 || r.ahead > 0 && r.highest() > seq):
		return Header{}, false // it would end before what has come
	}
	if last {
		r.total = seq + 1
	}
	answer = Header{Flags: FlagACK, Service: r.service, Path: h.Path, Connection: r.connection, Seq: h.Seq}
	switch {
	case r.has(seq):
	case trimmed:
		answer.Flags = FlagNACK
		r.want()
	default:
		r.take(seq)
		r.received += payload
		r.want()
	}
	answer.Pull = r.pulls
	return answer, true
}

// want adds a PULL, as far as something is missing.
func (r *Receiver) want() {
	switch {
	case r.Complete():
		r.pacer.Leave(&r.Sender)
	case r.total < 0 || int64(r.Demand()) < r.total-r.next-r.ahead:
		r.pacer.Want(&r.Sender, r.Number()+uint16(r.Demand())+1)
	}
}

// Pull is the PULL that leaves when the pacer has chosen the connection.
func (r *Receiver) Pull() Header {
	r.pulls++
	r.path = (r.path + 1) % r.paths
	return Header{Flags: FlagPULL, Service: r.service, Path: uint16(r.path), Connection: r.connection, Pull: r.pulls}
}

// word is where it is noted that a packet has come.
func (r *Receiver) word(seq int64) (*uint64, uint64) {
	return &r.bits[seq>>6&int64(len(r.bits)-1)], 1 << (seq & 63)
}

func (r *Receiver) has(seq int64) bool {
	if seq < r.next || seq >= r.next+int64(len(r.bits)-1)*64 {
		return seq < r.next
	}
	w, bit := r.word(seq)
	return *w&bit != 0
}

// highest is the highest packet that has come, if one is ahead.
func (r *Receiver) highest() int64 {
	for seq := r.next + int64(len(r.bits)-1)*64 - 1; seq > r.next; seq-- {
		if r.has(seq) {
			return seq
		}
	}
	return r.next
}

// take notes that a packet has come for the first time.
func (r *Receiver) take(seq int64) {
	for seq >= r.next+int64(len(r.bits)-1)*64 {
		r.grow()
	}
	w, bit := r.word(seq)
	*w |= bit
	r.ahead++
	for {
		w, bit := r.word(r.next)
		if *w&bit == 0 {
			return
		}
		*w &^= bit
		r.next++
		r.ahead--
	}
}

// grow doubles the room for what is ahead.
func (r *Receiver) grow() {
	old := Receiver{next: r.next, bits: r.bits}
	r.bits = make([]uint64, 2*len(old.bits))
	for seq := r.next; seq < r.next+int64(len(old.bits)-1)*64; seq++ {
		if old.has(seq) {
			w, bit := r.word(seq)
			*w |= bit
		}
	}
}

// Peer is what a host keeps of the connections of another one with a service: which of them
// are over. The zero Peer knows of none.
type Peer struct {
	next uint32 // all before it are over
	over map[uint32]struct{}
}

// Over tells whether a connection is over.
func (p *Peer) Over(n uint32) bool {
	_, is := p.over[n]
	return is || int32(n-p.next) < 0
}

// End notes that a connection is over.
func (p *Peer) End(n uint32) {
	if p.Over(n) {
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

// Late answers a data packet of a connection that is over: all of it has come.
func Late(h *Header) Header {
	return Header{Flags: FlagACK, Service: h.Service, Path: h.Path, Connection: h.Connection, Seq: h.Seq, Pull: h.Pull}
}
