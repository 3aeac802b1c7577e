package workload

import (
	"io"
	"slices"
)

// needed are the columns that a file of flow records must have.
var needed = []string{"flow", "sent_packets", "received_packets", "start_s", "end_s"}

// Is reports whether a CSV file with this header holds flow records, or was
// meant to.
func Is(header []string) bool {
	return slices.Contains(header, "flow") && slices.Contains(header, "sent_packets")
}

// ReadCSV reads the output of WriteCSV. Columns are found by their names;
// others may be present as well, and missing ones are 0. Errors name the line.
func ReadCSV(r io.Reader) ([]Result, error) { return readCSV[Result](r, needed) }

// ReadJSON reads the output of WriteJSON.
func ReadJSON(r io.Reader) ([]Result, error) {
	return readJSON(r, "flow records", "flow", func(x *Result) string { return x.Flow })
}

// neededOfTransfers are the columns that a file of transfer records must have.
var neededOfTransfers = []string{"transfer", "message_bytes", "posted_messages", "completed_messages", "start_s", "end_s"}

// IsTransfers reports whether a CSV file with this header holds records of
// transfers, or was meant to.
func IsTransfers(header []string) bool {
	return slices.Contains(header, "transfer") && slices.Contains(header, "posted_messages")
}

// ReadTransfersCSV reads the output of WriteTransfersCSV. Columns are found by
// their names; others may be present as well, and missing ones are 0. Errors
// name the line.
func ReadTransfersCSV(r io.Reader) ([]TransferResult, error) {
	return readCSV[TransferResult](r, neededOfTransfers)
}

// ReadTransfersJSON reads the output of WriteTransfersJSON.
func ReadTransfersJSON(r io.Reader) ([]TransferResult, error) {
	return readJSON(r, "records of transfers", "transfer", func(x *TransferResult) string { return x.Transfer })
}
