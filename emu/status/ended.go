package status

import "errors"

// ErrEnded means that the lab is ending or has ended, so that nothing can be read.
var ErrEnded = errors.New("the lab has ended")
