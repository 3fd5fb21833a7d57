package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/kimbap-run/kimbap/runtime"
)

// wordsOf are the facts that are one of a few words.
var wordsOf = map[string][]string{
	"action.risk":     {string(runtime.RiskLow), string(runtime.RiskMedium), string(runtime.RiskHigh), string(runtime.RiskCritical), string(runtime.RiskUnmatched)},
	"principal.kind":  {string(runtime.KindAgent), string(runtime.KindOperator)},
	"request.surface": {string(runtime.SurfaceProxy), string(runtime.SurfaceCall), string(runtime.SurfaceExec), string(runtime.SurfaceREST), string(runtime.SurfaceMCP)},
}

// neverInFacts finds comparisons with a word that the fact never is: a rule that denies where
// `action.risk == "High"` would hold for nothing. It finds those of which comes first too, since
// words are in the order of their letters: "critical" comes before "medium".
func neverInFacts(checked *cel.Ast) (problems []Problem) {
	native := checked.NativeRep()
	for _, node := range ast.MatchDescendants(ast.NavigateAST(native), ast.KindMatcher(ast.IdentKind)) {
		fact, ok := node.Parent()
		if !ok {
			continue
		}
		name, known := fieldOf(fact, node)
		around, ok := fact.Parent()
		if !ok || !known || around.Kind() != ast.CallKind {
			continue
		}
		p, at := neverIs(node.AsIdent()+"."+name, around.AsCall(), fact.ID())
		if p.Msg == "" {
			continue
		}
		if span, found := native.SourceInfo().GetOffsetRange(at); found {
			p.Offset = int(span.Start)
		}
		problems = append(problems, p)
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Offset, b.Offset) })
	return problems
}

// neverIs is what is wrong with a comparison of a fact, and where it stands; none where nothing is.
func neverIs(fact string, call ast.CallExpr, id int64) (Problem, int64) {
	words := wordsOf[fact]
	for _, other := range call.Args() {
		if other.ID() == id {
			continue
		}
		for _, literal := range writtenOut(other) {
			text, isText := literal.AsLiteral().Value().(string)
			switch function := call.FunctionName(); {
			case !isText || words == nil && fact != "request.method":
			case slices.Contains([]string{operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals}, function):
				if words != nil {
					return Problem{Msg: fmt.Sprintf("%s is a word, and words are in the order of their letters", fact), Fix: fact + ` in ["` + exampleOf(words) + `"]`}, literal.ID()
				}
			case !slices.Contains([]string{operators.Equals, operators.NotEquals, operators.In}, function):
			case words == nil && text != strings.ToUpper(text) && strings.Trim(strings.ToUpper(text), "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "":
				return Problem{Msg: fmt.Sprintf("request.method is never %q: names of methods are in capitals", text), Fix: fmt.Sprintf("write %q", strings.ToUpper(text))}, literal.ID()
			case words != nil && !slices.Contains(words, text):
				return Problem{Msg: fmt.Sprintf("%s is never %q", fact, text), Unknown: text, Known: words}, literal.ID()
			}
		}
	}
	return Problem{}, 0
}

// exampleOf are the last but one of some words, and that before it: of risks, the high ones.
func exampleOf(words []string) string {
	end := max(1, len(words)-1)
	return strings.Join(words[max(0, end-2):end], `", "`)
}

// writtenOut are an expression that is written out, or those of a list.
func writtenOut(e ast.Expr) (out []ast.Expr) {
	switch e.Kind() {
	case ast.LiteralKind:
		return []ast.Expr{e}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			if element.Kind() == ast.LiteralKind {
				out = append(out, element)
			}
		}
	}
	return out
}
