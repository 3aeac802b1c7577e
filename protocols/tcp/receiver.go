package tcp

import (
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Receiver is the end that takes data. Inputs come in the order of time; after each, Ready
// and Timer hold until the next.
type Receiver struct {
	config *Config
	irs    uint32 // of the sender
	iss    uint32
	phase  Phase

	timestamps, selective, ecn bool
	answer                     bool // a segment is to be sent at once
	ce, ece                    bool // DCTCP.CE (RFC 8257 §3.2), and that ECE is to be said
	owed                       bool // an acknowledgement of owes is, under the other state of ce
	dup                        bool // double is to be told of
	closed                     bool // the FIN has come, with all before it
	told                       bool // our FIN was sent
	retries                    uint8
	scale                      uint8
	recents                    uint8 // how many of recent there are

	next   units.Bytes // all before it has come: offset in the stream, with the FIN as a byte
	finAt  units.Bytes // of the FIN, -1 while it is not known
	ahead  []span      // what came behind next, in order, apart
	recent [maxBlocks]units.Bytes
	double span
	waits  units.Bytes // in order, and not acknowledged
	echo   uint32      // timestamp to echo
	said   units.Bytes // acknowledged so far
	owes   units.Bytes
	quick  int // acknowledgements that are still not delayed

	compression
	rtt, asked units.Time // of the handshake, 0 if not known; when our part of it left

	delayAt units.Time // when a delayed acknowledgement goes; units.Never if none waits
	rtoAt   units.Time // when our FIN or SYN is sent again
	marks   uint32     // packets with CE
	copies  uint32     // segments that came twice
}

// span is a range of offsets of the stream: to is one beyond the last.
type span struct{ from, to units.Bytes }

// Reset makes the receiver one that listens for a new connection. c is shared and has
// passed Check. iss is its first sequence number. Memory is kept.
func (r *Receiver) Reset(c *Config, iss uint32) {
	*r = Receiver{config: c, iss: iss, ahead: r.ahead[:0], finAt: -1, quick: c.QuickAcks, delayAt: units.Never, rtoAt: units.Never}
}

// Phase is how far the connection is: Done when the receiver's FIN is acknowledged.
func (r *Receiver) Phase() Phase { return r.phase }

// Complete tells whether all data and the sender's FIN have come.
func (r *Receiver) Complete() bool { return r.closed }

// Received is the payload that has come in order.
func (r *Receiver) Received() units.Bytes {
	if r.closed {
		return r.next - 1
	}
	return r.next
}

// Marks is how many segments came with CE, Copies how many had come before.
func (r *Receiver) Marks() uint32  { return r.marks }
func (r *Receiver) Copies() uint32 { return r.copies }

// Receive takes a segment of the sender.
func (r *Receiver) Receive(now units.Time, g *Segment) {
	switch {
	case r.phase == Done || r.phase == Failed:
		return
	case g.Flags&RST != 0:
		if r.phase != Closed && g.Seq-r.irs-1 == uint32(r.next) {
			r.fail()
		}
		return
	case g.Flags&SYN != 0:
		r.synchronise(g)
		return
	case r.phase == Closed || g.Flags&ACK == 0:
		return
	case r.phase == Opening:
		if g.Ack != r.iss+1 { // of another connection with these ports
			return
		}
		if r.retries == 0 {
			r.rtt = now - r.asked
		}
		r.phase, r.rtoAt, r.retries = Established, units.Never, 0
	case r.phase == Closing && g.Ack == r.iss+2:
		r.phase, r.answer, r.owed = Done, false, false
		r.rtoAt, r.delayAt = units.Never, units.Never
		return
	}
	r.take(now, g)
}

// synchronise takes a SYN.
func (r *Receiver) synchronise(g *Segment) {
	if r.phase != Closed {
		r.answer = true // our answer was lost, or this is an old one: both are told what we have
		return
	}
	c := r.config
	r.phase, r.irs, r.answer = Opening, g.Seq, true
	r.timestamps = c.Timestamps && g.Timestamps
	r.echo = g.TSVal
	r.selective = g.SACKPermitted
	r.ecn = c.ECN != NoECN && g.Flags&(ECE|CWR) == ECE|CWR
	if g.Scaling {
		r.scale = c.scale()
	}
}

func (r *Receiver) fail() {
	r.phase, r.answer, r.owed = Failed, false, false
	r.rtoAt, r.delayAt = units.Never, units.Never
}

// offset is where in the stream a sequence number is, within 2 GB of what has come.
func (r *Receiver) offset(seq uint32) units.Bytes {
	return r.next + units.Bytes(int32(seq-r.irs-1-uint32(r.next)))
}

// take takes a segment of the stream.
func (r *Receiver) take(now units.Time, g *Segment) {
	r.congestion(g)
	from := r.offset(g.Seq)
	to := from + units.Bytes(g.Payload)
	if g.Flags&FIN != 0 {
		r.finAt = to
		to++
	}
	// The timestamp of the segment that lets the window move is the one to echo
	// (RFC 7323 §4.3).
	if r.timestamps && g.Timestamps && from <= r.said && int32(g.TSVal-r.echo) > 0 {
		r.echo = g.TSVal
	}
	switch {
	case from == to: // an acknowledgement
	case to <= r.next || r.has(from, to):
		r.copies++
		r.double, r.dup, r.answer = span{from, to}, true, true
	case from > r.next+r.config.Window: // beyond the window
		r.answer = true
	case from > r.next:
		apart := r.keep(from, to)
		r.compress(now, apart && r.recents == maxBlocks)
	default:
		r.inOrder(now, to)
	}
	if r.answer {
		r.delayAt = units.Never
	}
}

// congestion notes what a packet says of congestion.
func (r *Receiver) congestion(g *Segment) {
	if g.CE {
		r.marks++
	}
	if !r.ecn {
		return
	}
	if r.config.ECN == DCTCP {
		if g.Payload > 0 && g.CE != r.ce {
			// What waits for its acknowledgement came under the other state, and is
			// acknowledged so, apart from this. Linux acknowledges this one at once as well,
			// so that the sender hears of a change without a delay.
			if r.waits > 0 {
				r.owed, r.owes, r.waits = true, r.next, 0
			}
			r.ce, r.answer = g.CE, true
		}
		return
	}
	if g.Flags&CWR != 0 {
		r.ece = false
	}
	if g.CE {
		r.ece = true
	}
}

// has tells whether a range has come ahead.
func (r *Receiver) has(from, to units.Bytes) bool {
	i := r.find(from)
	return i < len(r.ahead) && r.ahead[i].from <= from && to <= r.ahead[i].to
}

// find is the first range that ends at an offset or behind it.
func (r *Receiver) find(at units.Bytes) int {
	i, _ := slices.BinarySearchFunc(r.ahead, at, func(s span, at units.Bytes) int {
		if s.to < at {
			return -1
		}
		return 1
	})
	return i
}

// keep keeps a range that came ahead, joined with those that it touches. apart means that it
// touches none.
func (r *Receiver) keep(from, to units.Bytes) (apart bool) {
	at := from
	i := r.find(from)
	j := i
	for ; j < len(r.ahead) && r.ahead[j].from <= to; j++ {
		from, to = min(from, r.ahead[j].from), max(to, r.ahead[j].to)
	}
	apart = i == j
	r.ahead = slices.Replace(r.ahead, i, j, span{from, to})
	// The block of the newest segment comes first, those before it behind (RFC 2018 §4).
	n := 1
	kept := [maxBlocks]units.Bytes{at}
	for _, x := range r.recent[:r.recents] {
		if (x < from || x >= to) && n < maxBlocks {
			kept[n] = x
			n++
		}
	}
	r.recent, r.recents = kept, uint8(n)
	return apart
}

// inOrder takes what comes next.
func (r *Receiver) inOrder(now units.Time, to units.Bytes) {
	r.waits += to - r.next
	r.next = to
	holes := len(r.ahead) > 0
	n := 0
	for ; n < len(r.ahead) && r.ahead[n].from <= r.next; n++ {
		r.waits += max(0, r.ahead[n].to-r.next)
		r.next = max(r.next, r.ahead[n].to)
	}
	r.ahead = slices.Delete(r.ahead, 0, n)
	if r.finAt >= 0 && r.next > r.finAt {
		r.closed, r.answer = true, true
	}
	switch {
	case r.answer:
	case len(r.ahead) > 0 && r.waits <= r.config.Full():
		r.compress(now, false)
	case holes: // one is filled
		r.answer = true
	case r.quick > 0, r.waits >= units.Bytes(r.config.AckEvery)*r.config.Full(), r.config.DelayedAck == 0:
		r.answer = true
	case r.delayAt == units.Never:
		r.delayAt = now + r.config.DelayedAck
	}
}

// Ready tells whether there is a segment to send.
func (r *Receiver) Ready() bool { return r.answer || r.owed }

// Next makes the segment that leaves at now, and tells whether there is one.
func (r *Receiver) Next(now units.Time, g *Segment) bool {
	*g = Segment{}
	switch {
	case r.owed:
		r.owed = false
		r.head(now, g, r.owes)
		if !r.ce {
			g.Flags |= ECE
		}
	case !r.answer:
		return false
	case r.phase == Opening:
		r.answer = false
		r.open(now, g)
	default:
		r.answer = false
		r.acknowledge(now, g)
	}
	return true
}

// open makes the SYN of the receiver.
func (r *Receiver) open(now units.Time, g *Segment) {
	c := r.config
	g.Seq, g.Ack, g.Flags, g.Window = r.iss, r.irs+1, SYN|ACK, uint16(min(c.Window, 65535))
	g.MSS, g.SACKPermitted = uint16(c.MSS()), r.selective
	if r.scale > 0 {
		g.Scaling, g.Scale = true, r.scale
	}
	r.stamp(now, g)
	if r.ecn {
		g.Flags |= ECE
	}
	r.asked, r.rtoAt = now, now+c.InitialRTO<<r.retries
}

func (r *Receiver) stamp(now units.Time, g *Segment) {
	if r.timestamps {
		g.Timestamps, g.TSVal, g.TSEcr = true, timestamp(now), r.echo
	}
}

// head makes an acknowledgement of all before an offset.
func (r *Receiver) head(now units.Time, g *Segment, at units.Bytes) {
	g.Seq, g.Ack, g.Flags = r.iss+1, r.irs+1+uint32(at), ACK
	g.Window = uint16(min(r.config.Window>>r.scale, 65535))
	r.stamp(now, g)
	if r.quick > 0 {
		r.quick--
	}
	r.said = at
}

// acknowledge makes an acknowledgement, with a FIN when all has come.
func (r *Receiver) acknowledge(now units.Time, g *Segment) {
	r.head(now, g, r.next)
	if r.ce || r.ece {
		g.Flags |= ECE
	}
	if r.selective {
		r.blocks(g)
	}
	if r.closed {
		g.Flags |= FIN
		if !r.told {
			r.told, r.phase, r.retries = true, Closing, 0
		}
		r.rtoAt = now + r.config.InitialRTO<<r.retries
	}
	r.waits, r.delayAt, r.held = 0, units.Never, 0
}

// blocks fills in the SACK option: what came twice, then what came ahead, the newest
// first.
func (r *Receiver) blocks(g *Segment) {
	room := uint8(maxBlocks)
	if r.timestamps {
		room--
	}
	seq := func(at units.Bytes) uint32 { return r.irs + 1 + uint32(at) }
	if r.dup {
		g.add(Block{seq(r.double.from), seq(r.double.to)})
		r.dup = false
	}
	n := uint8(0)
	for _, at := range r.recent[:r.recents] {
		i := r.find(at + 1)
		if i == len(r.ahead) || r.ahead[i].from > at {
			continue // it is in order now
		}
		r.recent[n] = at
		n++
		if g.BlockCount < room {
			g.add(Block{seq(r.ahead[i].from), seq(r.ahead[i].to)})
		}
	}
	r.recents = n
}

// Timer is when Tick is due, units.Never if it is not.
func (r *Receiver) Timer() units.Time { return min(r.delayAt, r.rtoAt) }

// Tick does what is due by now.
func (r *Receiver) Tick(now units.Time) {
	if r.delayAt <= now {
		r.delayAt, r.answer = units.Never, true
	}
	if r.rtoAt > now {
		return
	}
	r.rtoAt = units.Never
	if r.retries++; r.retries > synRetries {
		r.fail()
		return
	}
	r.answer = true
}
