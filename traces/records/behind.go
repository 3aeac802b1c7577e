package records

// batchLen is how many records a Behind hands over at once, and batches how many such
// lots there are.
const (
	batchLen = 512
	batches  = 4
)

// Behind has a sink work on a goroutine of its own, so that a run does not wait for files
// to be written, as long as that keeps up. The sink must not be looked at before Close
// has returned.
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
	go b.work(s)
	return b
}

func (b *Behind) work(s Sink) {
	var failure error
	for batch := range b.full {
		for i := range batch {
			if failure == nil {
				failure = s.Put(&batch[i])
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

// Put implements Sink. Errors of the sink behind are told by Close.
func (b *Behind) Put(r *Record) error {
	b.batch = append(b.batch, *r)
	if len(b.batch) == batchLen {
		b.full <- b.batch
		b.batch = <-b.empty
	}
	return nil
}

// Close closes the sink when it has all records, and gives the first error that it had.
func (b *Behind) Close() error {
	b.full <- b.batch
	close(b.full)
	return <-b.failed
}
