package tcp

// AnswerUnknown returns the answer of a Sender's host to a segment of a connection that it no
// longer has, or never had. It acknowledges a FIN as in TIME-WAIT, and resets an answer to
// a SYN that was never sent (RFC 9293 §3.10.7). It ignores anything else as late.
func AnswerUnknown(g *Segment) (a Segment, ok bool) {
	switch {
	case g.Flags&RST != 0:
		return a, false
	case g.Flags&(SYN|ACK) == SYN|ACK:
		return Segment{Seq: g.Ack, Flags: RST}, true
	case g.Flags&(FIN|ACK) == FIN|ACK:
		a = Segment{Seq: g.Ack, Ack: g.Seq + g.sequenceSpace(), Flags: ACK, Window: g.Window}
		if g.Timestamps {
			a.Timestamps, a.TSVal, a.TSEcr = true, g.TSEcr, g.TSVal
		}
		return a, true
	}
	return a, false
}

// AnswerClosed returns the answer of a Receiver's host to a segment with data or a FIN of a
// connection that it does not have: a reset. It ignores anything else.
func AnswerClosed(g *Segment) (a Segment, ok bool) {
	if g.Flags&(RST|SYN) != 0 || g.Flags&ACK == 0 || g.sequenceSpace() == 0 {
		return a, false
	}
	return Segment{Seq: g.Ack, Flags: RST}, true
}
