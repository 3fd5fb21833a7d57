package condition

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// headersOf joins the lines of a field as RFC 9110 section 5.3 does. Fields that
// differ in case, or have "_" for "-", are one to some servers: each such name has
// the lines of all.
func headersOf(q *runtime.Question) (any, error) {
	header := q.Request.Raw.Header
	lines := make(map[string][]string, len(header))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		key := fieldKey(name)
		lines[key] = append(lines[key], header[name]...)
	}
	fields := make(map[string]string, len(lines))
	for key, values := range lines {
		fields[key] = strings.Join(values, ", ")
	}
	for name := range header {
		fields[strings.ToLower(name)] = fields[fieldKey(name)]
	}
	return types.NewStringStringMap(adapter{}, fields), nil
}

// split is a field of which one part, and not the whole, is what the expression compares: it
// comes on several lines, which the expression sees as one and of which many servers read the
// first or the last, or it is a list of which they read the elements. Empty: none is.
func (n *names) split(header http.Header) string {
	for name, below := range n.members {
		var lines []string
		for field, values := range header {
			if fieldKey(field) == fieldKey(name) {
				lines = append(lines, values...)
			}
		}
		if len(lines) > 1 && slices.ContainsFunc(lines, below.has) || below.passedOver(strings.Join(lines, ", ")) {
			return fieldKey(name)
		}
	}
	return ""
}

// passedOver reports whether an element of a field is what is compared, and the whole is not.
// In a field that is no list, such as a date, no part between commas is a value that a rule
// compares.
func (l *operands) passedOver(field string) bool {
	if len(l.texts) == 0 || !strings.Contains(field, ",") || l.has(field) {
		return false
	}
	for element := range classifier.Elements(field) {
		if l.has(element) {
			return true
		}
	}
	return false
}

// inHead reports whether an argument is a field of the head.
func inHead(a *runtime.Action, name string) bool {
	return slices.ContainsFunc(a.Params, func(p runtime.Param) bool { return p.Name == name && p.In == runtime.InHeader })
}

// fieldKey is the one name of a field however it is spelled.
func fieldKey(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// neverInHeaders finds the names of fields that an expression looks for and that no request has,
// as a condition sees them: a rule that denies "X-Sudo" would hold for nothing. One that looks for
// "x-sudo" as well does.
func neverInHeaders(checked *cel.Ast) (problems []Problem) {
	native := checked.NativeRep()
	keys := map[int64]string{} // by where they stand
	for _, node := range ast.MatchDescendants(ast.NavigateAST(native), ast.KindMatcher(ast.IdentKind)) {
		headers, ok := node.Parent()
		if !ok || node.AsIdent() != "request" {
			continue
		}
		around, ok := headers.Parent()
		if field, known := fieldOf(headers, node); !ok || !known || field != "headers" {
			continue
		}
		if key, at, known := keyOf(around, headers); known {
			keys[at] = key
		}
	}
	for at, key := range keys {
		lower := strings.ToLower(key)
		if isSeenField(key) || slices.Contains(slices.Collect(maps.Values(keys)), lower) && isSeenField(lower) {
			continue
		}
		p := Problem{Msg: fmt.Sprintf("request.headers never has %q: names of fields are in lower case there", key), Fix: fmt.Sprintf("write %q", lower)}
		if !isSeenField(lower) {
			p.Msg, p.Fix = fmt.Sprintf("request.headers never has %q: no field can have that name", key), `write the name of a field alone, as "x-request-id"`
		}
		if span, found := native.SourceInfo().GetOffsetRange(at); found {
			p.Offset = int(span.Start)
		}
		problems = append(problems, p)
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Offset, b.Offset) })
	return problems
}

// keyOf is the key that an expression looks for in a map, where it is written out, and where it
// stands: as [fieldOf] has it, or "k" in x.
func keyOf(around, of ast.NavigableExpr) (key string, at int64, known bool) {
	at = around.ID()
	if around.Kind() != ast.CallKind {
		key, known = fieldOf(around, of)
		return key, at, known
	}
	args := around.AsCall().Args()
	if around.AsCall().FunctionName() != operators.In {
		if key, known = fieldOf(around, of); known {
			at = args[1].ID()
		}
		return key, at, known
	}
	if args[1].ID() != of.ID() || args[0].Kind() != ast.LiteralKind {
		return "", at, false
	}
	key, known = args[0].AsLiteral().Value().(string)
	return key, args[0].ID(), known
}

// isSeenField reports whether a text can be the name of a field (RFC 9110 section 5.1) as a
// condition sees it.
func isSeenField(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == ""
}
