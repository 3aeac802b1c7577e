package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// maxFlows is how many flows a text report shows, and of how many senders it shows what their own
// queues held up.
const maxFlows = 20

// writeFlows shows the flows of packets, and what did not leave their senders.
func (r *Report) writeFlows(w io.Writer) {
	if len(r.Flows) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "flow\tfrom\tto\toffered\tgoodput\tnot arrived\t%smarked\tdelay p50\tp99\n", r.trimColumn("trimmed"))
	for _, f := range r.Flows[:min(len(r.Flows), maxFlows)] {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s%d\t%s\t%s\n", f.Flow, f.From, f.To,
			Rate(float64(f.Offered)), Rate(float64(f.Goodput)), units.FormatPercent(f.LossShare, 3), r.trimColumn(f.Trimmed), f.Marked, micros(f.DelayP50), micros(f.DelayP99))
	}
	t.Flush()
	if n := len(r.Flows) - maxFlows; n > 0 {
		fmt.Fprintf(w, "and %d more flows\n", n)
	}
	r.writeUnsent(w)
}

// writeUnsent shows where packets are that have not left their senders: flows that offer more than
// the link of their host carries fill its queue first.
func (r *Report) writeUnsent(w io.Writer) {
	senders := map[string]bool{}
	for i := range r.Flows {
		if f := &r.Flows[i]; f.Lost > 0 {
			senders[f.From] = true
		}
	}
	n := 0
	for i := range r.Ports {
		p := &r.Ports[i]
		host, _, _ := strings.Cut(p.Name, ":")
		full := p.Drops[packet.QueueFull.String()]
		if !senders[host] || full == 0 && p.QueuePackets == 0 {
			continue
		}
		if n++; n > maxFlows {
			continue
		}
		fmt.Fprintf(w, "sender   %s: its own queue dropped %d packets and holds %d that are not sent yet\n", p.Name, full, p.QueuePackets)
	}
	if n > maxFlows {
		fmt.Fprintf(w, "and %d more senders\n", n-maxFlows)
	}
}
