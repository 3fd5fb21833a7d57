package gate

import (
	"slices"

	"github.com/dop251/goja/ast"
	operators "github.com/dop251/goja/token"
)

// compare gives comparisons in a row their order: goja reads 1 < 2 < 3 as 1 < (2 < 3). It
// changes the tree before the walk goes on into it, and no place moves.
func (w *walk) compare(e *ast.BinaryExpression) {
	for compares(e.Operator) {
		right, ok := e.Right.(*ast.BinaryExpression)
		if !ok || !compares(right.Operator) {
			return
		}
		b := w.brackets()
		if b == nil {
			w.refuse(e.Idx0(), "A comparison of a comparison cannot be read here")
			return
		}
		if b.around(e.Left, right.Left) != b.around(right.Left, right.Right) {
			return // the one on the right has brackets of its own
		}
		e.Left = &ast.BinaryExpression{Operator: e.Operator, Left: e.Left, Right: right.Left, Comparison: e.Comparison}
		e.Operator, e.Right, e.Comparison = right.Operator, right.Right, right.Comparison
	}
}

// compares reports whether an operator is a relational one (ECMA-262, 13.10).
func compares(o operators.Token) bool {
	switch o {
	case operators.LESS, operators.LESS_OR_EQUAL, operators.GREATER, operators.GREATER_OR_EQUAL, operators.INSTANCEOF, operators.IN:
		return true
	}
	return false
}

// brackets are the tokens of a text, with the brackets that they are inside of.
type brackets struct {
	tokens []token
	outer  []int
}

// bracketsOf finds those of a text that was parsed; nil if a slash in it has two meanings.
func bracketsOf(text string) *brackets {
	s := &scanner{user: user{source: text, end: len(text)}, code: text, parsed: true}
	if s.all(); len(s.found) > 0 {
		return nil
	}
	return &brackets{tokens: s.tokens, outer: outerOf(s.tokens)}
}

// outerOf is, for each token, the index of the bracket that it is inside of, or -1.
func outerOf(tokens []token) []int {
	outer, inside := make([]int, len(tokens)), -1
	for i := range tokens {
		if inside >= 0 && tokens[inside].match == i {
			inside = outer[inside]
		}
		outer[i] = inside
		if tokens[i].match > i {
			inside = i
		}
	}
	return outer
}

// around is the innermost bracket that two expressions are both inside of.
func (b *brackets) around(one, other ast.Expression) int {
	i, k := b.inside(one), b.inside(other)
	for i != k {
		if i > k { // what opens later is not around what opens sooner
			i = b.outer[i]
		} else {
			k = b.outer[k]
		}
	}
	return i
}

// inside is the innermost bracket that an expression starts in, or one that is part of it.
func (b *brackets) inside(e ast.Expression) int {
	i, found := slices.BinarySearchFunc(b.tokens, offset(e.Idx0()), func(t token, at int) int { return t.start - at })
	if !found {
		i = max(0, i-1)
	}
	return b.outer[i]
}
