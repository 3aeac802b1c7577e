package pcapng

import (
	"fmt"
	"strings"
)

// Option codes: section 3.5 of the draft, then those of each block.
const (
	optComment = 1

	sectionHardware    = 2
	sectionOS          = 3
	sectionApplication = 4

	interfaceName           = 2
	interfaceDescription    = 3
	interfaceSpeed          = 8
	interfaceTimeResolution = 9
	interfaceFilter         = 11
	interfaceFCSLength      = 13

	packetFlags = 2
	packetDrops = 4

	statisticsStart          = 2
	statisticsEnd            = 3
	statisticsReceived       = 4
	statisticsDropped        = 5
	statisticsFilterAccepted = 6
	statisticsDelivered      = 8
)

// maxText is the longest text of one option: its length has 16 bits, and the
// text of a filter is preceded by one byte.
const maxText = 1<<16 - 2

// fitTexts makes texts valid for an option: UTF-8, in place, with U+FFFD for invalid
// bytes. It fails for texts that are too long.
func fitTexts(texts ...*string) error {
	for _, t := range texts {
		*t = strings.ToValidUTF8(*t, "\uFFFD")
		if len(*t) > maxText {
			return fmt.Errorf("pcapng: a text of %d bytes is too long, at most %d fit (it begins with %.40q)", len(*t), maxText, *t)
		}
	}
	return nil
}

// writeText appends an option that holds s, or nothing for an empty one.
func (w *Writer) writeText(code uint16, s string) {
	if s == "" {
		return
	}
	w.appendU16(code)
	w.appendU16(uint16(len(s)))
	w.buf = append(w.buf, s...)
	w.appendPadding(len(s))
}

// writeFilter appends a capture filter, if any: a byte 0 says that it is text.
func (w *Writer) writeFilter(expr string) {
	if expr != "" {
		w.writeText(interfaceFilter, "\x00"+expr)
	}
}

func (w *Writer) writeOption8(code uint16, v uint8) {
	w.appendU16(code)
	w.appendU16(1)
	w.appendU32(uint32(v)) // with padding
}

func (w *Writer) writeOption32(code uint16, v uint32) {
	w.appendU16(code)
	w.appendU16(4)
	w.appendU32(v)
}

func (w *Writer) writeOption64(code uint16, v uint64) {
	w.appendU16(code)
	w.appendU16(8)
	w.appendU64(v)
}

func (w *Writer) optionTime(code uint16, ns int64) {
	w.appendU16(code)
	w.appendU16(8)
	w.appendTime(ns)
}
