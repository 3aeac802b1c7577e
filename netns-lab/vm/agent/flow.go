package agent

import (
	"encoding/binary"
	"io"
	"sync"
)

// credit is the number of bytes of a stream that may still be sent.
type credit struct {
	mu     sync.Mutex
	change sync.Cond
	left   int
	closed bool
}

func newCredit() *credit {
	c := &credit{left: window}
	c.change.L = &c.mu
	return c
}

// acquireBytes waits until bytes may be sent and returns how many of n; 0 once the credit is closed.
func (c *credit) acquireBytes(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left == 0 && !c.closed {
		c.change.Wait()
	}
	if c.closed {
		return 0
	}
	n = min(n, c.left)
	c.left -= n
	return n
}

// grantBytes adds the credit from the payload of a more frame.
func (c *credit) grantBytes(payload []byte) {
	if len(payload) != 4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = min(c.left+int(binary.BigEndian.Uint32(payload)), window)
	c.change.Broadcast()
}

func (c *credit) closeCredit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.change.Broadcast()
}

// queue holds received bytes of a stream until they are taken. The other side's
// credit bounds it, or limit if the other side exceeds its credit.
type queue struct {
	mu     sync.Mutex
	change sync.Cond
	waits  [][]byte
	size   int // of waits, bytes
	limit  int
	ended  bool
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.change.L = &q.mu
	return q
}

// putBytes adds bytes; an empty slice ends the stream. It returns false if there is no
// room: then the bytes are lost and the stream ends.
func (q *queue) putBytes(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	fits := q.size+len(b) <= q.limit
	if len(b) == 0 || !fits {
		q.ended = true
	} else if !q.ended {
		q.waits = append(q.waits, b)
		q.size += len(b)
	}
	q.change.Broadcast()
	return fits
}

// takeBytes waits for bytes and returns them; nil at the end of the stream.
func (q *queue) takeBytes() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waits) == 0 && !q.ended {
		q.change.Wait()
	}
	if len(q.waits) == 0 {
		return nil
	}
	b := q.waits[0]
	q.waits = q.waits[1:]
	q.size -= len(b)
	return b
}

// drainTo writes the bytes of a stream to w until it ends, and gives the other side
// credit for as many. After a write error the rest is discarded.
func (q *queue) drainTo(w io.Writer, session uint32, stream byte, send func(frame) error) {
	var broken bool
	for b := q.takeBytes(); b != nil; b = q.takeBytes() {
		if !broken {
			_, err := w.Write(b)
			broken = err != nil
		}
		_ = send(moreFrame(session, stream, len(b)))
	}
}

// pumpStream sends the bytes from r as a stream, then its end.
func pumpStream(r io.Reader, session uint32, stream byte, c *credit, send func(frame) error) {
	b := make([]byte, maxPayload)
	for {
		n, err := r.Read(b)
		for rest := b[:n]; len(rest) > 0; {
			part := c.acquireBytes(len(rest))
			if part == 0 || send(dataFrame(session, stream, rest[:part])) != nil {
				return
			}
			rest = rest[part:]
		}
		if err != nil {
			_ = send(dataFrame(session, stream, nil))
			return
		}
	}
}
