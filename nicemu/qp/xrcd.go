package qp

import (
	"fmt"
	"syscall"
)

// MaxSRQNumber is the highest number of a shared receive queue of an XRC domain: it has 24 bits.
const MaxSRQNumber = 1<<24 - 1

// XRCD is an XRC domain (annex A14; ibv_open_xrcd(3)): the requests to its XRC_RECV queue pairs reach
// its shared receive queues. The zero value is ready for use.
type XRCD struct {
	users  int // queue pairs and shared receive queues
	closed bool
}

// Users returns the number of its queue pairs and shared receive queues.
func (x *XRCD) Users() int { return x.users }

// CheckOpen returns EINVAL if the domain is closed.
func (x *XRCD) CheckOpen() error {
	if x.closed {
		return fmt.Errorf("%w: the XRC domain is closed", syscall.EINVAL)
	}
	return nil
}

// Close closes the domain (ibv_close_xrcd). EBUSY: it has queue pairs or shared receive queues;
// EINVAL: it is closed already.
func (x *XRCD) Close() error {
	if err := x.CheckOpen(); err != nil {
		return err
	}
	if x.users > 0 {
		return fmt.Errorf("%w: the XRC domain has %d queue pairs and shared receive queues: destroy them first", syscall.EBUSY, x.users)
	}
	x.closed = true
	return nil
}
