package gate

import (
	"strings"

	"github.com/dop251/goja/ast"
)

// path is the constant path of tools that an expression is: [] is tools itself,
// ["github", "listRepos"] is tools.github["listRepos"]. A key that only running the
// code shows makes it no path.
func (w *walk) path(e ast.Expression) ([]string, bool) {
	var keys []string
	for {
		e = plainly(e)
		object, key, known, ok := member(e)
		if !ok {
			break
		}
		if !known {
			return nil, false
		}
		keys = append(keys, key)
		e = object
	}
	id, ok := e.(*ast.Identifier)
	if !ok {
		return nil, false
	}
	name := id.Name.String()
	b, declared := w.scope.find(name)
	var path []string
	switch {
	case declared && b.kind == alias:
		path = append(path, b.path...)
	case declared || name != "tools":
		return nil, false
	}
	for i := len(keys) - 1; i >= 0; i-- {
		path = append(path, keys[i])
	}
	return path, true
}

// use notes a path that is called.
func (w *walk) use(path []string) {
	switch joined := strings.Join(path, "."); {
	case joined == "search" || joined == "describe.tool":
	case len(path) < 2:
		w.out.dynamic = true
	default:
		w.out.tools = append(w.out.tools, joined)
	}
}

// escape notes a path that goes where no one can follow it: it may be called there, or
// be made longer.
func (w *walk) escape(path []string) {
	w.out.dynamic = true
	if len(path) >= 2 {
		w.use(path)
	}
}

// bindings walks declarations. A constant that holds a path of tools is another name for
// it; what it is used for counts, not that it was named.
func (w *walk) bindings(list []*ast.Binding, constants bool) {
	w.taken(list)
	for _, b := range list {
		path, ok := w.path(b.Initializer)
		if constants && ok && w.alias(b.Target, path) {
			w.links(b.Initializer)
			continue
		}
		w.expression(b.Target)
		w.expression(b.Initializer)
	}
}

// alias gives the names of a pattern the paths they hold. It is false, and gives none,
// where the pattern has more than names and constant keys.
func (w *walk) alias(target ast.Expression, path []string) bool {
	names := map[string][]string{}
	if !w.spell(target, path, names) {
		return false
	}
	for name, path := range names {
		w.scope.names[name] = binding{kind: alias, path: path}
	}
	return true
}

func (w *walk) spell(target ast.Expression, path []string, names map[string][]string) bool {
	switch t := target.(type) {
	case *ast.Identifier:
		names[t.Name.String()] = path
		return true
	case *ast.ObjectPattern:
		if !isNil(t.Rest) {
			return false
		}
		for _, p := range t.Properties {
			switch p := p.(type) {
			case *ast.PropertyShort:
				if !isNil(p.Initializer) {
					return false
				}
				w.key(p.Name.Name.String(), p.Name.Idx)
				names[p.Name.Name.String()] = append(path[:len(path):len(path)], p.Name.Name.String())
			case *ast.PropertyKeyed:
				key, ok := constant(p.Key)
				if id, isName := p.Key.(*ast.Identifier); isName && !p.Computed {
					key, ok = id.Name.String(), true
				}
				if !ok || !w.spell(p.Value, append(path[:len(path):len(path)], key), names) {
					return false
				}
				w.key(key, p.Key.Idx0())
			default:
				return false
			}
		}
		return true
	}
	return false
}
