package experiment

import (
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

// namesIn returns the names that a program uses, in the order of its text.
func namesIn(p *vm.Program, names []string) []string {
	v := &nameVisitor{among: names}
	node := p.Node()
	ast.Walk(&node, v)
	return v.found
}

type nameVisitor struct{ among, found []string }

// Visit implements ast.Visitor.
func (v *nameVisitor) Visit(n *ast.Node) {
	if id, ok := (*n).(*ast.IdentifierNode); ok && slices.Contains(v.among, id.Value) && !slices.Contains(v.found, id.Value) {
		v.found = append(v.found, id.Value)
	}
}
