package gate

import (
	"github.com/dop251/goja/ast"
	operators "github.com/dop251/goja/token"
)

// See is the global function that each catch clause calls with what it has caught,
// before anything else. The engine must have it. No script can: it is no name.
const See = "%see"

// caught is the name of what a clause has caught that takes it apart at once.
const caught = "%caught"

// watch puts that call into a catch clause. It changes the tree, so no place moves.
func watch(c *ast.CatchStatement) {
	if c.Parameter == nil || c.Body == nil {
		return
	}
	at := c.Body.LeftBrace
	id, ok := c.Parameter.(*ast.Identifier)
	_, list := c.Parameter.(*ast.ArrayPattern)
	var first []ast.Statement
	if !ok {
		id = &ast.Identifier{Name: caught, Idx: at}
		source := ast.Expression(&ast.Identifier{Name: caught, Idx: at})
		if list {
			guard(&source)
		}
		first = []ast.Statement{&ast.LexicalDeclaration{
			Idx: at, Token: operators.LET, List: []*ast.Binding{{Target: c.Parameter, Initializer: source}},
		}}
		c.Parameter = id
	}
	call := &ast.CallExpression{
		Callee: &ast.Identifier{Name: See, Idx: at}, LeftParenthesis: at, RightParenthesis: at,
		ArgumentList: []ast.Expression{&ast.Identifier{Name: id.Name, Idx: at}},
	}
	first = append([]ast.Statement{&ast.ExpressionStatement{Expression: call}}, first...)
	c.Body.List = append(first, c.Body.List...)
}
