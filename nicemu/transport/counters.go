package transport

// Counters counts what befell a queue pair. Names and meanings are NVIDIA's (the
// files in /sys/class/infiniband/*/ports/*/hw_counters).
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
	ReqCQEFlushError            uint64 // req_cqe_flush_error: those that were flushed

	// Of the responder.
	OutOfSequence          uint64 // out_of_sequence: packets behind a gap
	DuplicateRequest       uint64 // duplicate_request
	OutOfBuffer            uint64 // out_of_buffer: no receive request was there
	RespLocalLengthError   uint64 // resp_local_length_error
	RespRemoteAccessErrors uint64 // resp_remote_access_errors
	RespCQEError           uint64 // resp_cqe_error
	RespCQEFlushError      uint64 // resp_cqe_flush_error
	RxWriteRequests        uint64 // rx_write_requests
	RxReadRequests         uint64 // rx_read_requests
	RxAtomicRequests       uint64 // rx_atomic_requests

	QKeyViolations uint64 // qp's part of the port's qkey_viol_cntr (§9.6.1)
}

// Each calls f with the name and value of each counter.
func (c *Counters) Each(f func(name string, n uint64)) {
	f("packet_seq_err", c.PacketSeqErr)
	f("implied_nak_seq_err", c.ImpliedNakSeqErr)
	f("rnr_nak_retry_err", c.RNRNakRetryErr)
	f("local_ack_timeout_err", c.LocalAckTimeoutErr)
	f("req_transport_retries_exceeded", c.ReqTransportRetriesExceeded)
	f("req_rnr_retries_exceeded", c.ReqRNRRetriesExceeded)
	f("req_remote_invalid_request", c.ReqRemoteInvalidRequest)
	f("req_remote_access_errors", c.ReqRemoteAccessErrors)
	f("req_cqe_error", c.ReqCQEError)
	f("req_cqe_flush_error", c.ReqCQEFlushError)
	f("out_of_sequence", c.OutOfSequence)
	f("duplicate_request", c.DuplicateRequest)
	f("out_of_buffer", c.OutOfBuffer)
	f("resp_local_length_error", c.RespLocalLengthError)
	f("resp_remote_access_errors", c.RespRemoteAccessErrors)
	f("resp_cqe_error", c.RespCQEError)
	f("resp_cqe_flush_error", c.RespCQEFlushError)
	f("rx_write_requests", c.RxWriteRequests)
	f("rx_read_requests", c.RxReadRequests)
	f("rx_atomic_requests", c.RxAtomicRequests)
	f("qkey_viol_cntr", c.QKeyViolations)
}
