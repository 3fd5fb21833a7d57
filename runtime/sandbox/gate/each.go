package gate

import (
	"github.com/dop251/goja/ast"
	operators "github.com/dop251/goja/token"
)

// Each is the global function through which the running code takes what it iterates
// over: goja has no guard there against an iterator without a next, and would end the
// script for it. The engine must have it. No script can: it is no name.
const Each = "%each"

// iterates notes an expression that is iterated over.
func (w *walk) iterates(e *ast.Expression) {
	if !isNil(*e) {
		w.out.iterated = append(w.out.iterated, e)
	}
}

// taken notes the source of a list of bindings, as let [a, b] = source.
func (w *walk) taken(list []*ast.Binding) {
	for _, b := range list {
		if _, ok := b.Target.(*ast.ArrayPattern); ok {
			w.iterates(&b.Initializer)
		}
	}
}

// assigned notes the source of a statement like [a, b] = source. One that is part of
// an expression stays as it is, since its value is the source itself.
func (w *walk) assigned(e ast.Expression) {
	a, ok := e.(*ast.AssignExpression)
	if !ok || a.Operator != operators.ASSIGN {
		return
	}
	if _, ok := a.Left.(*ast.ArrayPattern); ok {
		w.iterates(&a.Right)
	}
}

// guard puts that call around an expression. It changes the tree, so no place moves.
func guard(e *ast.Expression) {
	at := (*e).Idx0()
	*e = &ast.CallExpression{
		Callee: &ast.Identifier{Name: Each, Idx: at}, LeftParenthesis: at, RightParenthesis: at, ArgumentList: []ast.Expression{*e},
	}
}
