package experiment

import (
	"errors"
	"fmt"
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

// checkLists checks that a program calls bins only with one of the names, as a constant.
func checkLists(p *vm.Program, names []string) error {
	v := &listVisitor{among: names}
	node := p.Node()
	ast.Walk(&node, v)
	return v.err
}

type listVisitor struct {
	among []string
	err   error
}

// Visit implements ast.Visitor.
func (v *listVisitor) Visit(n *ast.Node) {
	call, ok := (*n).(*ast.CallNode)
	if !ok {
		return
	}
	if f, ok := call.Callee.(*ast.IdentifierNode); !ok || f.Value != "bins" || len(call.Arguments) != 1 {
		return
	}
	name, ok := call.Arguments[0].(*ast.StringNode)
	switch {
	case !ok:
		v.err = errors.New("bins needs the name of a measure in quotes")
	case !slices.Contains(v.among, name.Value):
		v.err = fmt.Errorf("bins(%q): there is no such measure above it", name.Value)
	}
}
