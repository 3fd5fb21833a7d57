package gate

import (
	"github.com/dop251/goja/ast"
)

// expression walks one expression. A kind that is not here is refused.
func (w *walk) expression(e ast.Expression) {
	if isNil(e) {
		return
	}
	defer func() { w.depth-- }()
	if !w.enter(e) {
		return
	}
	switch e := e.(type) {
	case *ast.NullLiteral, *ast.BooleanLiteral, *ast.NumberLiteral, *ast.StringLiteral,
		*ast.ThisExpression, *ast.SuperExpression:
	case *ast.MetaProperty:
		if e.Meta.Name != "new" {
			w.refuse(e.Idx, "import.meta is"+notAllowed)
		}
	case *ast.RegExpLiteral:
		if message := BadRegex(e.Pattern, e.Flags); message != "" {
			w.refuse(e.Idx, message)
		}
		e.Pattern = WithEdges(e.Pattern)
	case *ast.Identifier:
		w.name(e)
		if path, ok := w.path(e); ok {
			w.escape(path)
		}
	case *ast.DotExpression, *ast.BracketExpression, *ast.OptionalChain, *ast.Optional, *ast.PrivateDotExpression:
		w.chain(e)
	case *ast.CallExpression:
		w.call(e.Callee)
		if e != w.tree.entry { // what becomes of tools there, the walk follows
			w.list(e.ArgumentList)
		}
	case *ast.NewExpression:
		w.call(e.Callee)
		w.list(e.ArgumentList)
	case *ast.TemplateLiteral:
		if e.Tag != nil {
			w.call(e.Tag)
		}
		w.list(e.Expressions)
	case *ast.FunctionLiteral:
		w.function(e)
	case *ast.ArrowFunctionLiteral:
		w.arrow(e)
	case *ast.ClassLiteral:
		w.class(e)
	case *ast.ObjectLiteral:
		for _, p := range e.Value {
			w.expression(p)
		}
	case *ast.ArrayLiteral:
		w.list(e.Value)
	default:
		w.operation(e)
	}
}

// operation walks operators and the parts of patterns.
func (w *walk) operation(e ast.Expression) {
	switch e := e.(type) {
	case *ast.AssignExpression:
		w.expression(e.Left)
		w.expression(e.Right)
	case *ast.BinaryExpression:
		w.compare(e)
		w.expression(e.Left)
		w.expression(e.Right)
	case *ast.UnaryExpression:
		w.expression(e.Operand)
	case *ast.ConditionalExpression:
		w.expression(e.Test)
		w.expression(e.Consequent)
		w.expression(e.Alternate)
	case *ast.SequenceExpression:
		w.list(e.Sequence)
	case *ast.AwaitExpression:
		w.expression(e.Argument)
	case *ast.YieldExpression:
		if e.Delegate {
			w.iterates(&e.Argument)
		}
		w.expression(e.Argument)
	case *ast.SpreadElement:
		w.expression(e.Expression)
	case *ast.PropertyShort:
		w.key(e.Name.Name.String(), e.Name.Idx)
		w.expression(&e.Name)
		w.expression(e.Initializer)
	case *ast.PropertyKeyed:
		if _, isPrivate := e.Key.(*ast.PrivateIdentifier); isPrivate {
			w.refuse(e.Key.Idx0(), "A private name is not allowed here: read it as this.#name")
		}
		w.propertyName(e.Key, e.Computed)
		w.expression(e.Value)
	case *ast.ArrayPattern:
		w.unwrap(e.Elements)
		w.list(e.Elements)
		w.expression(e.Rest)
	case *ast.ObjectPattern:
		for _, p := range e.Properties {
			w.expression(p)
		}
		w.expression(e.Rest)
	case *ast.Binding:
		w.expression(e.Target)
		w.expression(e.Initializer)
	default:
		w.refuse(e.Idx0(), "This syntax is"+notAllowed)
	}
}

func (w *walk) list(list []ast.Expression) {
	for _, e := range list {
		w.expression(e)
	}
}

// isNil reports whether an expression is missing. goja leaves pointers without a
// value in some fields of interface type.
func isNil(e ast.Expression) bool {
	switch e := e.(type) {
	case nil:
		return true
	case *ast.Identifier:
		return e == nil
	case *ast.FunctionLiteral:
		return e == nil
	}
	return false
}

// propertyName walks the key of a property in a literal, a pattern or a class.
func (w *walk) propertyName(key ast.Expression, computed bool) {
	if name, ok := constant(key); ok {
		w.key(name, key.Idx0())
	}
	if computed {
		w.expression(key)
		return
	}
	switch key := key.(type) {
	case *ast.StringLiteral, *ast.NumberLiteral, *ast.PrivateIdentifier:
	case *ast.Identifier:
		w.key(key.Name.String(), key.Idx)
	default:
		w.expression(key)
	}
}

// function walks a function: its parameters and its body are one scope here, which
// can only take more names for its own than there are in its parameters' defaults.
func (w *walk) function(f *ast.FunctionLiteral) {
	f.Source = w.tree.places.own(f.Source)
	w.inside(func() {
		w.scope.names["arguments"] = binding{kind: arguments}
		if f.Name != nil {
			w.scope.declare(f.Name, function)
		}
		w.parameters(f.ParameterList)
		w.body(f.Body.List)
	})
}

func (w *walk) arrow(f *ast.ArrowFunctionLiteral) {
	f.Source = w.tree.places.own(f.Source)
	w.inside(func() {
		w.parameters(f.ParameterList)
		switch body := f.Body.(type) {
		case *ast.BlockStatement:
			w.body(body.List)
		case *ast.ExpressionBody:
			w.expression(body.Expression)
		default:
			w.refuse(f.Start, "This syntax is"+notAllowed)
		}
	})
}

// parameters declares and walks those of a function. Their defaults cannot see the
// names of its body, so they are walked before those are declared.
func (w *walk) parameters(p *ast.ParameterList) {
	for _, b := range p.List {
		w.scope.declare(b.Target, plain)
	}
	if !isNil(p.Rest) {
		w.scope.declare(p.Rest, plain)
	}
	w.bindings(p.List, false)
	w.expression(p.Rest)
	if p != w.tree.takes {
		return
	}
	if target, _ := takesTools(p); target == nil || !w.alias(target, nil) {
		w.out.dynamic = true
	}
}

func (w *walk) body(list []ast.Statement) {
	w.inside(func() {
		w.scope.hoist(list)
		w.scope.lexical(list)
		w.statements(list)
	})
}

// class walks a class.
func (w *walk) class(c *ast.ClassLiteral) {
	c.Source = w.tree.places.own(c.Source)
	w.inside(func() {
		if c.Name != nil {
			w.scope.declare(c.Name, function)
		}
		w.expression(c.SuperClass)
		for _, e := range c.Body {
			switch e := e.(type) {
			case *ast.FieldDefinition:
				w.propertyName(e.Key, e.Computed)
				w.inside(func() { w.expression(e.Initializer) })
			case *ast.MethodDefinition:
				w.propertyName(e.Key, e.Computed)
				w.function(e.Body)
			case *ast.ClassStaticBlock:
				w.body(e.Block.List)
			default:
				w.refuse(e.Idx0(), "This syntax is"+notAllowed)
			}
		}
	})
}
