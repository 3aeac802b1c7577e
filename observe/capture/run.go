package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftlab/weft/observe/pcapng"
	"github.com/weftlab/weft/sim/units"
)

const (
	// batch is how many packets are taken between two readings of the clock.
	batch = 256

	// maxHold is the longest that a written packet stays in the buffer while
	// others keep coming; if none come it is flushed at once.
	maxHold = 100 * time.Millisecond

	// The consumer looks for packets after a nap that doubles from minNap to
	// maxNap while there are none. The producer never wakes it: that would
	// cost a system call in the path of a packet.
	minNap = time.Millisecond
	maxNap = 4 * time.Millisecond
)

// Summary counts packets. Seen = Filtered + Written, and if Close ended the
// capture, every PutPacket is either Seen or an Overrun.
type Summary struct {
	Seen     uint64 // taken from the ring
	Filtered uint64 // of these, rejected by the filter
	Written  uint64 // of these, written
	Overrun  uint64 // lost because the ring was full
}

// Run writes the capture to w until ctx ends, Close is called or
// Options.Count is reached; it then adds the statistics of each interface.
// None of the three is an error. When w implements interface{ Flush() }, as
// HTTP responses do, it is flushed with the capture. Run may be called once.
//
// It fails when writing fails, for example with EPIPE when a reader has gone;
// the summary then counts what was handed over before. Run does not interrupt
// a write that blocks: to end it together with ctx, close w.
func (c *Capture) Run(ctx context.Context, w io.Writer) (Summary, error) {
	if c.started.Swap(true) {
		return Summary{}, errors.New("capture: Run was called twice")
	}
	defer context.AfterFunc(ctx, c.Close)()
	r := &run{Capture: c, out: w, ports: make([]portCount, len(c.options.Interfaces))}
	err := r.writeHeader()
	if err == nil {
		err = r.writePackets()
	}
	r.endProducer()
	if err == nil {
		err = r.writeStatistics()
	}
	if err != nil {
		err = fmt.Errorf("capture: %w", err)
	}
	return r.sum, err
}

// run is the state of the consumer.
type run struct {
	*Capture
	out         io.Writer
	file        *pcapng.Writer
	sum         Summary
	ports       []portCount
	first, last units.Time // of the packets seen
}

// portCount counts the packets of one port.
type portCount struct {
	seen, written uint64
	overruns      uint64 // overruns already reported in the file
}

// writeHeader begins the file.
func (r *run) writeHeader() (err error) {
	o := &r.options
	r.file, err = pcapng.NewWriter(r.out, pcapng.Section{Application: "weft", Comment: o.Comment})
	for _, i := range o.Interfaces {
		if err != nil {
			break
		}
		_, err = r.file.AddInterface(pcapng.Interface{
			Name: i.Name, Description: i.Description, Filter: o.Filter, SnapLen: o.SnapLen, Speed: i.Speed,
		})
	}
	return err
}

// writePackets moves packets from the ring to the file until the end.
func (r *run) writePackets() error {
	flushed, unflushed, nap := time.Now(), true, minNap
	for {
		// Read before the ring: once closed, an empty ring stays empty.
		closed := r.tap.closed.Load()
		n, err := r.moveBatch()
		if err != nil || r.isFull() {
			return err
		}
		idle := n < batch
		unflushed = unflushed || n > 0
		if unflushed && (idle || time.Since(flushed) > maxHold) {
			if err := r.flushFile(); err != nil {
				return err
			}
			flushed, unflushed = time.Now(), false
		}
		if !idle {
			continue
		}
		if closed {
			return nil
		}
		if nap = min(2*nap, maxNap); n > 0 {
			nap = minNap
		}
		time.Sleep(nap)
	}
}

// moveBatch moves up to one batch of packets and returns how many it found.
func (r *run) moveBatch() (n int, err error) {
	for ; n < batch && err == nil && !r.isFull(); n++ {
		b := r.tap.ring.nextRecord()
		if b == nil {
			break
		}
		p, overruns := decodeRecord(b)
		err = r.writePacket(p, overruns)
		r.tap.ring.releaseRecord()
	}
	return n, err
}

// isFull reports whether Options.Count is reached.
func (r *run) isFull() bool { return r.options.Count > 0 && r.sum.Written >= r.options.Count }

// writePacket writes p unless the filter rejects it.
func (r *run) writePacket(p Packet, overruns uint64) error {
	port := &r.ports[p.Port]
	if r.filter.acceptsFrame(p.Data) {
		err := r.file.WritePacket(int(p.Port), pcapng.Packet{
			At:        r.unixTime(p.At),
			Data:      p.Data[:min(len(p.Data), r.options.SnapLen)],
			Length:    int(p.Length),
			Direction: p.Dir,
			FCSError:  p.FCSError,
			Comment:   r.commentFor(p),
			Drops:     overruns - port.overruns,
		})
		if err != nil {
			return err
		}
		port.overruns = overruns
		port.written++
		r.sum.Written++
	} else {
		r.sum.Filtered++
	}
	if r.sum.Seen == 0 {
		r.first, r.last = p.At, p.At
	}
	r.first, r.last = min(r.first, p.At), max(r.last, p.At)
	port.seen++
	r.sum.Seen++
	return nil
}

// commentFor returns the comment for p.
func (r *run) commentFor(p Packet) string {
	if p.Fate == 0 || r.options.Describe == nil {
		return ""
	}
	return r.options.Describe(p.Port, p.Dir, p.Fate, p.Queue)
}

// unixTime converts emulated time to nanoseconds since 1970.
func (r *run) unixTime(t units.Time) int64 { return r.epoch + int64(t/units.Nanosecond) }

// endProducer ends the producer's part and counts all lost packets.
func (r *run) endProducer() {
	r.Close()
	for i := range r.ports {
		r.ports[i].overruns = r.tap.overruns[i].Load()
		r.sum.Overrun += r.ports[i].overruns
	}
}

// writeStatistics ends the file.
func (r *run) writeStatistics() error {
	for i, port := range r.ports {
		err := r.file.WriteStatistics(i, pcapng.Statistics{
			Start: r.unixTime(r.first), End: r.unixTime(r.last),
			Received: port.seen + port.overruns, Dropped: port.overruns,
			FilterAccepted: port.written, Delivered: port.written,
		})
		if err != nil {
			return err
		}
	}
	return r.flushFile()
}

// flushFile makes everything written visible to the reader.
func (r *run) flushFile() error {
	if err := r.file.Flush(); err != nil {
		return err
	}
	if f, ok := r.out.(interface{ Flush() }); ok {
		f.Flush()
	}
	return nil
}
