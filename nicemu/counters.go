package nicemu

import "github.com/weftlab/weft/nicemu/transport"

// Counters are the counters of a NIC itself, without those of its queue pairs. Comments name the
// file in /sys/class/infiniband/DEV/ports/1/{counters,hw_counters} where NVIDIA's driver has the
// same counter.
type Counters struct {
	XmitPackets, XmitBytes uint64 // port_xmit_packets, port_xmit_data; bytes of frames, RoCE only
	RcvPackets, RcvBytes   uint64 // port_rcv_packets, port_rcv_data
	XmitMcast, RcvMcast    uint64 // multicast_xmit_packets, multicast_rcv_packets; the others are unicast
	RcvErrors              uint64 // port_rcv_errors: not RoCEv2
	RxICRCErrors           uint64 // rx_icrc_encapsulated
	RxTrimmed              uint64 // packets trimmed by a switch, which are dropped
	NPECNMarked            uint64 // np_ecn_marked_roce_packets
	NPCNPSent              uint64 // np_cnp_sent
	RPCNPHandled           uint64 // rp_cnp_handled
	RPCNPIgnored           uint64 // rp_cnp_ignored: no such queue pair, or it has no rate control
	RPMessagesHandled      uint64 // messages delivered to a rate control
	RPMessagesIgnored      uint64 // no such queue pair, or they were trimmed
	RPUnheard              uint64 // data packets that rate control gets no feedback for
	PKeyViolations         uint64 // bad_pkey_cntr of ibv_query_port(3)
	QKeyViolations         uint64 // of queue pair 1, for qkey_viol_cntr likewise
	NoQP                   uint64 // for no queue pair, or of another transport service
	WrongAddress           uint64 // from or to another address than the queue pair's
	WrongState             uint64 // for a queue pair in a state that takes no packets
}

// Counters returns the counters of the NIC, and those of its queue pairs, including destroyed ones.
func (d *Device) Counters() (Counters, transport.Counters) {
	var all transport.Counters
	if d.retired != nil {
		all = *d.retired
	}
	for _, q := range d.numbers.slots {
		if q != nil {
			all.AddCounters(q.engine.Counters())
		}
	}
	return d.counters, all
}

// EachCounter calls f with name and value of every counter, in the order of
// CounterInfos.
func (d *Device) EachCounter(f func(name string, n uint64)) {
	c, t := d.Counters()
	f("port_xmit_packets", c.XmitPackets)
	f("port_xmit_data", c.XmitBytes/4)
	f("port_rcv_packets", c.RcvPackets)
	f("port_rcv_data", c.RcvBytes/4)
	f("unicast_xmit_packets", c.XmitPackets-c.XmitMcast)
	f("unicast_rcv_packets", c.RcvPackets-c.RcvMcast)
	f("multicast_xmit_packets", c.XmitMcast)
	f("multicast_rcv_packets", c.RcvMcast)
	f("port_rcv_errors", c.RcvErrors)
	f("rx_icrc_encapsulated", c.RxICRCErrors)
	f("rx_trimmed", c.RxTrimmed)
	f("np_ecn_marked_roce_packets", c.NPECNMarked)
	f("np_cnp_sent", c.NPCNPSent)
	f("rp_cnp_handled", c.RPCNPHandled)
	f("rp_cnp_ignored", c.RPCNPIgnored)
	f("rp_messages_handled", c.RPMessagesHandled)
	f("rp_messages_ignored", c.RPMessagesIgnored)
	f("rp_unheard", c.RPUnheard)
	f("bad_pkey_cntr", c.PKeyViolations)
	f("rx_no_qp", c.NoQP)
	f("rx_wrong_address", c.WrongAddress)
	f("rx_wrong_state", c.WrongState)
	t.QKeyViolations += c.QKeyViolations
	t.EachCounter(f)
}
