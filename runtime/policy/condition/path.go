package condition

import (
	"fmt"
	"net/url"
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
// a rule that denies "%2f" would hold for nothing.
func neverInPaths(checked *cel.Ast) (problems []Problem) {
	native := checked.NativeRep()
	for _, node := range ast.MatchDescendants(ast.NavigateAST(native), ast.KindMatcher(ast.IdentKind)) {
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
		for _, text := range ast.MatchDescendants(compared, ast.KindMatcher(ast.LiteralKind)) {
			problems = append(problems, neverInPath(native, text)...)
		}
	}
	return problems
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

func neverInPath(native *ast.AST, literal ast.Expr) []Problem {
	text, ok := literal.AsLiteral().Value().(string)
	if !ok || strings.Contains(text, "(?") { // a pattern that says how to read it
		return nil
	}
	as := inOneSpelling(text)
	if as == text {
		return nil
	}
	at, _ := native.SourceInfo().GetOffsetRange(literal.ID())
	return []Problem{{
		Offset: int(at.Start), Msg: fmt.Sprintf("request.path never has %q: it has the escapes that a path needs, in capitals", text), Fix: fmt.Sprintf("write %q", as),
	}}
}
