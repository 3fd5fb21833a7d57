package condition

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// follower goes the way of a value through an expression.
type follower struct {
	been  map[step]bool
	types *ast.AST // knows the types of what is compared
}

type step struct {
	id    int64
	at    *names
	whole bool
}

// follow notes what the expressions around a node, whose value at stands for, name of
// it. What they make of it is taken for the value itself; whole says that it is, and no
// part of it, as an element, or what a function makes of it, as its size.
func (f *follower) follow(node ast.NavigableExpr, at *names, whole bool) {
	parent, ok := node.Parent()
	here := step{node.ID(), at, whole}
	if !ok || f.been[here] {
		return
	}
	f.been[here] = true
	if parent.Kind() == ast.ComprehensionKind {
		f.bind(parent, node, at, whole)
		return
	}
	if parent.Kind() == ast.CallKind {
		call := parent.AsCall()
		args := call.Args()
		switch call.FunctionName() {
		case operators.Equals, operators.NotEquals, operators.In:
			for _, arg := range args { // a name, where the value is an object or a key of one
				literals(arg, func(name string) { at.member(name) })
				if whole {
					literals(arg, func(text string) { at.texts = append(at.texts, text) })
				}
			}
			at.compared = at.compared || whole && f.single(call, node)
			return
		case operators.Index, operators.OptIndex:
			at.computed = at.computed || args[0].ID() == node.ID() && args[1].Kind() != ast.LiteralKind
		case operators.Conditional:
			if args[0].ID() == node.ID() {
				return
			}
		}
	}
	if field, known := fieldOf(parent, node); known {
		f.follow(parent, at.member(field), !isPresence(parent))
		return
	}
	f.follow(parent, at, whole && keeps(parent))
}

// single reports whether a comparison is with one value, and none that may be a list.
func (f *follower) single(call ast.CallExpr, node ast.NavigableExpr) bool {
	args := call.Args()
	if call.FunctionName() == operators.In {
		return args[0].ID() == node.ID()
	}
	other := args[0]
	if other.ID() == node.ID() {
		other = args[1]
	}
	switch f.types.GetType(other.ID()).Kind() {
	case types.StringKind, types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind:
		return true
	}
	return false
}

// isPresence reports whether an expression is has(x.f), which has not the value of f.
func isPresence(e ast.NavigableExpr) bool {
	return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly()
}

// keeps reports whether the value of an expression is that of a part of it.
func keeps(e ast.NavigableExpr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	switch e.AsCall().FunctionName() {
	case operators.Conditional, "orValue", "or", "value", "optional.of", "optional.ofNonZeroValue", "dyn":
		return true
	}
	return false
}

// bind goes on where a macro gives the value a name.
func (f *follower) bind(parent, node ast.NavigableExpr, at *names, whole bool) {
	loop := parent.AsComprehension()
	var bound []string
	switch node.ID() {
	case loop.IterRange().ID():
		bound, whole = []string{loop.IterVar(), loop.IterVar2()}, false
	case loop.AccuInit().ID():
		bound = []string{loop.AccuVar()}
	default:
		f.follow(parent, at, whole && node.ID() == loop.Result().ID())
		return
	}
	for _, ident := range ast.MatchDescendants(parent, ast.KindMatcher(ast.IdentKind)) {
		if name := ident.AsIdent(); name == bound[0] || len(bound) > 1 && name != "" && name == bound[1] {
			f.follow(ident, at, whole)
		}
	}
}

// literals gives the text that stands in an expression, or those of a list.
func literals(e ast.Expr, give func(text string)) {
	switch e.Kind() {
	case ast.LiteralKind:
		if text, ok := e.AsLiteral().Value().(string); ok {
			give(text)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			literals(element, give)
		}
	}
}
