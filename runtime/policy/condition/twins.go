package condition

import (
	"net/url"
	"strings"
	"unicode"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/kimbap-run/kimbap/runtime"
)

// names are the members that an expression names of a value that a caller writes,
// with those that it names below each. A list has those of its elements.
type names struct {
	members  map[string]*names
	spelled  map[string]bool // the same members, in one spelling
	longest  int             // bytes of one of these
	computed bool            // some members are named by what is computed
}

func (n *names) member(name string) *names {
	if n.members == nil {
		n.members, n.spelled = map[string]*names{}, map[string]bool{}
	}
	below := n.members[name]
	if below == nil {
		below = &names{}
		n.members[name] = below
		key := spelling(strings.TrimSuffix(name, "[]"))
		n.spelled[key], n.spelled[spelling(name)] = true, true
		n.longest = max(n.longest, len(spelling(name)))
	}
	return below
}

// spelling is the same for all names that some server takes for one: those that
// differ in case, and in a form for PHP in blanks, dots and underscores.
func spelling(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == ' ' {
			return '_'
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, strings.TrimSpace(name))
}

// twin reports whether a value has a member that is, in another spelling, one that
// the expression names: encoding/json of Go reads Amount as amount.
func (n *names) twin(value any) bool {
	if n.members == nil && !n.computed {
		return false
	}
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if n.twin(element) {
				return true
			}
		}
	case map[string]any:
		for name, inner := range value {
			below, named := n.members[name]
			if named && below.twin(inner) || !named && n.alike(name) || n.computed && n.twin(inner) {
				return true
			}
		}
	}
	return false
}

// twinKey reports whether the query of a target has a key that is, in another spelling, one
// that the expression names: Rails reads "[sudo]" as sudo.
func (n *names) twinKey(target string) bool {
	_, raw, asked := strings.Cut(target, "?")
	if !asked || n.members == nil {
		return false
	}
	keys, _ := url.ParseQuery(raw) // what it cannot read is refused when the condition looks
	for name := range keys {
		if _, named := n.members[name]; !named && n.alike(name) {
			return true
		}
	}
	return false
}

// alike reports whether a name, or what stands in it before a bracket or NUL, where
// readers of forms end, is another spelling of one that is named.
func (n *names) alike(name string) bool {
	if bare := strings.TrimLeftFunc(name, leading); len(bare) < len(name) && n.alike(bare) {
		return true
	}
	for i := range len(name) {
		if name[i] != '[' && name[i] != ']' && name[i] != 0 {
			continue
		}
		before := strings.TrimSpace(name[:i])
		if len(before) > 4*n.longest { // a letter has four bytes at most
			break
		}
		if n.spelled[spelling(before)] {
			return true
		}
	}
	key := spelling(name)
	return n.spelled[key] || n.spelled[strings.ReplaceAll(key, "[", "_")] // to PHP one that is not closed
}

// leading reports whether some reader of forms passes over the letter at the beginning of a
// name: Rack and Express read "[name]" as name.
func leading(r rune) bool {
	switch r {
	case '[', ']', '?', '.', '\ufeff':
		return true
	}
	return unicode.IsSpace(r)
}

// twin is the name of what the condition looks into and cannot tell apart from
// another spelling of it; empty: nothing.
func (c *Condition) twin(q *runtime.Question) string {
	if q.Request.Raw != nil && c.uses.inBody.twin(q.Request.Document) {
		return "request.body"
	}
	if q.Request.Raw != nil && c.uses.inQuery.twinKey(q.Request.Target.Path) {
		return "request.query"
	}
	if c.uses.inArgs.members == nil && !c.uses.inArgs.computed {
		return ""
	}
	for name, value := range q.Args {
		if below := c.uses.inArgs.members[name]; below != nil && below.twin(value) || c.uses.inArgs.computed && c.uses.inArgs.twin(value) {
			return "args." + name
		}
	}
	return ""
}

// follower goes the way of a value through an expression.
type follower struct{ been map[step]bool }

type step struct {
	id int64
	at *names
}

// follow notes what the expressions around a node, whose value at stands for, name of
// it. What they make of it is taken for the value itself.
func (f *follower) follow(node ast.NavigableExpr, at *names) {
	parent, ok := node.Parent()
	if !ok || f.been[step{node.ID(), at}] {
		return
	}
	f.been[step{node.ID(), at}] = true
	switch parent.Kind() {
	case ast.ComprehensionKind:
		f.bind(parent, node, at)
		return
	case ast.CallKind:
		call := parent.AsCall()
		args := call.Args()
		switch call.FunctionName() {
		case operators.Equals, operators.NotEquals, operators.In:
			for _, arg := range args { // a name, where the value is an object or a key of one
				literals(arg, at)
			}
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
		at = at.member(field)
	}
	f.follow(parent, at)
}

// bind goes on where a macro gives the value a name.
func (f *follower) bind(parent, node ast.NavigableExpr, at *names) {
	loop := parent.AsComprehension()
	var bound []string
	switch node.ID() {
	case loop.IterRange().ID():
		bound = []string{loop.IterVar(), loop.IterVar2()}
	case loop.AccuInit().ID():
		bound = []string{loop.AccuVar()}
	default:
		f.follow(parent, at)
		return
	}
	for _, ident := range ast.MatchDescendants(parent, ast.KindMatcher(ast.IdentKind)) {
		if name := ident.AsIdent(); name == bound[0] || len(bound) > 1 && name != "" && name == bound[1] {
			f.follow(ident, at)
		}
	}
}

// literals names the members that a text, or a list of such, may be the names of.
func literals(e ast.Expr, at *names) {
	switch e.Kind() {
	case ast.LiteralKind:
		if name, ok := e.AsLiteral().Value().(string); ok {
			at.member(name)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			literals(element, at)
		}
	}
}
