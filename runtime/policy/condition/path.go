package condition

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// pathOf is request.path. On the host of a service the classifier has refused what could be
// another path, or told what else it could be; on others nobody has.
func pathOf(q *runtime.Question) (any, error) {
	path, _, _ := strings.Cut(q.Request.Target.Path, "?")
	if q.Action.Ref.Foreign() && !readAlike(path) {
		return nil, &unknowable{"request.path can be read in two ways"}
	}
	return types.String(inOneSpelling(path)), nil
}

// readAlike reports whether a path is the same to all servers: one without steps, empty
// segments, parameters and what is encoded twice.
func readAlike(path string) bool {
	if path == "*" { // of the server as a whole
		return true
	}
	decoded, err := url.PathUnescape(path)
	if err != nil || classifier.CheckTarget(path) != nil || strings.ContainsAny(decoded, `;?#\`) || strings.Contains(decoded, "//") {
		return false
	}
	for at := strings.IndexByte(decoded, '%'); at >= 0; at = strings.IndexByte(decoded, '%') {
		decoded = decoded[at+1:]
		if len(decoded) >= 2 && isHex(decoded[0]) && isHex(decoded[1]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// inOneSpelling is a path without the escapes of characters that may stand in a segment as
// they are, and the others in capitals (RFC 3986 section 6.2.2): to every server "/%61dmin"
// is "/admin" and "%2f" is "%2F", and a rule is to find it so. A ";" stays, since it is read
// in two ways.
func inOneSpelling(path string) string {
	next := strings.IndexByte(path, '%')
	if next < 0 {
		return path
	}
	var out strings.Builder
	for ; next >= 0; next = strings.IndexByte(path, '%') {
		out.WriteString(path[:next])
		path = path[next:]
		digits := path[1:min(len(path), 3)]
		c, err := strconv.ParseUint(digits, 16, 8)
		switch {
		case err != nil || len(digits) < 2:
			out.WriteByte('%')
			path = path[1:]
			continue
		case isPlain(byte(c)):
			out.WriteByte(byte(c))
		default:
			out.WriteString("%" + strings.ToUpper(digits))
		}
		path = path[3:]
	}
	return out.String() + path
}

// isPlain reports whether a character needs no escape in a segment (RFC 3986 section 3.3).
func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+,=:@", c) >= 0
}

// neverInPaths finds the texts that an expression compares with the path and that none has:
// a rule that denies "%2f" would hold for nothing. One that looks for "%2F" as well does.
func neverInPaths(checked *cel.Ast) (problems []Problem) {
	native := checked.NativeRep()
	root := ast.NavigateAST(native)
	texts := textsIn(root)
	for _, node := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		path, ok := node.Parent()
		if !ok || node.AsIdent() != "request" {
			continue
		}
		if field, known := fieldOf(path, node); !known || field != "path" {
			continue
		}
		compared := path
		for around, ok := path.Parent(); ok && isComparison(around); around, ok = around.Parent() {
			compared = around
		}
		for id, text := range textsIn(compared) {
			as := inOneSpelling(text)
			if as == text || strings.Contains(text, "(?") || meant(texts, text, as) { // "(?i)" reads any
				continue
			}
			at, _ := native.SourceInfo().GetOffsetRange(id)
			problems = append(problems, Problem{
				Offset: int(at.Start), Msg: fmt.Sprintf("request.path never has %q: it has the escapes that a path needs, in capitals", text), Fix: fmt.Sprintf("write %q", as),
			})
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Offset, b.Offset) })
	return problems
}

// textsIn are the texts that an expression has, by where they stand.
func textsIn(e ast.NavigableExpr) map[int64]string {
	texts := map[int64]string{}
	for _, literal := range ast.MatchDescendants(e, ast.KindMatcher(ast.LiteralKind)) {
		if text, ok := literal.AsLiteral().Value().(string); ok {
			texts[literal.ID()] = text
		}
	}
	return texts
}

var anEscape = regexp.MustCompile("%[0-9A-Fa-f]{2}")

// meant reports whether an expression has a text in the spelling of paths beside, or in, that
// text: "(%2f|%2F)".
func meant(texts map[int64]string, text, as string) bool {
	for _, other := range texts {
		if strings.Contains(other, as) {
			return true
		}
	}
	for _, escape := range anEscape.FindAllString(text, -1) {
		if needed := inOneSpelling(escape); len(needed) == 1 || !strings.Contains(text, needed) {
			return false
		}
	}
	return true
}

// isComparison reports whether an expression is part of one that compares, and not one that
// joins such.
func isComparison(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return e.Kind() == ast.ListKind
	}
	switch e.AsCall().FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional:
		return false
	}
	return true
}
