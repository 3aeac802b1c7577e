package pcapng

import "fmt"

// Statistics summarises one interface at the end of a capture.
type Statistics struct {
	Start, End     int64  // nanoseconds since 1970, not negative
	Received       uint64 // packets that passed the interface
	Dropped        uint64 // of these, lost because the capture had no room
	FilterAccepted uint64 // of these, taken by the capture filter
	Delivered      uint64 // of these, written to the file
}

// WriteStatistics adds the statistics of interface id, as of s.End. It fails if
// the interface was not added or a time lies before 1970.
func (w *Writer) WriteStatistics(id int, s Statistics) error {
	if err := w.checkInterface(id); err != nil {
		return err
	}
	if s.Start < 0 || s.End < 0 {
		return fmt.Errorf("pcapng: statistics from %d ns to %d ns lie before 1970", s.Start, s.End)
	}
	start := w.beginBlock(blockStatistics)
	w.appendU32(uint32(id))
	w.appendTime(s.End)
	w.optionTime(statisticsStart, s.Start)
	w.optionTime(statisticsEnd, s.End)
	w.writeOption64(statisticsReceived, s.Received)
	w.writeOption64(statisticsDropped, s.Dropped)
	w.writeOption64(statisticsFilterAccepted, s.FilterAccepted)
	w.writeOption64(statisticsDelivered, s.Delivered)
	w.endBlock(start)
	return w.flushIfFull()
}
