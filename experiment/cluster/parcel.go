package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"
)

const (
	// pieceSize is how much of a compressed payload or result goes into one message. NATS
	// servers accept 1 MiB by default.
	pieceSize = 256 << 10
	// piecesAtOnce is how many pieces are sent concurrently.
	piecesAtOnce = 2
	// labelHeader is the message header that holds the label, as JSON.
	labelHeader = "Weft-Label"
)

// label describes the message of a job or a result. The bytes are compressed with zstd;
// they are in the message itself, or in pieces below the job's subject.
type label struct {
	Pieces int    `json:"pieces,omitempty"` // 0: in the message
	Nonce  string `json:"nonce,omitempty"`  // of the pieces' subjects
	Sum    []byte `json:"sum,omitempty"`    // SHA-256 of all pieces

	// For results:
	Failed   bool          `json:"failed,omitempty"` // the bytes are the text of an error
	Worker   string        `json:"worker,omitempty"`
	Instance string        `json:"instance,omitempty"`
	Took     time.Duration `json:"took,omitempty"`
}

// pieceSubject returns the subject of a piece.
func (l label) pieceSubject(experiment, job string, n int) string {
	return liveSubject(experiment, job, "part."+l.Nonce+"."+strconv.Itoa(n))
}

// storePieces stores a job or a result: first its pieces, then the message that makes them
// valid. It returns a conflict if the subject already has that message.
func (c *Client) storePieces(ctx context.Context, experiment, job, kind string, l label, data []byte, trouble func(error)) error {
	data = c.packer.EncodeAll(data, nil)
	m := nats.NewMsg(liveSubject(experiment, job, kind))
	if len(data) <= pieceSize {
		m.Data = data
	} else {
		sum := sha256.Sum256(data)
		l.Nonce, l.Sum, l.Pieces = nuid.Next(), sum[:], (len(data)+pieceSize-1)/pieceSize
		pieces, pctx := errgroup.WithContext(ctx)
		pieces.SetLimit(piecesAtOnce)
		for n := range l.Pieces {
			pieces.Go(func() error {
				p := nats.NewMsg(l.pieceSubject(experiment, job, n))
				p.Data = data[n*pieceSize : min((n+1)*pieceSize, len(data))]
				err := c.retryRequest(pctx, experiment, trouble, func(ctx context.Context) error { return c.publishOnce(ctx, p) })
				if isConflict(err) { // it was stored, but the answer was lost
					return nil
				}
				return err
			})
		}
		if err := pieces.Wait(); err != nil {
			return err
		}
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	m.Header.Set(labelHeader, string(text))
	return c.retryRequest(ctx, experiment, trouble, func(ctx context.Context) error { return c.publishOnce(ctx, m) })
}

// errSpoilt means that a payload or result on the server differs from what was stored.
var errCorrupt = errors.New("not what was stored")

// loadPieces reads what store stored, starting from the message that makes it valid. The error
// is jetstream.ErrMsgNotFound if pieces are missing because the job was purged.
func (c *Client) loadPieces(ctx context.Context, stream jetstream.Stream, experiment, job string, header nats.Header, body []byte) (label, []byte, error) {
	var l label
	if err := json.Unmarshal([]byte(header.Get(labelHeader)), &l); err != nil {
		return l, nil, fmt.Errorf("job %s of experiment %s: its message on the server is %w: %v", job, experiment, errCorrupt, err)
	}
	if l.Pieces > 0 {
		all := make([][]byte, l.Pieces)
		pieces, pctx := errgroup.WithContext(ctx)
		pieces.SetLimit(piecesAtOnce)
		for n := range all {
			pieces.Go(func() error {
				return c.retryRequest(pctx, experiment, nil, func(ctx context.Context) error {
					m, err := stream.GetLastMsgForSubject(ctx, l.pieceSubject(experiment, job, n))
					if err == nil {
						all[n] = m.Data
					}
					return err
				})
			})
		}
		if err := pieces.Wait(); err != nil {
			return l, nil, err
		}
		hash := sha256.New()
		body = nil
		for _, piece := range all {
			hash.Write(piece)
			body = append(body, piece...)
		}
		if string(hash.Sum(nil)) != string(l.Sum) {
			return l, nil, fmt.Errorf("job %s of experiment %s: what the server has is %w", job, experiment, errCorrupt)
		}
	}
	data, err := c.opener.DecodeAll(body, nil)
	if err != nil {
		return l, nil, fmt.Errorf("job %s of experiment %s: what the server has is %w: %v", job, experiment, errCorrupt, err)
	}
	return l, data, nil
}
