package tcp

import (
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Receiver is the end that receives data. Inputs come in time order; after each, Ready and
// Timer are valid until the next.
type Receiver struct {
	config *Config
	irs    uint32 // of the sender
	iss    uint32
	phase  Phase

	timestamps, selective, ecn bool
	answer                     bool // a segment must be sent at once
	ce, ece                    bool // DCTCP.CE (RFC 8257 §3.2), and whether to set ECE
	ackIsDue                   bool // an acknowledgement of owes is due, with the other state of ce
	dup                        bool // double must be reported
	closed                     bool // the FIN has arrived, with all before it
	told                       bool // our FIN was sent
	retries                    uint8
	scale                      uint8
	recents                    uint8 // number of entries in recent

	next         units.Bytes // all before it has arrived: offset in the stream, FIN counts as a byte
	finAt        units.Bytes // of the FIN, -1 while unknown
	ahead        []span      // ranges that arrived beyond next, in order, disjoint
	recent       [maxBlocks]units.Bytes
	double       span
	waits        units.Bytes // in order but not acknowledged
	echo         uint32      // timestamp to echo
	acknowledged units.Bytes // acknowledged so far
	dueAck       units.Bytes
	quick        int // acknowledgements left that are not delayed

	compression
	rtt, asked units.Time // of the handshake, 0 if not known; when our SYN left

	delayAt units.Time // when a delayed acknowledgement is sent; units.Never if none waits
	rtoAt   units.Time // when our FIN or SYN is retransmitted
	marks   uint32     // packets with CE
	copies  uint32     // duplicate segments
}

// span is a range of offsets of the stream: to is one beyond the last.
type span struct{ from, to units.Bytes }

// Reset makes the receiver listen for a new connection. c is shared and has passed Check.
// iss is the receiver's first sequence number. Reset keeps memory.
func (r *Receiver) Reset(c *Config, iss uint32) {
	*r = Receiver{config: c, iss: iss, ahead: r.ahead[:0], finAt: -1, quick: c.QuickAcks, delayAt: units.Never, rtoAt: units.Never}
}

// Phase returns the phase of the connection. It is Done when the receiver's FIN is
// acknowledged.
func (r *Receiver) Phase() Phase { return r.phase }

// IsComplete reports whether all data and the sender's FIN have arrived.
func (r *Receiver) IsComplete() bool { return r.closed }

// ReceivedBytes returns the payload that has arrived in order.
func (r *Receiver) ReceivedBytes() units.Bytes {
	if r.closed {
		return r.next - 1
	}
	return r.next
}

// MarkedSegments returns the number of segments with CE, DuplicateSegments the number of duplicates.
func (r *Receiver) MarkedSegments() uint32    { return r.marks }
func (r *Receiver) DuplicateSegments() uint32 { return r.copies }

// Receive handles a segment from the sender.
func (r *Receiver) Receive(now units.Time, g *Segment) {
	switch {
	case r.phase == Done || r.phase == Failed:
		return
	case g.Flags&RST != 0:
		if r.phase != Closed && g.Seq-r.irs-1 == uint32(r.next) {
			r.failConnection()
		}
		return
	case g.Flags&SYN != 0:
		r.handleSYN(g)
		return
	case r.phase == Closed || g.Flags&ACK == 0:
		return
	case r.phase == Opening:
		if g.Ack != r.iss+1 { // from another connection with these ports
			return
		}
		if r.retries == 0 {
			r.rtt = now - r.asked
		}
		r.phase, r.rtoAt, r.retries = Established, units.Never, 0
	case r.phase == Closing && g.Ack == r.iss+2:
		r.phase, r.answer, r.ackIsDue = Done, false, false
		r.rtoAt, r.delayAt = units.Never, units.Never
		return
	}
	r.handleSegment(now, g)
}

// handleSYN handles a SYN.
func (r *Receiver) handleSYN(g *Segment) {
	if r.phase != Closed {
		r.answer = true // our answer was lost, or this is an old SYN: answer both with our state
		return
	}
	c := r.config
	r.phase, r.irs, r.answer = Opening, g.Seq, true
	r.timestamps = c.Timestamps && g.Timestamps
	r.echo = g.TSVal
	r.selective = g.SACKPermitted
	r.ecn = c.ECN != NoECN && g.Flags&(ECE|CWR) == ECE|CWR
	if g.Scaling {
		r.scale = c.windowScale()
	}
}

func (r *Receiver) failConnection() {
	r.phase, r.answer, r.ackIsDue = Failed, false, false
	r.rtoAt, r.delayAt = units.Never, units.Never
}

// offsetOf returns the offset in the stream of a sequence number within 2 GB of next.
func (r *Receiver) offsetOf(seq uint32) units.Bytes {
	return r.next + units.Bytes(int32(seq-r.irs-1-uint32(r.next)))
}

// handleSegment handles a segment of the stream.
func (r *Receiver) handleSegment(now units.Time, g *Segment) {
	r.recordECN(g)
	from := r.offsetOf(g.Seq)
	to := from + units.Bytes(g.Payload)
	if g.Flags&FIN != 0 {
		r.finAt = to
		to++
	}
	// Echo the timestamp of the segment that advances the window (RFC 7323 §4.3).
	if r.timestamps && g.Timestamps && from <= r.acknowledged && int32(g.TSVal-r.echo) > 0 {
		r.echo = g.TSVal
	}
	switch {
	case from == to: // an acknowledgement
	case to <= r.next || r.hasRange(from, to):
		r.copies++
		r.double, r.dup, r.answer = span{from, to}, true, true
	case from > r.next+r.config.Window: // beyond the window
		r.answer = true
	case from > r.next:
		apart := r.storeRange(from, to)
		r.compressAck(now, apart && r.recents == maxBlocks)
	default:
		r.inOrder(now, to)
	}
	if r.answer {
		r.delayAt = units.Never
	}
}

// recordECN records the congestion signals of a packet.
func (r *Receiver) recordECN(g *Segment) {
	if g.CE {
		r.marks++
	}
	if !r.ecn {
		return
	}
	if r.config.ECN == DCTCP {
		if g.Payload > 0 && g.CE != r.ce {
			// Unacknowledged data arrived in the other state. It gets a separate
			// acknowledgement with that state. Linux also acknowledges this segment at once,
			// so that the sender learns of a change without delay.
			if r.waits > 0 {
				r.ackIsDue, r.dueAck, r.waits = true, r.next, 0
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

// hasRange reports whether a range beyond next has arrived.
func (r *Receiver) hasRange(from, to units.Bytes) bool {
	i := r.findRange(from)
	return i < len(r.ahead) && r.ahead[i].from <= from && to <= r.ahead[i].to
}

// findRange returns the first range that ends at an offset or after it.
func (r *Receiver) findRange(at units.Bytes) int {
	i, _ := slices.BinarySearchFunc(r.ahead, at, func(s span, at units.Bytes) int {
		if s.to < at {
			return -1
		}
		return 1
	})
	return i
}

// storeRange stores a range beyond next, merged with the ranges that it touches. apart means that
// it touches none.
func (r *Receiver) storeRange(from, to units.Bytes) (apart bool) {
	at := from
	i := r.findRange(from)
	j := i
	for ; j < len(r.ahead) && r.ahead[j].from <= to; j++ {
		from, to = min(from, r.ahead[j].from), max(to, r.ahead[j].to)
	}
	apart = i == j
	r.ahead = slices.Replace(r.ahead, i, j, span{from, to})
	// The block of the newest segment comes first, then earlier ones (RFC 2018 §4).
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

// inOrder handles data that extends the in-order part up to offset to.
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
	case len(r.ahead) > 0 && r.waits <= r.config.FullPayload():
		r.compressAck(now, false)
	case holes: // one is filled
		r.answer = true
	case r.quick > 0, r.waits >= units.Bytes(r.config.AckEvery)*r.config.FullPayload(), r.config.DelayedAck == 0:
		r.answer = true
	case r.delayAt == units.Never:
		r.delayAt = now + r.config.DelayedAck
	}
}

// HasSegment reports whether there is a segment to send.
func (r *Receiver) HasSegment() bool { return r.answer || r.ackIsDue }

// Next fills in the segment that leaves at now, and reports whether there is one.
func (r *Receiver) Next(now units.Time, g *Segment) bool {
	*g = Segment{}
	switch {
	case r.ackIsDue:
		r.ackIsDue = false
		r.fillHeader(now, g, r.dueAck)
		if !r.ce {
			g.Flags |= ECE
		}
	case !r.answer:
		return false
	case r.phase == Opening:
		r.answer = false
		r.fillSYN(now, g)
	default:
		r.answer = false
		r.fillAck(now, g)
	}
	return true
}

// fillSYN fills in the receiver's SYN.
func (r *Receiver) fillSYN(now units.Time, g *Segment) {
	c := r.config
	g.Seq, g.Ack, g.Flags, g.Window = r.iss, r.irs+1, SYN|ACK, uint16(min(c.Window, 65535))
	g.MSS, g.SACKPermitted = uint16(c.MSS()), r.selective
	if r.scale > 0 {
		g.Scaling, g.Scale = true, r.scale
	}
	r.fillTimestamps(now, g)
	if r.ecn {
		g.Flags |= ECE
	}
	r.asked, r.rtoAt = now, now+c.InitialRTO<<r.retries
}

func (r *Receiver) fillTimestamps(now units.Time, g *Segment) {
	if r.timestamps {
		g.Timestamps, g.TSVal, g.TSEcr = true, timestampAt(now), r.echo
	}
}

// fillHeader fills in an acknowledgement of everything before an offset.
func (r *Receiver) fillHeader(now units.Time, g *Segment, at units.Bytes) {
	g.Seq, g.Ack, g.Flags = r.iss+1, r.irs+1+uint32(at), ACK
	g.Window = uint16(min(r.config.Window>>r.scale, 65535))
	r.fillTimestamps(now, g)
	if r.quick > 0 {
		r.quick--
	}
	r.acknowledged = at
}

// fillAck fills in an acknowledgement, with a FIN once everything has arrived.
func (r *Receiver) fillAck(now units.Time, g *Segment) {
	r.fillHeader(now, g, r.next)
	if r.ce || r.ece {
		g.Flags |= ECE
	}
	if r.selective {
		r.fillSACK(g)
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

// fillSACK fills in the SACK option: the duplicate range, then the ranges beyond next, newest
// first.
func (r *Receiver) fillSACK(g *Segment) {
	room := uint8(maxBlocks)
	if r.timestamps {
		room--
	}
	seq := func(at units.Bytes) uint32 { return r.irs + 1 + uint32(at) }
	if r.dup {
		g.addBlock(Block{seq(r.double.from), seq(r.double.to)})
		r.dup = false
	}
	n := uint8(0)
	for _, at := range r.recent[:r.recents] {
		i := r.findRange(at + 1)
		if i == len(r.ahead) || r.ahead[i].from > at {
			continue // it is in order now
		}
		r.recent[n] = at
		n++
		if g.BlockCount < room {
			g.addBlock(Block{seq(r.ahead[i].from), seq(r.ahead[i].to)})
		}
	}
	r.recents = n
}

// NextTimer returns when OnTimer is due, or units.Never.
func (r *Receiver) NextTimer() units.Time { return min(r.delayAt, r.rtoAt) }

// OnTimer handles timers that have expired by now.
func (r *Receiver) OnTimer(now units.Time) {
	if r.delayAt <= now {
		r.delayAt, r.answer = units.Never, true
	}
	if r.rtoAt > now {
		return
	}
	r.rtoAt = units.Never
	if r.retries++; r.retries > synRetries {
		r.failConnection()
		return
	}
	r.answer = true
}
