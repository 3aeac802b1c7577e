package cmnic

import (
	"errors"
	"fmt"

	msg "github.com/weftlab/weft/protocols/cm"
)

// Errors in consumer requests. Errors of this package's methods wrap one of these; the call has
// then changed nothing.
var (
	ErrUnknown     = errors.New("cm: unknown ID")
	ErrState       = errors.New("cm: not possible in the connection's state")
	ErrPrivateData = errors.New("cm: too much private data")
	ErrParameter   = errors.New("cm: parameter out of range")
	ErrInUse       = errors.New("cm: address already in use")
)

// findConnection returns a connection that the consumer may know.
func (c *CM) findConnection(id msg.CommID) (*conn, error) {
	x := c.conns[id]
	if x == nil || x.silent || x.state == Refused || x.state == SIDRREPSent {
		return nil, fmt.Errorf("%w: %#x", ErrUnknown, uint32(id))
	}
	return x, nil
}

func wrongState(what string, x *conn) error {
	return fmt.Errorf("%w: %s of %#x in %v", ErrState, what, uint32(x.id), x.state)
}

// copyData copies private data or other data with a maximum length.
func copyData(to, from []byte) error {
	if len(from) > len(to) {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrPrivateData, len(from), len(to))
	}
	copy(to, from)
	return nil
}
