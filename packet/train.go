package packet

// A train is consecutive pieces of one super-packet that have the same size and differ only in their
// place, ID and IPv4 identification. The fields of the Packet are those of the first, Size included.
//
// It saves the work for each packet where all of them pass at once: links without rate and delay,
// and ports that do nothing but count. It crosses the fabric within one event, and never waits in a
// queue or on a link. Code that cannot treat all of its packets alike replaces it with them
// (Split).

// PacketCount returns the number of packets that p stands for: 1 unless it is a Train.
func (p *Packet) PacketCount() int {
	if p.Kind != Train {
		return 1
	}
	return int(p.Piece.More) + 1
}

// SplitTrain frees a Train of l and calls f with each of its packets in order, which f owns.
func (l *Pool) SplitTrain(train *Packet, f func(*Packet)) {
	s := train.Piece.Of
	payload := uint32(train.Size) - uint32(s.Payload)
	for i := range train.PacketCount() {
		p := l.CopyTemplate(train)
		s.refs++
		p.Next, p.Kind = nil, Real
		p.ID += uint64(i)
		p.Piece = Piece{Of: s, Offset: train.Piece.Offset + uint32(i)*payload, Index: train.Piece.Index + uint16(i)}
		if p.Version == 4 {
			p.IPID += uint16(i)
		}
		f(p)
	}
	l.Free(train)
}
