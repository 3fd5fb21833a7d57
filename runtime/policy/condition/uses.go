package condition

import (
	"net/http"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/kimbap-run/kimbap/runtime"
)

// uses are the facts that an expression looks at which only a body can tell.
type uses struct {
	body    bool            // request.body
	allArgs bool            // args as a whole, or by a name that is computed
	args    map[string]bool // args by name

	inBody, inArgs, inQuery, inHeaders, inMethod names // what is named below them

	request map[string]bool // its fields, by name
}

// arg reports whether an argument is looked at.
func (u *uses) arg(name string) bool { return u.allArgs || u.args[name] }

// NeedsBody reports whether the condition looks at what the unread body of the
// question's request may hold.
func (c *Condition) NeedsBody(q *runtime.Question) bool {
	if !q.Request.Unread() {
		return false
	}
	if c.uses.body {
		return true
	}
	for i := range q.Action.Params {
		p := &q.Action.Params[i]
		if q.Request.Hides(p) && c.uses.arg(p.Name) {
			return true
		}
	}
	return false
}

// usesOf finds what an expression looks at. What it cannot tell it takes for a
// use.
func usesOf(checked *cel.Ast) *uses {
	u := &uses{args: map[string]bool{}, request: map[string]bool{}}
	below := follower{been: map[step]bool{}, types: checked.NativeRep()}
	root := ast.NavigateAST(checked.NativeRep())
	for _, node := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		name := node.AsIdent()
		if name != "args" && name != "request" {
			continue
		}
		field, known := "", false
		parent, ok := node.Parent()
		if ok {
			field, known = fieldOf(parent, node)
		}
		switch {
		case name == "request":
			u.body = u.body || !known || field == "body"
			u.request[field] = true
			if named := u.below(field); named != nil && known {
				below.follow(parent, named, whole)
			}
			continue
		case known:
			u.args[field] = true
		default:
			u.allArgs = true
		}
		below.follow(node, &u.inArgs, whole)
	}
	return u
}

// below is where what is named below a field of the request is kept; nil for one of which
// nothing is.
func (u *uses) below(field string) *names {
	switch field {
	case "body":
		return &u.inBody
	case "query":
		return &u.inQuery
	case "headers":
		return &u.inHeaders
	case "method":
		return &u.inMethod
	}
	return nil
}

// Opaque are the fields of a request that the condition looks at and that a tunnel to a host
// without a service does not show.
func (c *Condition) Opaque() (fields []string) {
	for _, field := range [...]string{"path", "query", "headers", "body"} {
		if c.uses.request[field] {
			fields = append(fields, "request."+field)
		}
	}
	if c.uses.request["method"] && !c.uses.inMethod.has(http.MethodConnect) {
		fields = append(fields, "request.method")
	}
	return fields
}

// fieldOf returns the field that parent takes from of, when it is written out:
// x.f, has(x.f), x["f"], x.?f and x[?"f"].
func fieldOf(parent, of ast.NavigableExpr) (string, bool) {
	switch parent.Kind() {
	case ast.SelectKind:
		return parent.AsSelect().FieldName(), true
	case ast.CallKind:
		call := parent.AsCall()
		args := call.Args()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		default:
			return "", false
		}
		if len(args) != 2 || args[0].ID() != of.ID() || args[1].Kind() != ast.LiteralKind {
			return "", false
		}
		name, ok := args[1].AsLiteral().Value().(string)
		return name, ok
	}
	return "", false
}
