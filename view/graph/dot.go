package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/weftlab/weft/emu/plan"
)

// WriteDOT writes a plan as an undirected graph for Graphviz. The program dot puts
// hosts below their switches; the other layouts of Graphviz work too.
func WriteDOT(w io.Writer, p *plan.Plan) error {
	r := newRows(p)
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "graph %s {\n", quoteDOT(p.Name))
	fmt.Fprintf(b, "\tnode [fontname=Helvetica];\n")
	fmt.Fprintf(b, "\tedge [fontname=Helvetica, fontsize=9, labelfontsize=8];\n")
	fmt.Fprintf(b, "\tranksep=1; nodesep=0.5;\n")
	for _, row := range r.order {
		fmt.Fprintf(b, "\t{\n\t\trank=same;\n")
		for _, n := range row {
			name, label, shape := p.Nodes[n].Name, p.Nodes[n].Name, "box"
			if r.isHost(n) {
				shape = "ellipse"
			}
			if a := addressOf(p.Nodes[n]); a != "" {
				label += "\n" + a
			}
			fmt.Fprintf(b, "\t\t%s [shape=%s, label=%s];\n", quoteDOT(name), shape, quoteDOT(label))
		}
		fmt.Fprintf(b, "\t}\n")
	}
	for _, l := range p.Links {
		r.writeEdge(b, l)
	}
	fmt.Fprintf(b, "}\n")
	return b.Flush()
}

// writeEdge writes a link from its higher to its lower end, because dot ranks the
// nodes of an edge that way.
func (r *rows) writeEdge(w io.Writer, l plan.Link) {
	first := r.higherEnd(l)
	tail, head := l.Ends[first], l.Ends[1-first]
	one, other := r.Nodes[tail.Node], r.Nodes[head.Node]
	text := describeDirections(l, first, one.Name+" → "+other.Name+": ", other.Name+" → "+one.Name+": ", "\n")
	style := ""
	if isDown(l) {
		style = ", style=dashed"
	}
	fmt.Fprintf(w, "\t%s -- %s [label=%s, taillabel=%s, headlabel=%s%s];\n", quoteDOT(one.Name), quoteDOT(other.Name),
		quoteDOT(text), quoteDOT(one.Ports[tail.Port].Name), quoteDOT(other.Ports[head.Port].Name), style)
}

// isDown reports whether a direction of a link is down.
func isDown(l plan.Link) bool { return !l.Dir[0].Up || !l.Dir[1].Up }

// quoting escapes what has a meaning in a label: quotes, the escapes that begin
// with a backslash, and HTML's entities.
var quoting = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "&", "&amp;", "\n", `\n`, "\x00", "")

func quoteDOT(s string) string { return `"` + quoting.Replace(s) + `"` }
