package nicemu

// CounterInfo describes a counter.
type CounterInfo struct {
	Name    string
	Meaning string
	Origin  Origin
}

// Origin is the source of a counter's name and meaning.
type Origin uint8

// The origins.
const (
	PortCounter   Origin = iota // /sys/class/infiniband/DEV/ports/N/counters
	HWCounter                   // .../hw_counters, as NVIDIA's mlx5 has them (drivers/infiniband/hw/mlx5/counters.c)
	PortAttribute               // ibv_query_port(3)
	OwnCounter                  // weft's own
)

// String returns it in a word or two.
func (o Origin) String() string {
	return [...]string{"counters", "hw_counters", "ibv_query_port", "weft"}[o]
}

// CounterInfos describes every counter of a NIC, in the order of EachCounter.
// port_xmit_data and port_rcv_data are in words of 4 bytes, as everywhere.
func CounterInfos() []CounterInfo { return counterInfos[:] }

var counterInfos = [...]CounterInfo{
	{"port_xmit_packets", "RoCE packets sent", PortCounter},
	{"port_xmit_data", "bytes of their frames without FCS, divided by 4", PortCounter},
	{"port_rcv_packets", "RoCE packets received, including errors", PortCounter},
	{"port_rcv_data", "bytes of their frames without FCS, divided by 4", PortCounter},
	{"unicast_xmit_packets", "of port_xmit_packets: unicast", PortCounter},
	{"unicast_rcv_packets", "of port_rcv_packets: unicast", PortCounter},
	{"multicast_xmit_packets", "of port_xmit_packets: multicast", PortCounter},
	{"multicast_rcv_packets", "of port_rcv_packets: multicast", PortCounter},
	{"port_rcv_errors", "packets to RoCE's UDP port that are not RoCEv2", PortCounter},
	{"rx_icrc_encapsulated", "packets with a wrong invariant CRC", HWCounter},
	{"rx_trimmed", "packets trimmed to their headers by a switch; dropped", OwnCounter},
	{"np_ecn_marked_roce_packets", "packets received with CE", HWCounter},
	{"np_cnp_sent", "CNPs sent in response", HWCounter},
	{"rp_cnp_handled", "CNPs received that told a rate control to slow down", HWCounter},
	{"rp_cnp_ignored", "CNPs received for a queue pair that does not exist, has no rate control or another peer", HWCounter},
	{"rp_messages_handled", "messages from switches or the far end for a rate control", OwnCounter},
	{"rp_messages_ignored", "such messages for a queue pair that does not exist or has another peer, or truncated on the way", OwnCounter},
	{"rp_unheard", "data packets without acknowledgement, sent under a rate control that needs acknowledgements: READ responses and UC", OwnCounter},
	{"bad_pkey_cntr", "packets of another partition", PortAttribute},
	{"rx_no_qp", "packets for a queue pair that does not exist or has another transport service", OwnCounter},
	{"rx_wrong_address", "packets whose addresses are not those of the queue pair, or whose destination is not the NIC's", OwnCounter},
	{"rx_wrong_state", "packets for a queue pair in RESET, INIT or ERR", OwnCounter},

	{"packet_seq_err", "NAKs for a PSN sequence error received: the peer has missed packets", HWCounter},
	{"implied_nak_seq_err", "responses received after a missing response to a READ or atomic", HWCounter},
	{"rnr_nak_retry_err", "RNR NAKs received: the peer had no receive request", HWCounter},
	{"local_ack_timeout_err", "expiries of the local ACK timer", HWCounter},
	{"req_transport_retries_exceeded", "requests that failed after the last retry: IBV_WC_RETRY_EXC_ERR", HWCounter},
	{"req_rnr_retries_exceeded", "requests that failed after the last RNR retry: IBV_WC_RNR_RETRY_EXC_ERR", HWCounter},
	{"req_remote_invalid_request", "NAKs for an invalid request received", HWCounter},
	{"req_remote_access_errors", "NAKs for a remote access error received", HWCounter},
	{"req_cqe_error", "completions of the send queue with an error, including flushed ones", HWCounter},
	{"req_cqe_flush_error", "of req_cqe_error: flushed", HWCounter},
	{"out_of_sequence", "packets received after a gap: dropped, or with IRN kept", HWCounter},
	{"duplicate_request", "requests received again", HWCounter},
	{"out_of_buffer", "packets dropped for lack of a receive request", HWCounter},
	{"resp_local_length_error", "messages received that are longer than the receive request", HWCounter},
	{"resp_remote_access_errors", "requests refused because their key does not allow them", HWCounter},
	{"resp_cqe_error", "completions of receive requests with an error, including flushed ones", HWCounter},
	{"resp_cqe_flush_error", "of resp_cqe_error: flushed", HWCounter},
	{"rx_write_requests", "RDMA WRITEs received", HWCounter},
	{"rx_read_requests", "RDMA READ requests received", HWCounter},
	{"rx_atomic_requests", "atomic requests received", HWCounter},
	{"recovery_mismatch", "packets of peers that have another loss recovery (IRN or not): the queue pair goes to ERR", OwnCounter},
	{"qkey_viol_cntr", "datagrams with another Q_Key than the queue pair's", PortAttribute},
	{"retransmitted_packets", "packets of requests and READ responses that were retransmitted", OwnCounter},
	{"received_payload", "bytes received in order and placed", OwnCounter},
}
