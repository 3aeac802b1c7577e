package report

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// ordinary lists the NIC counters that increase in any run with traffic.
var ordinary = []string{
	"port_xmit_packets", "port_xmit_data", "port_rcv_packets", "port_rcv_data",
	"unicast_xmit_packets", "unicast_rcv_packets", "multicast_xmit_packets", "multicast_rcv_packets",
	"rx_write_requests", "rx_read_requests", "rx_atomic_requests", "received_payload",
}

// maxAt is the maximum number of NICs shown for a counter.
const maxAt = 3

// writeNICs shows the NICs' counters that indicate more than plain traffic, and at
// which NICs.
func (r *Report) writeNICs(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	shown := false
	for i, info := range nicemu.CounterInfos() {
		if slices.Contains(ordinary, info.Name) {
			continue
		}
		total, at := counterAt(r.NICs, i)
		if total == 0 {
			continue
		}
		if !shown {
			fmt.Fprintln(t, "NIC counter\ttotal\tat")
		}
		shown = true
		fmt.Fprintf(t, "%s\t%d\t%s\n", info.Name, total, at)
	}
	t.Flush()
}

// counterAt sums up the i-th counter and names the NICs with the highest values.
func counterAt(nics []status.NIC, i int) (total uint64, at string) {
	var list []*status.NIC
	for k := range nics {
		if n := &nics[k]; i < len(n.Counters) && n.Counters[i] > 0 {
			total += n.Counters[i]
			list = append(list, n)
		}
	}
	sort.SliceStable(list, func(a, b int) bool { return list[a].Counters[i] > list[b].Counters[i] })
	var names []string
	for _, n := range list[:min(len(list), maxAt)] {
		names = append(names, fmt.Sprintf("%s %d", n.Name, n.Counters[i]))
	}
	at = strings.Join(names, ", ")
	if more := len(list) - maxAt; more > 0 {
		at += fmt.Sprintf(" and %d more", more)
	}
	return total, at
}

// WriteNICs prints a line for each NIC.
func WriteNICs(w io.Writer, nics []status.NIC) {
	if len(nics) == 0 {
		fmt.Fprintln(w, "no host has a NIC: write nic: roce for it in the lab file")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "nic\taddress\tmtu\tline\tcc\tQPs\tslowed\tsent\treceived\tCE\tCNPs\tretransmitted")
	for i := range nics {
		n := &nics[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", n.Name, firstGID(n), n.MTU, n.LineRate, n.Control, n.States.Total(), n.Limited,
			n.Counters.Of("port_xmit_packets"), n.Counters.Of("port_rcv_packets"), n.Counters.Of("np_ecn_marked_roce_packets"),
			n.Counters.Of("rp_cnp_handled"), n.Counters.Of("retransmitted_packets"))
	}
	t.Flush()
}

func firstGID(n *status.NIC) string {
	for _, g := range n.GIDs {
		if g.IsValid() {
			return g.String()
		}
	}
	return "-"
}

// WriteNIC prints the details of a NIC, with the counters that are not 0, or with all counters.
func WriteNIC(w io.Writer, n *status.NIC, all bool) {
	control := n.Control
	if n.Preset != "" {
		control += ", preset " + n.Preset
	}
	acks := ""
	if n.AckDSCP != nil {
		acks = fmt.Sprintf(", of ACKs %d", *n.AckDSCP)
	}
	fmt.Fprintf(w, "%s  %s, line %s, path MTU up to %d, DSCP %d%s\n", n.Name, n.MAC, n.LineRate, n.MTU, n.DSCP, acks)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  rate control\t%s\n", control)
	if l := n.Layer; l != nil {
		fmt.Fprintf(t, "  layer\t%s\n", l.Name)
		for _, w := range l.Work {
			if w.Count > 0 || all {
				fmt.Fprintf(t, "    %s\t%d\n", w.Name, w.Count)
			}
		}
	}
	fmt.Fprintf(t, "  loss recovery\t%s\n", n.Recovery)
	if d := n.Delays; d != nil {
		fmt.Fprintf(t, "  delays\tdoorbell %v, DMA %v, completion %v\n", d.Doorbell, d.DMA, d.Completion)
	}
	for i, g := range n.GIDs {
		if g.IsValid() {
			fmt.Fprintf(t, "  GID %d\t%s\n", i, g)
		}
	}
	fmt.Fprintf(t, "  queue pairs\t%s\n", pairStates(n))
	if len(n.Listeners) > 0 {
		fmt.Fprintf(t, "  listens\t%s\n", listenersOf(n))
	}
	fmt.Fprintf(t, "  in use\t%d CQs, %d SRQs, %d AHs, %d PDs, %d MRs, %d MWs\n", n.CQs, n.SRQs, n.AHs, n.PDs, n.MRs, n.MWs)
	for i, v := range n.Counters {
		if v > 0 || all {
			fmt.Fprintf(t, "  %s\t%d\n", nicemu.CounterInfos()[i].Name, v)
		}
	}
	t.Flush()
}

// listenersOf lists a NIC's listeners, such as "TCP *:7174".
func listenersOf(n *status.NIC) string {
	var list []string
	for _, l := range n.Listeners {
		at := fmt.Sprintf("*:%d", l.Port)
		if l.Address.IsValid() {
			at = netip.AddrPortFrom(l.Address, l.Port).String()
		}
		list = append(list, l.PortSpace+" "+at)
	}
	return strings.Join(list, ", ")
}

// pairStates counts a NIC's queue pairs by state.
func pairStates(n *status.NIC) string {
	text := fmt.Sprint(n.States.Total())
	var by []string
	for i, k := range n.States {
		if k > 0 {
			by = append(by, fmt.Sprintf("%d %v", k, qp.State(i)))
		}
	}
	if len(by) > 0 {
		text += ": " + strings.Join(by, ", ")
	}
	if n.Limited > 0 {
		text += fmt.Sprintf("; %d slowed down", n.Limited)
	}
	return text
}

// WriteQPs prints a line for each queue pair, at most limit of them; 0 means no
// limit. Empty columns are left out.
func WriteQPs(w io.Writer, pairs []status.QP, limit int) {
	if len(pairs) == 0 {
		fmt.Fprintln(w, "there are no queue pairs")
		return
	}
	type column struct {
		name string
		cell func(q *status.QP) string
		may  bool // be left out
	}
	number := func(f func(q *status.QP) uint64) func(*status.QP) string {
		return func(q *status.QP) string { return fmt.Sprint(f(q)) }
	}
	columns := []column{
		{"nic", func(q *status.QP) string { return q.NIC }, false},
		{"qpn", number(func(q *status.QP) uint64 { return uint64(q.QPN) }), false},
		{"type", func(q *status.QP) string { return q.Type }, false},
		{"state", func(q *status.QP) string { return q.State }, false},
		{"peer", peerOf, false},
		{"rqpn", connected(func(q *status.QP) string { return fmt.Sprint(q.RemoteQPN) }), false},
		{"sq-psn", number(func(q *status.QP) uint64 { return uint64(q.SQPSN) }), false},
		{"rq-psn", connected(func(q *status.QP) string { return fmt.Sprint(q.RQPSN) }), false},
		{"sends", number(func(q *status.QP) uint64 { return uint64(q.Sends) }), false},
		{"in flight", inFlight, true},
		{"receives", number(func(q *status.QP) uint64 { return uint64(q.Receives) }), true},
		{"rate", rateOf, false},
	}
	for _, name := range gaugeColumns(len(pairs), func(i int) []gauge.Value { return pairs[i].Gauges }) {
		columns = append(columns, column{strings.ReplaceAll(name, "_", "-"), func(q *status.QP) string { return gaugeOf(q.Gauges, name) }, true})
	}
	columns = append(columns, []column{
		{"CNPs", number(func(q *status.QP) uint64 { return q.CNPsHandled }), true},
		{"retransmitted", number(func(q *status.QP) uint64 { return q.Counters["retransmitted_packets"] }), true},
	}...)
	columns = slices.DeleteFunc(columns, func(c column) bool {
		return c.may && !slices.ContainsFunc(pairs, func(q status.QP) bool { s := c.cell(&q); return s != "0" && s != "-" })
	})
	shown := pairs
	if limit > 0 {
		shown = pairs[:min(len(pairs), limit)]
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cell func(c *column) string) {
		cells := make([]string, len(columns))
		for i := range columns {
			cells[i] = cell(&columns[i])
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	line(func(c *column) string { return c.name })
	for i := range shown {
		line(func(c *column) string { return c.cell(&shown[i]) })
	}
	t.Flush()
	if more := len(pairs) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more queue pairs\n", more)
	}
}

// connected returns a cell that only a queue pair with a peer has.
func connected(cell func(*status.QP) string) func(*status.QP) string {
	return func(q *status.QP) string {
		if !q.Remote.IsValid() {
			return "-"
		}
		return cell(q)
	}
}

// peerOf names the interface that a queue pair sends to, or its address if no
// interface in the lab has that address.
func peerOf(q *status.QP) string {
	switch {
	case q.Peer != "":
		return q.Peer
	case q.Remote.IsValid():
		return q.Remote.String()
	}
	return "-"
}

func inFlight(q *status.QP) string {
	if q.InFlight == 0 {
		return "0"
	}
	return size(float64(q.InFlight))
}

func rateOf(q *status.QP) string {
	if q.Rate == 0 {
		return "unlimited"
	}
	return Rate(float64(q.Rate))
}

// gaugeColumns returns the names of the gauges of rate controls that are shown in
// tables, in their order.
func gaugeColumns(n int, gauges func(i int) []gauge.Value) (names []string) {
	for i := range n {
		for _, g := range gauges(i) {
			if g.Brief && !slices.Contains(names, g.Name) {
				names = append(names, g.Name)
			}
		}
	}
	return names
}

// gaugeOf formats the gauge of a name, "-" if there is none.
func gaugeOf(gauges []gauge.Value, name string) string {
	for _, g := range gauges {
		if g.Name == name {
			return gaugeText(g)
		}
	}
	return "-"
}

func gaugeText(g gauge.Value) string {
	switch g.Unit {
	case gauge.Bytes:
		return size(g.Value)
	case gauge.BitsPerSecond:
		return Rate(g.Value)
	case gauge.Seconds:
		return micros(g.Value * 1e6)
	case gauge.Share:
		return units.FormatPercent(g.Value, 3)
	case gauge.YesNo:
		if g.Value == 0 {
			return "no"
		}
		return "yes"
	}
	return units.FormatDigits(g.Value, 4)
}

// WriteQP prints the details of a queue pair.
func WriteQP(w io.Writer, q *status.QP) {
	fmt.Fprintf(w, "%s queue pair %s, %s, %s\n", q.NIC, qpn(q.QPN), q.Type, q.State)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "  "+name+"\t"+format+"\n", args...) }
	if q.Remote.IsValid() {
		line("peer", "%s queue pair %s", peerOf(q), qpn(q.RemoteQPN))
		line("path", "%s", pathOf(q))
	}
	line("send queue", "%s", sendQueue(q))
	line("receive queue", "%s", receiveQueue(q))
	if q.Retries.Limit > 0 || q.RNRRetries.Limit > 0 || q.Timeout > 0 {
		line("timers", "%s", timersOf(q))
	}
	if b := q.Bitmaps; b != nil {
		line("loss recovery", "%d bitmaps of %d bits, %s; %d packets out of order are kept", b.Count, b.Bits, size(float64(b.Bytes)), b.Kept)
	}
	line("rate", "%s", rateLine(q))
	if len(q.Gauges) > 0 {
		line(q.Control, "%s", gaugesText(q.Gauges))
	}
	due := ""
	if q.CNPDue {
		due = ", one waits to be sent"
	}
	line("CNPs", "%d handled, %d sent%s", q.CNPsHandled, q.CNPsSent, due)
	line("sent", "%d packets, %s", q.TxPackets, size(float64(q.TxBytes)))
	line("received", "%d packets, %s, %d of them with CE", q.RxPackets, size(float64(q.RxBytes)), q.Marked)
	for _, info := range nicemu.CounterInfos() {
		if v := q.Counters[info.Name]; v > 0 {
			line(info.Name, "%d", v)
		}
	}
	t.Flush()
}

// qpn formats a queue pair's number as programs and as Wireshark print it.
func qpn(n uint32) string { return fmt.Sprintf("%d (0x%06x)", n, n) }

func pathOf(q *status.QP) string {
	text := fmt.Sprintf("%s to %s, path MTU %d, DSCP %d", q.Local, netip.AddrPortFrom(q.Remote, roce.Port), q.PathMTU, q.DSCP)
	if q.Class != "" {
		text += " (class " + q.Class + ")"
	}
	return text + fmt.Sprintf(", UDP source port %d", q.UDPSourcePort)
}

func sendQueue(q *status.QP) string {
	text := fmt.Sprintf("%d work requests, next PSN %d", q.Sends, q.SQPSN)
	if open := (q.SQPSN - q.Unacknowledged) & roce.PSNMask; open > 0 {
		text += fmt.Sprintf(", %d PSNs not acknowledged from %d on, %s in flight", open, q.Unacknowledged, inFlight(q))
	}
	if q.Fetches > 0 {
		text += fmt.Sprintf(", %d READs and atomics under way", q.Fetches)
	}
	return text
}

func receiveQueue(q *status.QP) string {
	text := fmt.Sprintf("%d receives", q.Receives)
	if q.Remote.IsValid() {
		text += fmt.Sprintf(", expected PSN %d", q.RQPSN)
	}
	if q.Replies > 0 {
		text += fmt.Sprintf(", %d READs and atomics to respond to", q.Replies)
	}
	return text
}

func timersOf(q *status.QP) string {
	text := "local ACK timeout "
	switch {
	case q.Timeout == 0:
		text += "none"
	case q.AckTimer > 0:
		text += fmt.Sprintf("in %s of %s", Span(q.AckTimer), Span(q.Timeout))
	default:
		text += fmt.Sprintf("%s, not running", Span(q.Timeout))
	}
	text += fmt.Sprintf(", %d of %d retries left", q.Retries.Left, q.Retries.Limit)
	if q.RNRTimer > 0 {
		text += fmt.Sprintf("; the peer was not ready, resuming in %s", Span(q.RNRTimer))
	}
	if q.RNRRetries.Limit == unlimitedRNR {
		return text + ", RNR retries without limit"
	}
	return text + fmt.Sprintf(", %d of %d RNR retries left", q.RNRRetries.Left, q.RNRRetries.Limit)
}

// unlimitedRNR is the RNR retry count that means no limit (IBTA §9.7.5.2.8).
const unlimitedRNR = 7

func rateLine(q *status.QP) string {
	text := rateOf(q)
	if q.LineRate > 0 && q.Rate < q.LineRate {
		text += " of " + Rate(float64(q.LineRate))
	}
	if q.Window > 0 {
		text += ", window " + size(float64(q.Window))
	}
	return text
}
