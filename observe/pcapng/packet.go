package pcapng

import "fmt"

// Direction says in which direction a packet passed its interface.
type Direction uint8

// Directions, as bits 0 and 1 of epb_flags (section 4.3.1 of the draft).
const (
	Unknown  Direction = 0
	Inbound  Direction = 1 // the interface received it
	Outbound Direction = 2 // the interface sent it
)

// flagFCSError is the bit of epb_flags for "CRC error".
const flagFCSError = 1 << 24

// Packet is one packet of a file.
type Packet struct {
	At        int64  // nanoseconds since 1970-01-01T00:00:00Z; not negative
	Data      []byte // from the destination MAC, without FCS; at most MaxPacket bytes. Not kept
	Length    int    // bytes before Data was cut; below len(Data) it counts as len(Data)
	Direction Direction
	FCSError  bool
	Comment   string // "" = none
	Drops     uint64 // packets lost on this interface since its previous packet
}

// WritePacket adds a packet of interface id. It fails, without effect on the
// file, if the interface was not added, p is out of range or its comment is
// longer than 65534 bytes.
func (w *Writer) WritePacket(id int, p Packet) error {
	if err := w.checkInterface(id); err != nil {
		return err
	}
	if len(p.Data) > MaxPacket {
		return fmt.Errorf("pcapng: a packet of %d bytes is too long, at most %d are written", len(p.Data), MaxPacket)
	}
	if p.At < 0 {
		return fmt.Errorf("pcapng: a packet at %d ns lies before 1970", p.At)
	}
	if err := fitTexts(&p.Comment); err != nil {
		return err
	}
	start := w.beginBlock(blockPacket)
	w.appendU32(uint32(id))
	w.appendTime(p.At)
	w.appendU32(uint32(len(p.Data)))
	w.appendU32(uint32(max(p.Length, len(p.Data))))
	w.buf = append(w.buf, p.Data...)
	w.appendPadding(len(p.Data))
	w.writeText(optComment, p.Comment)
	flags := uint32(p.Direction & 3)
	if p.FCSError {
		flags |= flagFCSError
	}
	if flags != 0 {
		w.writeOption32(packetFlags, flags)
	}
	if p.Drops > 0 {
		w.writeOption64(packetDrops, p.Drops)
	}
	w.endBlock(start)
	return w.flushIfFull()
}
