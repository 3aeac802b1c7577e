package tcp

// Answer gives what the host of a Sender answers a segment of a connection that it has no
// longer, or never had: a FIN is acknowledged as in TIME-WAIT, an answer to a SYN that
// nobody sent is reset (RFC 9293 §3.10.7). Anything else it passes over, since it is late.
func Answer(g *Segment) (a Segment, ok bool) {
	switch {
	case g.Flags&RST != 0:
		return a, false
	case g.Flags&(SYN|ACK) == SYN|ACK:
		return Segment{Seq: g.Ack, Flags: RST}, true
	case g.Flags&(FIN|ACK) == FIN|ACK:
		a = Segment{Seq: g.Ack, Ack: g.Seq + g.space(), Flags: ACK, Window: g.Window}
		if g.Timestamps {
			a.Timestamps, a.TSVal, a.TSEcr = true, g.TSEcr, g.TSVal
		}
		return a, true
	}
	return a, false
}

// Refuse gives what the host of a Receiver answers a segment with data or a FIN of a
// connection that it does not have: a reset. Anything else it passes over.
func Refuse(g *Segment) (a Segment, ok bool) {
	if g.Flags&(RST|SYN) != 0 || g.Flags&ACK == 0 || g.space() == 0 {
		return a, false
	}
	return Segment{Seq: g.Ack, Flags: RST}, true
}
