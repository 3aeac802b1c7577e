package records

// batchLen is the number of records in a batch of a Behind, and batches the number of
// batches.
const (
	batchLen = 512
	batches  = 4
)

// Behind runs a sink on its own goroutine, so that a run does not wait for files to be
// written as long as the sink keeps up. The sink must not be read before Close has
// returned.
type Behind struct {
	full, empty chan []Record
	batch       []Record
	failed      chan error // the first error of the sink, and its end
}

// NewBehind starts the goroutine of a sink. Close ends it.
func NewBehind(s Sink) *Behind {
	b := &Behind{full: make(chan []Record, batches), empty: make(chan []Record, batches), failed: make(chan error, 1)}
	for range batches {
		b.empty <- make([]Record, 0, batchLen)
	}
	b.batch = <-b.empty
	go b.writeRecords(s)
	return b
}

func (b *Behind) writeRecords(s Sink) {
	var failure error
	for batch := range b.full {
		for i := range batch {
			if failure == nil {
				failure = s.PutRecord(&batch[i])
			}
		}
		clear(batch)
		b.empty <- batch[:0]
	}
	if err := s.Close(); failure == nil {
		failure = err
	}
	b.failed <- failure
}

// PutRecord implements Sink. Close returns the errors of the sink.
func (b *Behind) PutRecord(r *Record) error {
	b.batch = append(b.batch, *r)
	if len(b.batch) == batchLen {
		b.full <- b.batch
		b.batch = <-b.empty
	}
	return nil
}

// Close closes the sink when it has all records, and returns its first error.
func (b *Behind) Close() error {
	b.full <- b.batch
	close(b.full)
	return <-b.failed
}
