package condition

import (
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// maxCost is what one evaluation may cost, in CEL's own units: about one for a
// comparison and for ten bytes that are looked at.
const maxCost = 50_000

// costOptions limits the cost of an evaluation. Counting costs more than what
// most conditions do, so that those whose work is bounded by their own length
// go without.
func costOptions(checked *cel.Ast) []cel.ProgramOption {
	if bounded(checked) {
		return nil
	}
	return []cel.ProgramOption{cel.CostLimit(maxCost)}
}

// bounded reports whether each node of the expression does a bounded number of
// things, or looks at one value once: no loops, no patterns, no search in lists
// that come with the request, nothing that makes longer values of short ones.
func bounded(checked *cel.Ast) bool {
	root := ast.NavigateAST(checked.NativeRep())
	if len(ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind))) > 0 {
		return false
	}
	for _, node := range ast.MatchDescendants(root, ast.KindMatcher(ast.CallKind)) {
		call := node.AsCall()
		switch name := call.FunctionName(); name {
		case operators.In:
			if args := call.Args(); len(args) != 2 || args[1].Kind() != ast.ListKind {
				return false
			}
		default:
			if !slices.Contains(plainCalls(), name) && !slices.ContainsFunc(parts(), func(p part) bool { return p.function == name }) {
				return false
			}
		}
	}
	return true
}

// plainCalls do a bounded amount of work, or look at each of their values once.
func plainCalls() []string {
	return []string{
		operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional,
		operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
		operators.Index, operators.OptIndex, operators.OptSelect,
		"startsWith", "endsWith", "contains", lowerASCII, "size", "timestamp", "duration",
		"orValue", "hasValue", "optional.none", "optional.of",
	}
}
