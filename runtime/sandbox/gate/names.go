package gate

import (
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	operators "github.com/dop251/goja/token"
)

// forbidden is what to say of a free name that a script may not use, or nothing.
func forbidden(name string) string {
	switch name {
	case "require", "eval":
		return name + "() is" + notAllowed
	case "Function":
		return "The Function constructor is" + notAllowed
	case "process", "module", "exports", "__dirname", "__filename", "globalThis", "global", "window", "self",
		"GoError", "WebAssembly", "Deno", "Bun", "importScripts", "document", "SharedArrayBuffer", "Atomics",
		"escape", "unescape", "__proto__":
		return name + " is" + notAllowed
	case "fetch", "XMLHttpRequest", "WebSocket":
		return name + " is" + notAllowed + ": call a tool, and find it with tools.search"
	case "Buffer":
		return "Buffer is" + notAllowed + ": use TextEncoder, TextDecoder, btoa and atob"
	case "Intl":
		return "Intl is not available here: toLocaleString('en-US') is, and all else is to be written out"
	}
	return ""
}

// name walks a name that is read or written.
func (w *walk) name(id *ast.Identifier) {
	name := id.Name.String()
	if _, declared := w.scope.find(name); declared {
		return
	}
	w.out.globals[name] = true
	if message := forbidden(name); message != "" {
		w.refuse(id.Idx, message)
	}
}

// key refuses the names of properties that lead out of an object. Whether they are
// read, written or declared makes no difference.
func (w *walk) key(name string, at file.Idx) {
	switch name {
	case "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__":
		w.refuse(at, name+" is"+notAllowed)
	}
}

// member is the object and the key of an expression that reads a property. The key
// is "" when only running the code shows it.
func member(e ast.Expression) (object ast.Expression, key string, known, ok bool) {
	switch e := e.(type) {
	case *ast.DotExpression:
		return e.Left, e.Identifier.Name.String(), true, true
	case *ast.BracketExpression:
		key, known := constant(e.Member)
		return e.Left, key, known, true
	}
	return nil, "", false, false
}

// plainly takes the marks of optional chaining off an expression.
func plainly(e ast.Expression) ast.Expression {
	for {
		switch o := e.(type) {
		case *ast.OptionalChain:
			e = o.Expression
		case *ast.Optional:
			e = o.Expression
		default:
			return e
		}
	}
}

// constant is the value of an expression that is a text without a doubt.
func constant(e ast.Expression) (string, bool) {
	switch e := e.(type) {
	case *ast.StringLiteral:
		return e.Value.String(), true
	case *ast.TemplateLiteral:
		if e.Tag == nil && len(e.Expressions) == 0 && len(e.Elements) == 1 {
			return e.Elements[0].Parsed.String(), true
		}
	case *ast.BinaryExpression:
		if e.Operator != operators.PLUS {
			return "", false
		}
		left, ok := constant(e.Left)
		if !ok {
			return "", false
		}
		right, ok := constant(e.Right)
		return left + right, ok
	}
	return "", false
}

// chain walks an expression that reads properties.
func (w *walk) chain(e ast.Expression) {
	if path, ok := w.path(e); ok {
		w.escape(path)
	}
	w.links(e)
}

// links walks a chain of properties down to what it starts with. Of a path of tools,
// what it is used for has been noted.
func (w *walk) links(e ast.Expression) {
	e = plainly(e)
	object, key, known, ok := member(e)
	if !ok {
		switch e := e.(type) {
		case *ast.PrivateDotExpression:
			w.links(e.Left)
		case *ast.Identifier:
			w.name(e)
		default:
			w.expression(e)
		}
		return
	}
	if known {
		w.read(object, key, e)
	}
	if b, isBracket := e.(*ast.BracketExpression); isBracket {
		w.expression(b.Member)
		if _, isPath := w.path(object); isPath && !known {
			w.out.dynamic = true
		}
	}
	w.depth++
	defer func() { w.depth-- }()
	if w.depth <= maxTree {
		w.links(object)
	}
}

// read refuses the keys that lead from a function to its caller, or from anything to
// the constructor of functions.
func (w *walk) read(object ast.Expression, key string, e ast.Expression) {
	at := e.Idx1() - 1
	if d, ok := e.(*ast.DotExpression); ok {
		at = d.Identifier.Idx
	} else if b, ok := e.(*ast.BracketExpression); ok {
		at = b.Member.Idx0()
	}
	w.key(key, at)
	object = plainly(object)
	switch key {
	case "constructor":
		if _, before, _, ok := member(object); ok && before == "constructor" {
			w.refuse(at, "A chain of constructors is"+notAllowed)
		}
	case "caller", "callee", "arguments":
		if w.isFunction(object) {
			w.refuse(at, key+" of a function is"+notAllowed)
		}
	}
}

// isFunction reports whether an expression is a function, or the arguments of one,
// for all that the code shows.
func (w *walk) isFunction(e ast.Expression) bool {
	switch e := e.(type) {
	case *ast.FunctionLiteral, *ast.ArrowFunctionLiteral, *ast.ClassLiteral:
		return true
	case *ast.Identifier:
		b, ok := w.scope.find(e.Name.String())
		return ok && (b.kind == function || b.kind == arguments)
	}
	return false
}

// call walks what is called, constructed, or the tag of a template.
func (w *walk) call(callee ast.Expression) {
	target := plainly(callee)
	if object, key, known, ok := member(target); ok && known && key == "constructor" {
		if _, isThis := plainly(object).(*ast.ThisExpression); !isThis {
			w.refuse(target.Idx0(), "A call of a constructor property is"+notAllowed)
		}
	}
	path, ok := w.path(target)
	if !ok {
		w.expression(callee)
		return
	}
	w.use(path)
	w.links(target)
}
