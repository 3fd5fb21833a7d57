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
	id   int64
	at   *names
	form form
}

// form is what an expression has of the value that a caller wrote.
type form uint8

const (
	made    form = iota // what a function makes of it, as its size
	element             // one of its elements, or a part of such
	whole               // the value itself
)

// follow notes what the expressions around a node, whose value at stands for, name of
// it. What they make of it is taken for the value itself; as says what it is.
func (f *follower) follow(node ast.NavigableExpr, at *names, as form) {
	parent, ok := node.Parent()
	here := step{node.ID(), at, as}
	if !ok || f.been[here] {
		return
	}
	f.been[here] = true
	if parent.Kind() == ast.ComprehensionKind {
		f.bind(parent, node, at, as)
		return
	}
	if parent.Kind() == ast.CallKind {
		call := parent.AsCall()
		args := call.Args()
		switch call.FunctionName() {
		case operators.Equals, operators.NotEquals, operators.In:
			for _, arg := range args { // a name, where the value is an object or a key of one
				literals(arg, node, func(literal any) {
					if name, isText := literal.(string); isText {
						at.member(name)
					}
					if as != made {
						at.compare(literal)
					}
				})
			}
			at.compared = at.compared || as == whole && f.single(call, node)
			return
		case operators.Index, operators.OptIndex:
			at.computed = at.computed || args[0].ID() == node.ID() && args[1].Kind() != ast.LiteralKind
			if args[1].ID() == node.ID() && as != made { // {"admin": true}[args.role] looks for the keys
				literals(args[0], node, at.compare)
			}
		case operators.Conditional:
			if args[0].ID() == node.ID() {
				return
			}
		}
	}
	if field, known := fieldOf(parent, node); known {
		as = whole
		if isPresence(parent) {
			as = made
		}
		f.follow(parent, at.member(field), as)
		return
	}
	at.folded = at.folded || isCall(parent, lowerASCII)
	switch {
	case keeps(parent):
	case isIndex(parent, node):
		as = min(as, element)
	default:
		as = made
	}
	f.follow(parent, at, as)
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
	case operators.Conditional, "orValue", "or", "value", "optional.of", "optional.ofNonZeroValue", "dyn", lowerASCII:
		return true
	}
	return false
}

// isCall reports whether an expression calls a function.
func isCall(e ast.Expr, function string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == function
}

// isIndex reports whether an expression takes an element of what node is.
func isIndex(e, node ast.NavigableExpr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	switch call := e.AsCall(); call.FunctionName() {
	case operators.Index, operators.OptIndex:
		return call.Args()[0].ID() == node.ID()
	}
	return false
}

// bind goes on where a macro gives the value a name.
func (f *follower) bind(parent, node ast.NavigableExpr, at *names, as form) {
	loop := parent.AsComprehension()
	var bound []string
	switch node.ID() {
	case loop.IterRange().ID():
		bound, as = []string{loop.IterVar(), loop.IterVar2()}, min(as, element)
	case loop.AccuInit().ID():
		bound = []string{loop.AccuVar()}
	default:
		if node.ID() != loop.Result().ID() {
			as = made
		}
		f.follow(parent, at, as)
		return
	}
	for _, ident := range ast.MatchDescendants(parent, ast.KindMatcher(ast.IdentKind)) {
		if name := ident.AsIdent(); name == bound[0] || len(bound) > 1 && name != "" && name == bound[1] {
			f.follow(ident, at, as)
		}
	}
}

// literals gives the literals that an expression may be: itself, the elements of a list, the keys of
// a map, the branches of a choice, and those that a name stands for in the loops around beside.
func literals(e ast.Expr, beside ast.NavigableExpr, give func(literal any)) {
	switch e.Kind() {
	case ast.LiteralKind:
		give(e.AsLiteral().Value())
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			literals(element, beside, give)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			literals(entry.AsMapEntry().Key(), beside, give)
		}
	case ast.CallKind:
		switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
		case operators.Conditional:
			literals(args[1], beside, give)
			literals(args[2], beside, give)
		case operators.Add: // of lists; a text that is put together is none of its parts
			for _, arg := range args {
				if arg.Kind() == ast.ListKind {
					literals(arg, beside, give)
				}
			}
		}
	case ast.IdentKind:
		if loop, around := loopOf(e.AsIdent(), beside); loop != nil {
			literals(loop.IterRange(), around, give)
		}
	case ast.ComprehensionKind: // a list that is made of another one
		literals(e.AsComprehension().IterRange(), beside, give)
	}
}

// loopOf is the innermost loop around an expression that runs over something by that name.
func loopOf(name string, of ast.NavigableExpr) (ast.ComprehensionExpr, ast.NavigableExpr) {
	for around, ok := of.Parent(); ok; around, ok = around.Parent() {
		if around.Kind() != ast.ComprehensionKind {
			continue
		}
		if loop := around.AsComprehension(); loop.IterVar() == name || loop.IterVar2() == name {
			return loop, around
		}
	}
	return nil, nil
}
