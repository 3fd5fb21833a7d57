package gate

import "github.com/dop251/goja/ast"

// role is what a name was declared as, as far as the walk cares.
type role byte

const (
	plain     role = iota
	function       // a function or a class
	arguments      // those of a function
	alias          // a constant that holds tools, or a path of it
)

// binding is a name that the script declares.
type binding struct {
	kind role
	path []string // of an alias
}

// scope are the names declared in one block or function.
type scope struct {
	outer *scope
	names map[string]binding
}

// find is the binding of a name; false: the name is free.
func (s *scope) find(name string) (binding, bool) {
	for ; s != nil; s = s.outer {
		if b, ok := s.names[name]; ok {
			return b, true
		}
	}
	return binding{}, false
}

// declare declares all names of a pattern.
func (s *scope) declare(target ast.Expression, as role) {
	switch t := target.(type) {
	case *ast.Identifier:
		if t != nil {
			s.names[t.Name.String()] = binding{kind: as}
		}
	case *ast.ArrayPattern:
		for _, e := range t.Elements {
			s.declare(e, plain)
		}
		s.declare(t.Rest, plain)
	case *ast.ObjectPattern:
		for _, p := range t.Properties {
			switch p := p.(type) {
			case *ast.PropertyShort:
				s.declare(&p.Name, plain)
			case *ast.PropertyKeyed:
				s.declare(p.Value, plain)
			}
		}
		s.declare(t.Rest, plain)
	case *ast.AssignExpression: // a default
		s.declare(t.Left, plain)
	case *ast.Binding:
		s.declare(t.Target, plain)
	}
}

// lexical declares what let, const, class and function declare in a list of statements.
func (s *scope) lexical(list []ast.Statement) {
	for _, statement := range list {
		switch d := statement.(type) {
		case *ast.LexicalDeclaration:
			for _, b := range d.List {
				s.declare(b.Target, roleOf(b.Initializer))
			}
		case *ast.ClassDeclaration:
			s.declare(d.Class.Name, function)
		case *ast.FunctionDeclaration:
			s.declare(d.Function.Name, function)
		case *ast.LabelledStatement:
			s.lexical([]ast.Statement{d.Statement})
		}
	}
}

// roleOf is what a variable is declared as that starts with a value.
func roleOf(value ast.Expression) role {
	switch value.(type) {
	case *ast.FunctionLiteral, *ast.ArrowFunctionLiteral, *ast.ClassLiteral:
		return function
	}
	return plain
}

// hoist declares what var declares anywhere in a function, but not in those inside it.
func (s *scope) hoist(list []ast.Statement) {
	for _, statement := range list {
		s.hoistOne(statement)
	}
}

func (s *scope) hoistOne(statement ast.Statement) {
	switch d := statement.(type) {
	case *ast.VariableStatement:
		s.declareAll(d.List)
	case *ast.BlockStatement:
		if d != nil {
			s.hoist(d.List)
		}
	case *ast.IfStatement:
		s.hoistOne(d.Consequent)
		s.hoistOne(d.Alternate)
	case *ast.WhileStatement:
		s.hoistOne(d.Body)
	case *ast.DoWhileStatement:
		s.hoistOne(d.Body)
	case *ast.LabelledStatement:
		s.hoistOne(d.Statement)
	case *ast.ForStatement:
		if v, ok := d.Initializer.(*ast.ForLoopInitializerVarDeclList); ok {
			s.declareAll(v.List)
		}
		s.hoistOne(d.Body)
	case *ast.ForInStatement:
		s.hoistInto(d.Into)
		s.hoistOne(d.Body)
	case *ast.ForOfStatement:
		s.hoistInto(d.Into)
		s.hoistOne(d.Body)
	case *ast.SwitchStatement:
		for _, c := range d.Body {
			s.hoist(c.Consequent)
		}
	case *ast.TryStatement:
		s.hoist(d.Body.List)
		if d.Catch != nil {
			s.hoist(d.Catch.Body.List)
		}
		if d.Finally != nil {
			s.hoist(d.Finally.List)
		}
	}
}

func (s *scope) hoistInto(into ast.ForInto) {
	if v, ok := into.(*ast.ForIntoVar); ok {
		s.declareAll([]*ast.Binding{v.Binding})
	}
}

func (s *scope) declareAll(list []*ast.Binding) {
	for _, b := range list {
		s.declare(b.Target, roleOf(b.Initializer))
	}
}
