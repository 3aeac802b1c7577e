package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/traffic/pattern"
)

// isPerPair reports whether the flows of a pair of hosts share a connection.
func (e *patternEntry) isPerPair() bool {
	return e.file.Connections != nil && *e.file.Connections == labfile.PerPair
}

// checkConnections checks that the flows of a pattern can share connections, if they do: they are
// carried by RDMA, and no host needs more queue pairs for those of all patterns than half of its
// NIC's, at either end.
func (e *patternEntry) checkConnections(p pattern.Pattern) {
	switch {
	case !e.isPerPair():
		return
	case !e.rdma:
		e.ReportFault(e.file.Connections, "leave it out, or write by: rdma", "per-pair is for flows by rdma: the others open a connection for each flow, or have none")
		return
	}
	seen := map[[2]int]bool{}
	for from, to := range pattern.Pairs(p) {
		if pair := [2]int{from, to}; !seen[pair] {
			seen[pair] = true
			e.addConnection(from, 0)
			e.addConnection(to, 1)
		}
	}
}

// addConnection counts a shared connection of a host, of which it is the sender or the receiver,
// and fails if its NIC has no room for it.
func (e *patternEntry) addConnection(host, role int) {
	n := &e.plan.Nodes[host]
	if n.NIC == nil {
		return // reported elsewhere
	}
	count := e.shared[host]
	count[role]++
	e.shared[host] = count
	if maxConnections := max(1, n.NIC.Limits.QP/2); count[role] > maxConnections {
		e.FailOnce(e.file.Connections, "raise max_qp, or write connections: per-flow",
			"%s needs more than %d connections %s, half of the %d queue pairs of its NIC", n.Name, maxConnections, []string{"for flows that it sends", "for flows that it receives"}[role], n.NIC.Limits.QP)
	}
}
