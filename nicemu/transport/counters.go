package transport

// Counters counts events of a queue pair. Names and meanings are NVIDIA's (the files in
// /sys/class/infiniband/*/ports/*/hw_counters).
type Counters struct {
	// Of the requester.
	PacketSeqErr                uint64 // packet_seq_err: NAKs for a PSN sequence error
	ImpliedNakSeqErr            uint64 // implied_nak_seq_err: a response behind one of a READ or atomic that is missing
	RNRNakRetryErr              uint64 // rnr_nak_retry_err: RNR NAKs
	LocalAckTimeoutErr          uint64 // local_ack_timeout_err: expiries of the ACK timer
	ReqTransportRetriesExceeded uint64 // req_transport_retries_exceeded
	ReqRNRRetriesExceeded       uint64 // req_rnr_retries_exceeded
	ReqRemoteInvalidRequest     uint64 // req_remote_invalid_request: NAKs
	ReqRemoteAccessErrors       uint64 // req_remote_access_errors: NAKs
	ReqCQEError                 uint64 // req_cqe_error: completions with an error
	ReqCQEFlushError            uint64 // req_cqe_flush_error: flushed ones among them

	// Of the responder.
	OutOfSequence          uint64 // out_of_sequence: packets after a gap
	DuplicateRequest       uint64 // duplicate_request
	OutOfBuffer            uint64 // out_of_buffer: no receive request available
	RespLocalLengthError   uint64 // resp_local_length_error
	RespRemoteAccessErrors uint64 // resp_remote_access_errors
	RespCQEError           uint64 // resp_cqe_error: completions with an error
	RespCQEFlushError      uint64 // resp_cqe_flush_error: flushed ones among them
	RxWriteRequests        uint64 // rx_write_requests
	RxReadRequests         uint64 // rx_read_requests
	RxAtomicRequests       uint64 // rx_atomic_requests

	QKeyViolations uint64 // qp's part of the port's qkey_viol_cntr (§9.6.1)

	// NVIDIA has no names for these.
	RecoveryMismatch uint64 // packets of a peer with another loss recovery
	Retransmitted    uint64 // packets of requests and of READ responses sent again
	PayloadReceived  uint64 // bytes received in order and placed
}

// AddCounters adds another queue pair's counters.
func (c *Counters) AddCounters(o Counters) {
	to, from := c.allFields(), o.allFields()
	for i := range to {
		*to[i].n += *from[i].n
	}
}

// counter is one of the counters and its name.
type counter struct {
	name string
	n    *uint64
}

func (c *Counters) allFields() [24]counter {
	return [...]counter{
		{"packet_seq_err", &c.PacketSeqErr},
		{"implied_nak_seq_err", &c.ImpliedNakSeqErr},
		{"rnr_nak_retry_err", &c.RNRNakRetryErr},
		{"local_ack_timeout_err", &c.LocalAckTimeoutErr},
		{"req_transport_retries_exceeded", &c.ReqTransportRetriesExceeded},
		{"req_rnr_retries_exceeded", &c.ReqRNRRetriesExceeded},
		{"req_remote_invalid_request", &c.ReqRemoteInvalidRequest},
		{"req_remote_access_errors", &c.ReqRemoteAccessErrors},
		{"req_cqe_error", &c.ReqCQEError},
		{"req_cqe_flush_error", &c.ReqCQEFlushError},
		{"out_of_sequence", &c.OutOfSequence},
		{"duplicate_request", &c.DuplicateRequest},
		{"out_of_buffer", &c.OutOfBuffer},
		{"resp_local_length_error", &c.RespLocalLengthError},
		{"resp_remote_access_errors", &c.RespRemoteAccessErrors},
		{"resp_cqe_error", &c.RespCQEError},
		{"resp_cqe_flush_error", &c.RespCQEFlushError},
		{"rx_write_requests", &c.RxWriteRequests},
		{"rx_read_requests", &c.RxReadRequests},
		{"rx_atomic_requests", &c.RxAtomicRequests},
		{"recovery_mismatch", &c.RecoveryMismatch},
		{"qkey_viol_cntr", &c.QKeyViolations},
		{"retransmitted_packets", &c.Retransmitted},
		{"received_payload", &c.PayloadReceived},
	}
}

// EachCounter calls f with the name and value of each counter.
func (c *Counters) EachCounter(f func(name string, n uint64)) {
	for _, x := range c.allFields() {
		f(x.name, *x.n)
	}
}
