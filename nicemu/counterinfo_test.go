package nicemu

import (
	"slices"
	"strings"
	"testing"
)

// TestCounterInfos: each counter is described, once, in the order of EachCounter.
func TestCounterInfos(t *testing.T) {
	w := newWorld(t, 1)
	var given, described []string
	w.ports[0].device.EachCounter(func(name string, _ uint64) { given = append(given, name) })
	for _, c := range CounterInfos() {
		described = append(described, c.Name)
		if c.Meaning == "" || strings.HasSuffix(c.Meaning, ".") || c.Origin.String() == "" {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(given, described) {
		t.Errorf("given\n%q, described\n%q", given, described)
	}
	slices.Sort(given)
	if len(slices.Compact(given)) != len(described) {
		t.Error("a counter is there twice")
	}
}

// TestCountersOfMlx5 compares the names of hw_counters with those of the Linux driver:
// basic_q_cnts, out_of_seq_q_cnts, retrans_q_cnts, extended_err_cnts, cong_cnts and ext_ppcnt_cnts
// of drivers/infiniband/hw/mlx5/counters.c, without rx_dct_connect, since there are no dynamically
// connected transports.
func TestCountersOfMlx5(t *testing.T) {
	want := strings.Fields(`rx_write_requests rx_read_requests rx_atomic_requests out_of_buffer out_of_sequence
		duplicate_request rnr_nak_retry_err packet_seq_err implied_nak_seq_err local_ack_timeout_err
		rp_cnp_ignored rp_cnp_handled np_ecn_marked_roce_packets np_cnp_sent
		resp_local_length_error resp_cqe_error req_cqe_error req_remote_invalid_request req_remote_access_errors
		resp_remote_access_errors resp_cqe_flush_error req_cqe_flush_error req_transport_retries_exceeded req_rnr_retries_exceeded
		rx_icrc_encapsulated`)
	var got []string
	for _, c := range CounterInfos() {
		if c.Origin == HWCounter {
			got = append(got, c.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("hw_counters are\n%q, of mlx5\n%q", got, want)
	}
}
