package gso

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

const (
	maxOpen   = 4  // open runs at a time
	maxSlices = 64 // of memory in one write
)

// Writer writes the runs of a Joiner.
type Writer interface {
	// WriteRun writes r.Iov to the device. It must not retain r or anything that r refers to.
	WriteRun(r *Run)
}

// Run is a single packet, or several that go to the host as one super-packet.
type Run struct {
	Header      Header
	Iov         []unix.Iovec // the whole write: header, headers, payload
	List        *packet.Packet
	Packets     int // in List, through Next, in order
	Bytes       units.Bytes
	First, Last units.Time // arrival of the first and the last packet

	tail *packet.Packet
	head []byte // headers of the first packet, as they are in its memory
	l4   int    // offset in head

	segment int    // payload bytes of the first packet
	payload int    // payload bytes of all
	nextSeq uint32 // expected of the next packet
	nextID  uint16
	flags   uint8 // of the last packet

	slices  int // in use of iov
	iov     [maxSlices]unix.Iovec
	scratch [HeaderLen + maxHeaders]byte
}

// Joiner joins packets for one device. Packets with equal packet.Hash form a flow:
// they leave in the order in which they came, but packets of other flows may
// overtake them.
//
// Packets are joined if all of the following holds; otherwise each is written alone, at once:
//   - TCP over IPv4 without options or IPv6 without extension headers, no
//     fragment, FCS good, flags ACK or ACK and PSH, with payload
//   - the checksum is partial and its pseudo-header sum is correct. A frame that
//     came with a complete checksum keeps it, for the receiver to check.
//   - Ethernet, VLAN tags, IP (TOS with ECN, TTL, DF and flow label included),
//     and TCP acknowledgement, window and options are equal; sequence numbers
//     are consecutive, and so are IPv4 identifications
//   - no packet has more payload than the first; one with less, or with PSH, is
//     the last
//   - together they fit in one IP packet and in 63 slices of memory
//
// or if they are consecutive datagrams of one UDP super-packet with equal TOS and TTL.
//
// A run that may still grow stays open until Flush; the caller calls Flush when it
// has no more packets, or after a delay that it measures from OldestRun.
type Joiner struct {
	pool *packet.Pool
	w    Writer
	ip   bool

	open  [maxOpen]*Run // those in use first, in order of their first packets
	n     int
	alone *Run
}

// NewJoiner makes a Joiner that frees packets to pool when w has written them. ip
// means that the device carries IP packets, as a TUN does: the bytes before the IP
// header are left out, and only IP packets may be added.
func NewJoiner(pool *packet.Pool, w Writer, ip bool) *Joiner {
	j := &Joiner{pool: pool, w: w, ip: ip, alone: new(Run)}
	for i := range j.open {
		j.open[i] = new(Run)
	}
	return j
}

// AddPacket takes p, a packet of a real program or a train, and writes the packets that cannot wait.
func (j *Joiner) AddPacket(now units.Time, p *packet.Packet) {
	r := j.findRun(p.Hash)
	if r != nil && r.growRun(now, p) {
		return
	}
	g, joinable := segmentOf(p)
	if p.Kind == packet.Train && !(joinable && (r == nil || r.takesAll(p, &g) || !r.canAppend(p, &g))) {
		// Its packets go different ways.
		j.pool.SplitTrain(p, func(q *packet.Packet) { j.AddPacket(now, q) })
		return
	}
	if r != nil && !(joinable && r.canAppend(p, &g)) {
		j.closeRun(r)
		r = nil
	}
	if !joinable {
		j.alone.startRun(now, p, &g)
		j.writeRun(j.alone)
		return
	}
	if r == nil {
		if j.n == maxOpen {
			j.closeRun(j.open[0])
		}
		r = j.open[j.n]
		j.n++
		r.startRun(now, p, &g)
	} else {
		r.appendPacket(now, p, &g)
	}
	if g.last || g.size < r.segment {
		j.closeRun(r)
	}
}

// Flush writes all open runs in the order of their first packets.
func (j *Joiner) Flush() {
	for j.n > 0 {
		j.closeRun(j.open[0])
	}
}

// OldestRun returns when the first packet of the oldest open run came, and false when
// no run is open.
func (j *Joiner) OldestRun() (units.Time, bool) {
	if j.n == 0 {
		return 0, false
	}
	return j.open[0].First, true
}

// findRun returns the open run of a flow, nil if there is none.
func (j *Joiner) findRun(hash uint64) *Run {
	for _, r := range j.open[:j.n] {
		if r.tail.Hash == hash {
			return r
		}
	}
	return nil
}

// closeRun writes an open run.
func (j *Joiner) closeRun(r *Run) {
	i := 0
	for j.open[i] != r {
		i++
	}
	j.n--
	copy(j.open[i:], j.open[i+1:j.n+1])
	j.open[j.n] = r
	j.writeRun(r)
}

func (j *Joiner) writeRun(r *Run) {
	r.buildHeaders(j.ip)
	j.w.WriteRun(r)
	for p := r.List; p != nil; {
		next := p.Next
		j.pool.Free(p)
		p = next
	}
	r.List, r.tail = nil, nil
}

// startRun makes r a run of p alone. If p is not joinable, g need only hold a piece's headers.
func (r *Run) startRun(now units.Time, p *packet.Packet, g *segment) {
	p.Next = nil
	n := p.PacketCount()
	r.List, r.tail, r.Packets, r.Bytes = p, p, n, units.Bytes(n)*p.Size
	r.First, r.Last = now, now
	r.head, r.l4, r.segment, r.payload, r.flags = g.head, g.l4, g.size, len(g.data), g.flags
	r.nextSeq = g.seq + uint32(len(g.data))
	r.nextID = nextID(p)
	r.slices = 1 // the first is for the headers
	r.addSlice(g.data)
}

// growRun appends p if it is the next piece in the middle of the same super-packet as
// the run's last packet, as nearly all are: such pieces share headers, flags and
// length. It reports false when p needs a closer look.
func (r *Run) growRun(now units.Time, p *packet.Packet) bool {
	q := r.tail
	if p.Kind == packet.Train || !isNextPiece(q, p) || p.Size != q.Size || lastPiece(p) || p.BadFCS ||
		p.TOS != q.TOS || p.TTL != q.TTL || p.IPID != r.nextID || p.Src != q.Src || p.Dst != q.Dst {
		return false
	}
	n := int(p.Size) - int(p.Piece.Of.Payload)
	if r.payloadRoom() < n {
		return false
	}
	v := &r.iov[r.slices-1]
	v.SetLen(int(v.Len) + n)
	r.linkPacket(now, p, n)
	return true
}

// takesAll reports whether all packets of a joinable train of the same flow can be appended.
func (r *Run) takesAll(p *packet.Packet, g *segment) bool {
	return g.size == r.segment && r.payloadRoom() >= len(g.data) && r.canAppend(p, g)
}

// payloadRoom returns how much more payload fits in an IP packet.
func (r *Run) payloadRoom() int { return maxIP - (len(r.head) - int(r.tail.L3) + r.payload) }

// canAppend reports whether p, a joinable packet of the same flow or the first of a train, can be
// appended.
func (r *Run) canAppend(p *packet.Packet, g *segment) bool {
	q := r.tail
	if p.TOS != q.TOS || p.TTL != q.TTL || p.IPID != r.nextID || p.Src != q.Src || p.Dst != q.Dst ||
		g.size > r.segment || r.payloadRoom() < g.size {
		return false
	}
	if isNextPiece(q, p) {
		return true // it has the headers of its predecessor
	}
	return p.Proto == wire.ProtoTCP && g.seq == r.nextSeq && r.slices < maxSlices &&
		sameHeaders(r.head, g.head, q, r.l4)
}

// appendPacket makes p the last of the run.
func (r *Run) appendPacket(now units.Time, p *packet.Packet, g *segment) {
	if isNextPiece(r.tail, p) {
		v := &r.iov[r.slices-1]
		v.SetLen(int(v.Len) + len(g.data))
	} else {
		r.addSlice(g.data)
	}
	r.flags = g.flags
	r.linkPacket(now, p, len(g.data))
}

// linkPacket makes p, of n bytes of payload, the last in the list.
func (r *Run) linkPacket(now units.Time, p *packet.Packet, n int) {
	p.Next = nil
	r.tail.Next = p
	r.tail = p
	packets := p.PacketCount()
	r.Packets += packets
	r.Bytes += units.Bytes(packets) * p.Size
	r.Last = now
	r.payload += n
	r.nextSeq += uint32(n)
	r.nextID = nextID(p)
}

func (r *Run) addSlice(b []byte) {
	if len(b) == 0 {
		return
	}
	r.iov[r.slices].Base = &b[0]
	r.iov[r.slices].SetLen(len(b))
	r.slices++
}

// buildHeaders builds the virtio header and the packet headers in the run's scratch memory.
//
// A single packet gets a complete checksum, as from a network card: what reads packets
// before the host's transport does sees the field as it is, such as packet sockets
// (tcpdump, DHCP clients) and the quotations of ICMP. The host then verifies it. A
// super-packet has the sum of its pseudo-header there, as one that the kernel's own GRO
// has joined (Linux, net/ipv4/tcp_offload.c, tcp_gro_complete).
func (r *Run) buildHeaders(ip bool) {
	p := r.List
	skip := 0
	if ip {
		skip = int(p.L3)
	}
	r.Header = Header{}
	front := r.scratch[:HeaderLen]
	if r.Packets == 1 && p.Frame != nil {
		r.slices = 1
		r.addSlice(p.Frame[skip:])
		if p.Sum != 0 {
			field := csumField(p.Proto)
			completeChecksum(p.Frame, int(p.Sum)-field, field)
			p.Sum = 0
		}
	} else {
		// The virtio header takes the place of an Ethernet header that is left out.
		b := r.scratch[HeaderLen:][:len(r.head)]
		copy(b, r.head)
		putHeaders(b, r.l4, p, r.nextSeq-uint32(r.payload), r.flags, r.payload)
		field := csumField(p.Proto)
		if r.Packets == 1 {
			completeWith(b, pieceBytes(p), r.l4, field)
		} else {
			r.Header = Header{
				Flags: NeedsCsum, CsumStart: uint16(r.l4 - skip), CsumOffset: uint16(field),
				GSOType: gsoType(p), HdrLen: uint16(len(r.head) - skip), GSOSize: uint16(r.segment),
			}
		}
		front = r.scratch[skip : HeaderLen+len(b)]
	}
	r.Header.EncodeTo(front)
	r.iov[0].Base = &front[0]
	r.iov[0].SetLen(len(front))
	r.Iov = r.iov[:r.slices]
}

func gsoType(p *packet.Packet) uint8 {
	switch {
	case p.Proto == wire.ProtoUDP:
		return GSOUDPL4
	case p.Version == 4:
		return GSOTCPv4
	}
	return GSOTCPv6
}

// nextID returns the IPv4 identification expected of the packet after p.
func nextID(p *packet.Packet) uint16 {
	if p.Version == 4 {
		return p.IPID + p.Piece.More + 1
	}
	return p.IPID
}

// isNextPiece reports whether p is the next piece after q in one super-packet.
func isNextPiece(q, p *packet.Packet) bool {
	return p.Piece.Of != nil && p.Piece.Of == q.Piece.Of && p.Piece.Index == q.Piece.Index+q.Piece.More+1
}

// segment is what a packet or a train would add to a run.
type segment struct {
	head  []byte // its headers, or its super-packet's
	l4    int
	data  []byte
	size  int // of data, for each packet
	seq   uint32
	flags uint8
	last  bool // nothing may follow
}

// segmentOf reads p and reports whether it may be joined with others. If not, the
// segment of a piece is still valid; that of a frame may be empty.
func segmentOf(p *packet.Packet) (g segment, joinable bool) {
	if s := p.Piece.Of; s != nil {
		g = segment{head: s.Data[:s.Payload], l4: int(s.L4), data: pieceBytes(p), size: int(p.Size) - int(s.Payload)}
		if p.Proto == wire.ProtoUDP {
			g.last = lastPiece(p)
			return g, !p.BadFCS && plainIP(p, g.l4)
		}
		g.seq, g.flags = pieceSeq(p), pieceFlags(p)
	} else if !g.readFrame(p) {
		return segment{}, false
	}
	g.last = g.flags&psh != 0
	return g, !p.BadFCS && plainIP(p, g.l4) && g.flags&^psh == ack && g.head[g.l4+12]&15 == 0
}

// plainIP reports whether the IP header of p, which ends at l4, has neither options
// nor extensions.
func plainIP(p *packet.Packet, l4 int) bool {
	if p.Version == 4 {
		return l4 == int(p.L3)+wire.IPv4Header
	}
	return l4 == int(p.L3)+wire.IPv6Header
}

// readFrame reads a TCP frame that has a partial checksum and ends where its IP
// header says. It reports false for any other frame.
func (g *segment) readFrame(p *packet.Packet) bool {
	if p.Sum == 0 || p.Proto != wire.ProtoTCP {
		return false
	}
	f, ip := p.Frame, p.Frame[p.L3:]
	g.l4 = int(p.Sum) - csumField(wire.ProtoTCP)
	var length int
	if p.Version == 4 {
		if binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 {
			return false
		}
		length = int(binary.BigEndian.Uint16(ip[2:]))
	} else {
		if ip[6] != wire.ProtoTCP {
			return false
		}
		length = wire.IPv6Header + int(binary.BigEndian.Uint16(ip[4:]))
	}
	if length != len(ip) || len(f) < g.l4+tcpHeader {
		return false
	}
	payload := g.l4 + int(f[g.l4+12]>>4)*4
	if payload < g.l4+tcpHeader || payload >= len(f) || payload > maxHeaders {
		return false
	}
	if binary.LittleEndian.Uint16(f[p.Sum:]) != pseudoHeader(p, ip, len(f)-g.l4) {
		return false // joining would correct it
	}
	g.head, g.data, g.size = f[:payload], f[payload:], len(f)-payload
	g.seq, g.flags = binary.BigEndian.Uint32(f[g.l4+4:]), f[g.l4+13]
	return true
}

// sameHeaders compares all headers of a and b up to and including TCP, except for
// the fields that differ between the segments of one super-packet (lengths,
// identification, sequence number, flags, checksums) and those that Packet holds
// (TOS, TTL, Ethernet addresses set by a router). a belongs to p.
func sameHeaders(a, b []byte, p *packet.Packet, l4 int) bool {
	l2, l3 := 0, int(p.L3)
	if p.Dst != 0 {
		l2 = 2 * wire.MACLen
	}
	if len(a) != len(b) || !bytes.Equal(a[l2:l3], b[l2:l3]) {
		return false
	}
	x, y := a[l3:l4], b[l3:l4]
	if p.Version == 4 {
		if x[0] != y[0] || !bytes.Equal(x[6:8], y[6:8]) || x[9] != y[9] || !bytes.Equal(x[12:], y[12:]) {
			return false
		}
	} else if x[0]>>4 != y[0]>>4 || (x[1]^y[1])&15 != 0 || !bytes.Equal(x[2:4], y[2:4]) || x[6] != y[6] || !bytes.Equal(x[8:], y[8:]) {
		return false
	}
	x, y = a[l4:], b[l4:]
	return bytes.Equal(x[:4], y[:4]) && // ports
		bytes.Equal(x[8:13], y[8:13]) && // acknowledgement, length
		bytes.Equal(x[14:16], y[14:16]) && // window
		bytes.Equal(x[18:], y[18:]) // urgent pointer, options
}
