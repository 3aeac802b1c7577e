package roce

import "errors"

// Errors of packets. Decoders return these values unwrapped, without an allocation.
var (
	ErrNotRoCE   = errors.New("roce: not an unfragmented IP packet of UDP port 4791 without IP options")
	ErrShort     = errors.New("roce: ends inside a header")
	ErrTruncated = errors.New("roce: shorter than its UDP header says")
	ErrVersion   = errors.New("roce: the version of the transport header is not 0")
	ErrOpcode    = errors.New("roce: the opcode is not one of RC, UC, UD, XRC or a CNP")
	ErrLength    = errors.New("roce: the UDP length does not fit the opcode and the pad count")
	ErrICRC      = errors.New("roce: the invariant CRC is wrong")
)
