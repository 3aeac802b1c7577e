package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/weftlab/weft/emu/plan"
)

// DOT writes a plan as an undirected graph for Graphviz. The program dot puts
// hosts below their switches; the other layouts of Graphviz work too.
func DOT(w io.Writer, p *plan.Plan) error {
	r := newRows(p)
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "graph %s {\n", quote(p.Name))
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
			if a := address(p.Nodes[n]); a != "" {
				label += "\n" + a
			}
			fmt.Fprintf(b, "\t\t%s [shape=%s, label=%s];\n", quote(name), shape, quote(label))
		}
		fmt.Fprintf(b, "\t}\n")
	}
	for _, l := range p.Links {
		r.edge(b, l)
	}
	fmt.Fprintf(b, "}\n")
	return b.Flush()
}

// edge writes a link from its higher to its lower end, because dot ranks the
// nodes of an edge that way.
func (r *rows) edge(w io.Writer, l plan.Link) {
	first := r.first(l)
	tail, head := l.Ends[first], l.Ends[1-first]
	one, other := r.Nodes[tail.Node], r.Nodes[head.Node]
	text := describe(l, first, one.Name+" → "+other.Name+": ", other.Name+" → "+one.Name+": ", "\n")
	style := ""
	if down(l) {
		style = ", style=dashed"
	}
	fmt.Fprintf(w, "\t%s -- %s [label=%s, taillabel=%s, headlabel=%s%s];\n", quote(one.Name), quote(other.Name),
		quote(text), quote(one.Ports[tail.Port].Name), quote(other.Ports[head.Port].Name), style)
}

// down reports whether a direction of a link is down.
func down(l plan.Link) bool { return !l.Dir[0].Up || !l.Dir[1].Up }

// quoting escapes what has a meaning in a label: quotes, the escapes that begin
// with a backslash, and HTML's entities.
var quoting = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "&", "&amp;", "\n", `\n`, "\x00", "")

func quote(s string) string { return `"` + quoting.Replace(s) + `"` }
