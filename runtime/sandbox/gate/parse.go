package gate

import (
	"errors"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// The wrapper: the code is the body of one async function, on the line on which it
// was given, and a comment at its end does not swallow the brace. The second one
// is for a source that is an expression only.
const (
	opening    = "(async function () {"
	closer     = "\n})"
	openingExp = "(async function () {return ("
	closerExp  = "\n)})"
)

// tree is a source that was parsed.
type tree struct {
	program *ast.Program
	script  *ast.FunctionLiteral
	lowered bool                // by esbuild
	entry   *ast.CallExpression // of the function that is all of the source, with tools
	takes   *ast.ParameterList  // of that function
	places  places
}

// parse makes the tree of a source. Errors of syntax are refusals. Types between signs of
// comparison can be read as comparisons too: such a source is TypeScript before it is
// anything else.
func parse(u user, tokens []token) (*tree, []frame.Refusal) {
	exp, isExp := expression(u, tokens)
	typed := passesTypes(u, tokens)
	var refusals []frame.Refusal
	if !typed {
		t, found := parsePlain(u, exp, isExp)
		if t != nil {
			return t, nil
		}
		refusals = found
	}
	if found := moduleWords(u, tokens); len(found) > 0 {
		return nil, found
	}
	if found := expressions(u, tokens); len(found) > 0 {
		return nil, found
	}
	t, lowered := lower(withoutExports(u, tokens), opening, closer, typed)
	if t != nil {
		return t, nil
	}
	if isExp {
		if t, _ := lower(exp, openingExp, closerExp, typed); t != nil {
			return t, nil
		}
	}
	if len(lowered) > 0 {
		refusals = lowered
	}
	return nil, refusals
}

// parsePlain makes the tree of a source that needs no rewriting.
func parsePlain(u, exp user, isExp bool) (*tree, []frame.Refusal) {
	t, refusals := parseScript(u, opening, closer)
	if t == nil && isExp {
		if t, _ := parseScript(exp, openingExp, closerExp); t != nil {
			return t, nil
		}
	}
	return t, refusals
}

// parseScript parses the code in a wrapper.
func parseScript(u user, open, end string) (*tree, []frame.Refusal) {
	parsed := open + u.code() + end
	t := &tree{places: places{user: u, parsed: parsed, prefix: len(open), lines: linesOf(parsed)}}
	if err := t.read(); err != nil {
		return nil, t.syntax(err)
	}
	if t.script = wrapper(t.program.Body); t.script == nil || offset(t.script.Body.LeftBrace) != strings.IndexByte(open, '{') ||
		offset(t.script.Body.RightBrace) != len(t.places.parsed)-2 {
		return nil, []frame.Refusal{t.places.refuse(len(open), "The code ends the function that holds it")}
	}
	if open == openingExp {
		if body := t.script.Body.List; len(body) != 1 || !isReturn(body[0]) {
			return nil, []frame.Refusal{t.places.refuse(len(open), "Unexpected token")}
		}
	}
	t.returnLast()
	return t, nil
}

var errFault = errors.New("the parser cannot read this")

// read parses one text. A comment in it that names a source map must not make the
// parser open a file. A fault of goja, as at the last character that there is, written
// \u{10ffff}, is an error: esbuild may know better.
func read(source string) (program *ast.Program, err error) {
	defer func() {
		if recover() != nil {
			program, err = nil, errFault
		}
	}()
	return parser.ParseFile(nil, FileName, source, 0, parser.WithDisableSourceMaps)
}

// wrapper is the function when a program is exactly one async function expression.
func wrapper(body []ast.Statement) *ast.FunctionLiteral {
	if len(body) != 1 {
		return nil
	}
	statement, ok := body[0].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	f, ok := statement.Expression.(*ast.FunctionLiteral)
	if !ok || !f.Async || f.Generator || f.Name != nil || len(f.ParameterList.List) > 0 || f.ParameterList.Rest != nil {
		return nil
	}
	return f
}

func isReturn(s ast.Statement) bool {
	_, ok := s.(*ast.ReturnStatement)
	return ok
}

// offset is that of an index in the text it was parsed from.
func offset(i file.Idx) int { return int(i) - 1 }

// syntax is what a parser said.
func (t *tree) syntax(err error) []frame.Refusal {
	var list parser.ErrorList
	if !errors.As(err, &list) || len(list) == 0 {
		return []frame.Refusal{t.places.refuse(t.places.prefix, "The code cannot be parsed")}
	}
	line, column := t.places.of(list[0].Position.Line, list[0].Position.Column)
	return []frame.Refusal{{Line: max(line, 1), Column: max(column, 1), Message: RegexWords(list[0].Message)}}
}

// expression is a source that starts like a function or an object, without the
// semicolon at its end.
func expression(u user, tokens []token) (user, bool) {
	if len(tokens) == 0 {
		return u, false
	}
	code := u.code()
	switch code[tokens[0].start:tokens[0].end] {
	case "async", "function", "{", "(":
	default:
		return u, false
	}
	if last := tokens[len(tokens)-1]; code[last.start:last.end] == ";" {
		u.end = u.start + last.start
	}
	return u, true
}

// returnLast returns the value that the last statement of a script has when it is an
// expression, and calls a script that is nothing but a function: both are what
// models write. It changes the tree, so no place moves.
func (t *tree) returnLast() {
	body := t.script.Body.List
	for len(body) > 0 {
		if _, empty := body[len(body)-1].(*ast.EmptyStatement); !empty {
			break
		}
		body = body[:len(body)-1]
	}
	if len(body) == 0 {
		return
	}
	last := len(body) - 1
	var value ast.Expression
	switch s := body[last].(type) {
	case *ast.ExpressionStatement:
		value = s.Expression
	case *ast.ReturnStatement:
		if t.places.prefix != len(openingExp) {
			return
		}
		value = s.Argument
	case *ast.FunctionDeclaration:
		if last > 0 || s.Function.Generator {
			return
		}
		value := t.call(s.Function.Name, s.Function.ParameterList)
		t.script.Body.List = append(body, &ast.ReturnStatement{Return: s.Idx0(), Argument: value})
		return
	default:
		return
	}
	if last == 0 {
		switch f := value.(type) {
		case *ast.ArrowFunctionLiteral:
			value = t.call(f, f.ParameterList)
		case *ast.FunctionLiteral:
			if !f.Generator {
				value = t.call(f, f.ParameterList)
			}
		}
	}
	body[last] = &ast.ReturnStatement{Return: body[last].Idx0(), Argument: value}
	t.script.Body.List = body
}

// call is f(), with tools for a function that takes something.
func (t *tree) call(f ast.Expression, parameters *ast.ParameterList) ast.Expression {
	at := f.Idx0()
	c := &ast.CallExpression{Callee: f, LeftParenthesis: at, RightParenthesis: at, ArgumentList: []ast.Expression{}}
	if len(parameters.List) > 0 || !isNil(parameters.Rest) {
		tools := ast.Identifier{Name: "tools", Idx: at}
		argument := ast.Expression(&tools)
		if _, inObject := takesTools(parameters); inObject {
			argument = &ast.ObjectLiteral{LeftBrace: at, RightBrace: at, Value: []ast.Property{&ast.PropertyShort{Name: tools}}}
		}
		c.ArgumentList = append(c.ArgumentList, argument)
		t.entry, t.takes = c, parameters
	}
	return c
}

// takesTools is what a function takes tools as. It is in an object for one that takes
// nothing else out of it, as async ({tools}) => tools.search({query}) does.
func takesTools(parameters *ast.ParameterList) (target ast.Expression, inObject bool) {
	if len(parameters.List) == 0 || !isNil(parameters.List[0].Initializer) {
		return nil, false
	}
	target = parameters.List[0].Target
	pattern, ok := target.(*ast.ObjectPattern)
	if !ok || len(pattern.Properties) != 1 || !isNil(pattern.Rest) {
		return target, false
	}
	switch p := pattern.Properties[0].(type) {
	case *ast.PropertyShort:
		if p.Name.Name == "tools" && isNil(p.Initializer) {
			return &p.Name, true
		}
	case *ast.PropertyKeyed:
		if key, ok := p.Key.(*ast.StringLiteral); ok && !p.Computed && key.Value == "tools" {
			return p.Value, true
		}
	}
	return target, false
}

// misplaced is what goja's compiler says of a super that it does not expect.
const misplaced = "'super' keyword unexpected here"

// compile compiles the tree in strict mode. What only a compiler sees, such as a name
// declared twice, is a refusal.
func (t *tree) compile() (*goja.Program, []frame.Refusal) {
	code, err := goja.CompileAST(t.program, true)
	if err == nil {
		return code, nil
	}
	var syntax *goja.CompilerSyntaxError
	if errors.As(err, &syntax) && syntax.File != nil {
		message := RegexWords(syntax.Message)
		if t.lowered && message == misplaced { // esbuild has seen that it is not
			message = "super is not available here in the value of a field, nor in an async generator"
		}
		return nil, []frame.Refusal{t.places.refuse(syntax.Offset, message)}
	}
	return nil, []frame.Refusal{t.places.refuse(t.places.prefix, "The code cannot be compiled")}
}
