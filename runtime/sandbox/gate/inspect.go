package gate

import (
	"slices"
	"sync"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// maxTree is how deep a tree may be. The scanner bounds it already; this is the
// second look.
const maxTree = 3 * maxRun

// findings are what a walk over a tree found.
type findings struct {
	refusals []frame.Refusal
	tools    []string
	dynamic  bool
	globals  map[string]bool // the free names
	catches  []*ast.CatchStatement
	iterated []*ast.Expression // what is iterated over
}

// walk goes over a tree, every node of it, with the names in scope.
type walk struct {
	tree  *tree
	scope *scope
	depth int
	out   findings

	unwrapped int              // elements of lists that were wrapped to be parsed
	brackets  func() *brackets // of what was parsed; nil if they are not known
}

// inspect walks a whole script.
func inspect(t *tree) findings {
	w := &walk{tree: t, out: findings{globals: map[string]bool{}}}
	w.brackets = sync.OnceValue(func() *brackets { return bracketsOf(t.places.parsed) })
	w.scope = &scope{names: map[string]binding{}}
	for _, s := range t.program.Body {
		w.statement(s)
	}
	if 2*w.unwrapped != len(t.places.inserted) && len(w.out.refusals) == 0 {
		w.refuse(t.program.Body[0].Idx0(), "This syntax is"+notAllowed)
	}
	slices.Sort(w.out.tools)
	w.out.tools = slices.Compact(w.out.tools)
	return w.out
}

func (w *walk) refuse(at file.Idx, message string) {
	if len(w.out.refusals) <= maxRefusals {
		w.out.refusals = append(w.out.refusals, w.tree.places.refuse(offset(at), message))
	}
}

// enter counts depth; the func it returns leaves again. It is false too deep.
func (w *walk) enter(n ast.Node) bool {
	w.depth++
	if w.depth > maxTree {
		w.refuse(n.Idx0(), "The code nests too deep")
		return false
	}
	return true
}

func (w *walk) statements(list []ast.Statement) {
	for _, s := range list {
		w.statement(s)
	}
}

// block walks statements with a scope of their own.
func (w *walk) block(list []ast.Statement) {
	w.inside(func() {
		w.scope.lexical(list)
		w.statements(list)
	})
}

// inside runs f with a new scope.
func (w *walk) inside(f func()) {
	outer := w.scope
	w.scope = &scope{outer: outer, names: map[string]binding{}}
	f()
	w.scope = outer
}

// statement walks one statement. A kind that is not here is refused.
func (w *walk) statement(s ast.Statement) {
	if s == nil {
		return
	}
	defer func() { w.depth-- }()
	if !w.enter(s) {
		return
	}
	switch s := s.(type) {
	case *ast.BlockStatement:
		if s != nil {
			w.block(s.List)
		}
	case *ast.ExpressionStatement:
		w.assigned(s.Expression)
		w.expression(s.Expression)
	case *ast.ReturnStatement:
		w.expression(s.Argument)
	case *ast.ThrowStatement:
		w.expression(s.Argument)
	case *ast.VariableStatement:
		w.bindings(s.List, false)
	case *ast.LexicalDeclaration:
		w.bindings(s.List, s.Token.String() == "const")
	case *ast.FunctionDeclaration:
		w.function(s.Function)
	case *ast.ClassDeclaration:
		w.class(s.Class)
	case *ast.EmptyStatement, *ast.BranchStatement:
	case *ast.LabelledStatement:
		w.statement(s.Statement)
	case *ast.WithStatement:
		w.refuse(s.With, "The with statement is"+notAllowed)
	case *ast.DebuggerStatement:
		w.refuse(s.Debugger, "The debugger statement is"+notAllowed)
	default:
		w.control(s)
	}
}

// control walks the statements that hold others.
func (w *walk) control(s ast.Statement) {
	switch s := s.(type) {
	case *ast.IfStatement:
		w.expression(s.Test)
		w.statement(s.Consequent)
		w.statement(s.Alternate)
	case *ast.WhileStatement:
		w.expression(s.Test)
		w.statement(s.Body)
	case *ast.DoWhileStatement:
		w.statement(s.Body)
		w.expression(s.Test)
	case *ast.ForStatement:
		w.inside(func() { w.loop(s) })
	case *ast.ForInStatement:
		w.inside(func() { w.each(s.Into, s.Source, s.Body) })
	case *ast.ForOfStatement:
		w.iterates(&s.Source)
		w.inside(func() { w.each(s.Into, s.Source, s.Body) })
	case *ast.SwitchStatement:
		w.expression(s.Discriminant)
		w.inside(func() {
			for _, c := range s.Body {
				w.scope.lexical(c.Consequent)
			}
			for _, c := range s.Body {
				w.expression(c.Test)
				w.statements(c.Consequent)
			}
		})
	case *ast.TryStatement:
		w.statement(s.Body)
		if s.Catch != nil {
			w.out.catches = append(w.out.catches, s.Catch)
			w.inside(func() {
				w.scope.declare(s.Catch.Parameter, plain)
				w.expression(s.Catch.Parameter)
				w.statement(s.Catch.Body)
			})
		}
		if s.Finally != nil {
			w.statement(s.Finally)
		}
	default:
		w.refuse(s.Idx0(), "This syntax is"+notAllowed)
	}
}

// loop walks a for loop of three parts.
func (w *walk) loop(s *ast.ForStatement) {
	switch init := s.Initializer.(type) {
	case nil:
	case *ast.ForLoopInitializerExpression:
		w.expression(init.Expression)
	case *ast.ForLoopInitializerVarDeclList:
		w.bindings(init.List, false)
	case *ast.ForLoopInitializerLexicalDecl:
		w.scope.lexical([]ast.Statement{&init.LexicalDeclaration})
		w.bindings(init.LexicalDeclaration.List, false)
	default:
		w.refuse(s.For, "This syntax is"+notAllowed)
	}
	w.expression(s.Test)
	w.expression(s.Update)
	w.statement(s.Body)
}

// each walks a loop over the keys or the values of something.
func (w *walk) each(into ast.ForInto, source ast.Expression, body ast.Statement) {
	switch into := into.(type) {
	case *ast.ForIntoVar:
		w.bindings([]*ast.Binding{into.Binding}, false)
	case *ast.ForDeclaration:
		w.scope.declare(into.Target, plain)
		w.expression(into.Target)
	case *ast.ForIntoExpression:
		w.expression(into.Expression)
	default:
		w.refuse(source.Idx0(), "This syntax is"+notAllowed)
	}
	w.expression(source)
	w.statement(body)
}
