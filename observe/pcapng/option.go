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

// fit makes texts valid for an option: UTF-8, in place, with U+FFFD for invalid
// bytes. It fails for texts that are too long.
func fit(texts ...*string) error {
	for _, t := range texts {
		*t = strings.ToValidUTF8(*t, "\uFFFD")
		if len(*t) > maxText {
			return fmt.Errorf("pcapng: a text of %d bytes is too long, at most %d fit (it begins with %.40q)", len(*t), maxText, *t)
		}
	}
	return nil
}

// text appends an option that holds s, or nothing for an empty one.
func (w *Writer) text(code uint16, s string) {
	if s == "" {
		return
	}
	w.u16(code)
	w.u16(uint16(len(s)))
	w.buf = append(w.buf, s...)
	w.pad(len(s))
}

// filter appends a capture filter, if any: a byte 0 says that it is text.
func (w *Writer) filter(expr string) {
	if expr != "" {
		w.text(interfaceFilter, "\x00"+expr)
	}
}

func (w *Writer) option8(code uint16, v uint8) {
	w.u16(code)
	w.u16(1)
	w.u32(uint32(v)) // with padding
}

func (w *Writer) option32(code uint16, v uint32) {
	w.u16(code)
	w.u16(4)
	w.u32(v)
}

func (w *Writer) option64(code uint16, v uint64) {
	w.u16(code)
	w.u16(8)
	w.u64(v)
}

func (w *Writer) optionTime(code uint16, ns int64) {
	w.u16(code)
	w.u16(8)
	w.time(ns)
}
