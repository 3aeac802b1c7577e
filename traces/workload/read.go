package workload

import (
	"io"
	"slices"
)

// needed are the columns without which a file holds no flow records.
var needed = []string{"flow", "sent_packets", "received_packets", "start_s", "end_s"}

// Is tells whether a CSV file with this header holds flow records, or was meant
// to.
func Is(header []string) bool {
	return slices.Contains(header, "flow") && slices.Contains(header, "sent_packets")
}

// ReadCSV reads what WriteCSV has written. Columns are found by their names;
// others may be there as well, and what is not there is 0. Errors name the
// line.
func ReadCSV(r io.Reader) ([]Result, error) { return readCSV[Result](r, needed) }

// ReadJSON reads what WriteJSON has written.
func ReadJSON(r io.Reader) ([]Result, error) {
	return readJSON(r, "flow records", "flow", func(x *Result) string { return x.Flow })
}

// neededOfTransfers are the columns without which a file holds no records of
// transfers.
var neededOfTransfers = []string{"transfer", "message_bytes", "posted_messages", "completed_messages", "start_s", "end_s"}

// IsTransfers tells whether a CSV file with this header holds records of
// transfers, or was meant to.
func IsTransfers(header []string) bool {
	return slices.Contains(header, "transfer") && slices.Contains(header, "posted_messages")
}

// ReadTransfersCSV reads what WriteTransfersCSV has written. Columns are found
// by their names; others may be there as well, and what is not there is 0.
// Errors name the line.
func ReadTransfersCSV(r io.Reader) ([]TransferResult, error) {
	return readCSV[TransferResult](r, neededOfTransfers)
}

// ReadTransfersJSON reads what WriteTransfersJSON has written.
func ReadTransfersJSON(r io.Reader) ([]TransferResult, error) {
	return readJSON(r, "records of transfers", "transfer", func(x *TransferResult) string { return x.Transfer })
}
