package routing

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
)

func everyNode(int) bool { return true }

// lab is the topology of a lab in which links are cut.
type lab struct {
	*Topology
	links *LinkStates
}

func newLab(t testing.TB, text string) *lab {
	t.Helper()
	p := fabrictest.Parse(t, text)
	return &lab{NewTopology(p), NewLinkStates(p)}
}

// cut takes down the link at a port, in both directions, and makes tables follow.
func (l *lab) cut(t testing.TB, port string) {
	t.Helper()
	node, index, err := l.plan.Endpoint(port)
	if err != nil {
		t.Fatal(err)
	}
	for d := range 2 {
		l.links.RecordState(0, l.plan.Nodes[node].Ports[index].Link, d, false)
	}
	if !l.links.Adopt(l.links.Due()) {
		t.Fatalf("the link at %s was down already", port)
	}
}

// table returns the table of a switch, without links that are cut.
func (l *lab) table(t testing.TB, sw string) Table {
	t.Helper()
	n, _ := l.plan.Node(sw)
	tables := l.Tables(func(node int) bool { return node == n }, l.links.Usable)
	if len(tables) != 1 || tables[0].Node != n {
		t.Fatalf("not the table of %s", sw)
	}
	return tables[0]
}

// toHost returns the ports of a switch that lead to a host, by name.
func (l *lab) toHost(t testing.TB, sw, host string) string {
	t.Helper()
	n, _ := l.plan.Node(sw)
	h, ok := l.plan.Node(host)
	if !ok {
		t.Fatalf("no host %s", host)
	}
	table := l.table(t, sw).Forwarding
	var names []string
	for _, p := range table.Groups[table.Route[l.ends[h][0]]] {
		names = append(names, l.plan.Nodes[n].Ports[p].Name)
	}
	return strings.Join(names, " ")
}

// toAddress returns a router's next hops to a known address, by the ports in its group
// and, behind >, the port of the next router.
func (l *lab) toAddress(t testing.TB, router, address string) string {
	t.Helper()
	n, _ := l.plan.Node(router)
	number := l.Number(netip.MustParseAddr(address))
	if number == 0 {
		t.Fatalf("nobody has %s", address)
	}
	table := l.table(t, router)
	route := table.Routing.Table.Routes[table.Routing.Table.Known[number]]
	var hops []string
	for i, p := range table.Forwarding.Groups[route.Group] {
		hop := l.plan.Nodes[n].Ports[p].Name
		if !route.Direct {
			e := l.Endpoints[route.Via[i].Endpoint]
			hop += ">" + l.plan.PortName(e.Node, e.Port)
		}
		hops = append(hops, hop)
	}
	return strings.Join(hops, " ")
}

// listed returns a router's routes as weft ps shows them.
func (l *lab) listed(t testing.TB, router string) map[string]string {
	t.Helper()
	n, _ := l.plan.Node(router)
	all := map[string]string{}
	for _, r := range l.Routes(n, l.table(t, router)) {
		text := ""
		for i, p := range r.Ports {
			text += " " + l.plan.Nodes[n].Ports[p].Name
			if r.Weights != nil {
				text += fmt.Sprintf("*%d", r.Weights[i])
			}
		}
		if r.Static {
			text += " static"
		}
		all[r.To.String()] = strings.TrimPrefix(text, " ")
	}
	return all
}
