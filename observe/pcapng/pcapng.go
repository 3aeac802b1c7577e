// Package pcapng writes capture files in the format of
// draft-ietf-opsawg-pcapng: one section, Ethernet interfaces, time in
// nanoseconds. Beyond packets it writes what a plain pcap file cannot hold: the
// interface and the direction of each packet, FCS errors, comments, and how
// many packets were lost before they reached the file.
package pcapng

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/weftlab/weft/sim/units"
)

// MaxPacket is the maximum number of bytes written of one packet. Wireshark and
// libpcap refuse files with longer ones.
const MaxPacket = 262144

// flushAt is the amount of buffered data that is written without a Flush.
const flushAt = 64 << 10

// Block types (section 4 of the draft) and the numbers at their head.
const (
	blockSection    = 0x0A0D0D0A
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	byteOrderMagic   = 0x1A2B3C4D
	linktypeEthernet = 1
)

// Section describes a whole file. Empty fields are left out.
type Section struct {
	Hardware, OS, Application, Comment string
}

// Interface describes one interface of a file. Empty fields are left out.
type Interface struct {
	Name, Description string
	Filter            string     // capture filter, in tcpdump's language
	SnapLen           int        // bytes kept of each packet; 0 = no limit. The writer does not cut
	Speed             units.Rate // 0 = not known
}

// Writer writes one pcapng file or stream. It buffers: Flush after the last
// packet, and whenever a reader is waiting for it. The first error of the
// underlying writer is returned by every later call. A Writer is not safe for
// concurrent use.
type Writer struct {
	w          io.Writer
	buf        []byte // whole blocks, except while one is being appended
	interfaces int
	err        error
}

// NewWriter begins a file on w with its section header. It writes nothing until
// the first Flush. It fails if a text of s is too long for the format (65535
// bytes).
func NewWriter(w io.Writer, s Section) (*Writer, error) {
	if err := fitTexts(&s.Hardware, &s.OS, &s.Application, &s.Comment); err != nil {
		return nil, err
	}
	n := &Writer{w: w}
	start := n.beginBlock(blockSection)
	n.appendU32(byteOrderMagic)
	n.appendU16(1)         // major version
	n.appendU16(0)         // minor version
	n.appendU64(1<<64 - 1) // length of the section: not known
	n.writeText(optComment, s.Comment)
	n.writeText(sectionHardware, s.Hardware)
	n.writeText(sectionOS, s.OS)
	n.writeText(sectionApplication, s.Application)
	n.endBlock(start)
	return n, nil
}

// AddInterface adds an interface and returns its number, counting from 0.
// Interfaces may be added at any time before their first packet. It fails if a
// text is too long, SnapLen or Speed is negative, or writing failed.
func (w *Writer) AddInterface(i Interface) (id int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := fitTexts(&i.Name, &i.Description, &i.Filter); err != nil {
		return 0, err
	}
	if i.SnapLen < 0 || int64(i.SnapLen) > 1<<32-1 || i.Speed < 0 {
		return 0, fmt.Errorf("pcapng: interface %q: snap length %d or speed %d is out of range", i.Name, i.SnapLen, i.Speed)
	}
	start := w.beginBlock(blockInterface)
	w.appendU16(linktypeEthernet)
	w.appendU16(0) // reserved
	w.appendU32(uint32(i.SnapLen))
	w.writeText(interfaceName, i.Name)
	w.writeText(interfaceDescription, i.Description)
	w.writeFilter(i.Filter)
	if i.Speed > 0 {
		w.writeOption64(interfaceSpeed, uint64(i.Speed))
	}
	w.writeOption8(interfaceTimeResolution, 9) // 10^-9 s
	// Without this Wireshark guesses, and takes the end of a padded frame for a
	// bad FCS.
	w.writeOption8(interfaceFCSLength, 0)
	w.endBlock(start)
	w.interfaces++
	return w.interfaces - 1, w.flushIfFull()
}

// Flush hands everything buffered to the underlying writer.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.w.Write(w.buf)
		w.buf = w.buf[:0]
	}
	return w.err
}

// flushIfFull flushes when enough is buffered.
func (w *Writer) flushIfFull() error {
	if len(w.buf) < flushAt {
		return nil
	}
	return w.Flush()
}

// checkInterface reports why nothing can be written for interface id.
func (w *Writer) checkInterface(id int) error {
	if w.err != nil {
		return w.err
	}
	if id < 0 || id >= w.interfaces {
		return fmt.Errorf("pcapng: interface %d was not added, there are %d", id, w.interfaces)
	}
	return nil
}

// beginBlock appends the head of a block. Its length is filled in by end, which
// takes what begin returned.
func (w *Writer) beginBlock(kind uint32) (start int) {
	start = len(w.buf)
	w.appendU32(kind)
	w.appendU32(0)
	return start
}

// endBlock closes the list of options and the block.
func (w *Writer) endBlock(start int) {
	w.appendU32(0) // opt_endofopt
	length := uint32(len(w.buf) + 4 - start)
	w.appendU32(length)
	binary.LittleEndian.PutUint32(w.buf[start+4:], length)
}

func (w *Writer) appendU16(v uint16) { w.buf = binary.LittleEndian.AppendUint16(w.buf, v) }
func (w *Writer) appendU32(v uint32) { w.buf = binary.LittleEndian.AppendUint32(w.buf, v) }
func (w *Writer) appendU64(v uint64) { w.buf = binary.LittleEndian.AppendUint64(w.buf, v) }

// appendTime appends nanoseconds since 1970 as the format requires: the upper half
// first, regardless of the byte order.
func (w *Writer) appendTime(ns int64) {
	w.appendU32(uint32(uint64(ns) >> 32))
	w.appendU32(uint32(ns))
}

// appendPadding appends zeros up to the next multiple of 4 after n bytes.
func (w *Writer) appendPadding(n int) {
	var zero [3]byte
	w.buf = append(w.buf, zero[:-n&3]...)
}
