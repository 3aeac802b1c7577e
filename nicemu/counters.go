package nicemu

import "github.com/weftlab/weft/nicemu/transport"

// Counters are a NIC's, besides those of its queue pairs. Names in comments are
// those of the files in /sys/class/infiniband/DEV/ports/1/{counters,hw_counters}
// where NVIDIA's driver has them.
type Counters struct {
	XmitPackets, XmitBytes uint64 // port_xmit_packets, port_xmit_data; bytes of frames, RoCE only
	RcvPackets, RcvBytes   uint64 // port_rcv_packets, port_rcv_data
	RcvErrors              uint64 // port_rcv_errors: not RoCEv2
	RxICRCErrors           uint64 // rx_icrc_encapsulated
	RxTrimmed              uint64 // packets cut down by a switch, which are dropped
	NPECNMarked            uint64 // np_ecn_marked_roce_packets
	NPCNPSent              uint64 // np_cnp_sent
	RPCNPHandled           uint64 // rp_cnp_handled
	RPCNPIgnored           uint64 // rp_cnp_ignored: no such queue pair, or it has no rate control
	PKeyViolations         uint64 // pkey_viol_cntr
	QKeyViolations         uint64 // of queue pair 1
	NoQP                   uint64 // for no queue pair, or of another transport service
	WrongAddress           uint64 // from or to another address than the queue pair's
}

// Counters is what the NIC has counted, and what its queue pairs have, those that
// are destroyed with them.
func (d *Device) Counters() (Counters, transport.Counters) {
	all := d.retired
	for _, q := range d.numbers.slots {
		if q != nil {
			all.Add(q.engine.Counters())
		}
	}
	return d.counters, all
}

// EachCounter calls f with name and value of every counter, under NVIDIA's names
// where there are such. port_xmit_data and port_rcv_data are in words of 4 bytes,
// as theirs.
func (d *Device) EachCounter(f func(name string, n uint64)) {
	c, t := d.Counters()
	f("port_xmit_packets", c.XmitPackets)
	f("port_xmit_data", c.XmitBytes/4)
	f("port_rcv_packets", c.RcvPackets)
	f("port_rcv_data", c.RcvBytes/4)
	f("port_rcv_errors", c.RcvErrors)
	f("rx_icrc_encapsulated", c.RxICRCErrors)
	f("rx_trimmed", c.RxTrimmed)
	f("np_ecn_marked_roce_packets", c.NPECNMarked)
	f("np_cnp_sent", c.NPCNPSent)
	f("rp_cnp_handled", c.RPCNPHandled)
	f("rp_cnp_ignored", c.RPCNPIgnored)
	f("pkey_viol_cntr", c.PKeyViolations)
	f("rx_no_qp", c.NoQP)
	f("rx_wrong_address", c.WrongAddress)
	t.QKeyViolations += c.QKeyViolations
	t.Each(f)
}
