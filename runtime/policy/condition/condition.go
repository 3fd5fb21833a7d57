// Package condition is the language of a rule's `when`: CEL, the Common
// Expression Language, over the facts of one request.
//
// An expression is checked when the policy is loaded: a field that is not there,
// a comparison of two types, an argument that the named action does not declare,
// a time zone nobody knows are problems with a place in the text. What is left
// can still fail on a request, when an argument is absent, say. A condition that
// fails is an error, and the caller denies on it; it is never false.
//
// Evaluation does no IO and reads no clock, and its cost is limited. Errors name
// fields and never show values: they are shown to the caller and recorded.
//
// Start reading at [Compiler.Compile] and [Condition.Holds].
package condition

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/kimbap-run/kimbap/runtime"
)

// Limits of one expression.
const (
	maxText  = 4096 // code points
	maxNodes = 512  // of its syntax tree
	maxDepth = 64   // of nesting
)

// Compiler makes conditions. It is used by one goroutine and kept alive by the
// conditions it made.
type Compiler struct {
	base  *cel.Env
	zones zones
}

// Problem is what is wrong with an expression.
type Problem struct {
	Offset  int // in code points from the start of the text
	Msg     string
	Fix     string   // may be empty
	Unknown string   // the name that is not known, if that is the problem
	Known   []string // the names that are
}

// Condition is one expression, compiled. It is immutable and safe for
// concurrent use.
type Condition struct {
	text    string
	program cel.Program
	uses    *uses
	typed   bool
}

// NewCompiler fails only when the language itself is set up wrongly.
func NewCompiler() (*Compiler, error) {
	c := &Compiler{zones: zones{}}
	options := append([]cel.EnvOption{
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.EnableErrorOnBadPresenceTest(true),
		cel.ParserExpressionSizeLimit(maxText),
		cel.ExpressionNodeLimit(maxNodes),
		cel.ExpressionNestingDepthLimit(maxDepth),
		cel.ASTValidators(
			cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), c.zones,
		),
	}, c.zones.functions()...)
	var err error
	c.base, err = cel.NewCustomEnv(options...)
	return c, err
}

// Compile checks and compiles an expression. Action is the one that the rule is
// for, whose argument schema args has; with nil, args are looked up by name and
// have the types they come with. A text over which this fails is one that cannot be read: what
// runs goes on with the policy that it has.
func (c *Compiler) Compile(text string, action *runtime.Action) (compiled *Condition, problems []Problem) {
	var failed error
	defer func() {
		if failed != nil {
			compiled, problems = nil, []Problem{{Msg: "kimbap fails to read this expression", Fix: "write it in another way, and report it"}}
		}
	}()
	defer runtime.Contain(&failed)
	s := newSchema(action)
	env, err := c.base.Extend(s.variables()...)
	if err != nil {
		return nil, []Problem{{Msg: "cannot be set up: " + err.Error()}}
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, s.problems(text, issues)
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, []Problem{{
			Msg: fmt.Sprintf("a condition is true or false, and this is of type %s", typeName(out)), Fix: "compare it with something",
		}}
	}
	if problems := slices.Concat(neverInPaths(ast), neverInHeaders(ast), neverInFacts(ast)); len(problems) > 0 {
		return nil, problems
	}
	program, err := env.Program(ast, append(costOptions(ast), patterns(), cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		return nil, []Problem{{Msg: err.Error()}}
	}
	return &Condition{text: text, program: program, uses: usesOf(ast), typed: action != nil}, nil
}

// Holds evaluates the condition. The error says in one clause why it cannot be
// judged, without values.
func (c *Condition) Holds(q *runtime.Question) (bool, error) {
	if err := c.unread(q); err != nil {
		return false, err
	}
	if why := c.twin(q); why != "" {
		return false, &unknowable{why}
	}
	out, _, err := c.program.Eval(&facts{q: q, typed: c.typed, connects: c.uses.inMethod.has(http.MethodConnect)})
	if err != nil {
		return false, c.failure(err)
	}
	verdict, ok := out.(types.Bool)
	if !ok {
		return false, errors.New("it is neither true nor false")
	}
	return bool(verdict), nil
}

// unread is why an argument that the condition looks at, and that is absent, may
// be in the request all the same; nil where there is none such.
func (c *Condition) unread(q *runtime.Question) error {
	if rest := q.Action.Rest; rest != "" && q.Request.Raw != nil && c.uses.arg(rest) {
		return &unknowable{"args." + rest + " is not read back from a request; use request.body"}
	}
	for _, name := range q.Request.Astray {
		if c.uses.arg(name) {
			return &unknowable{"args." + name + " does not stand in the request as the service has it"}
		}
	}
	if c.hides(q.Args) {
		return &unknowable{"the record does not hold a value that it looks at"}
	}
	spec := q.Action.HTTP
	if spec == nil {
		return nil
	}
	if spec.Push && c.uses.arg("refs") && q.Args["refs"] == nil { // every push has some
		return &unknowable{"args.refs could not be read from the push"}
	}
	if q.Request.Raw == nil || spec.BodyType != "multipart" && spec.BodyType != "raw" {
		return nil
	}
	for i := range q.Action.Params {
		p := &q.Action.Params[i]
		if _, given := q.Args[p.Name]; !given && p.Body && c.uses.arg(p.Name) {
			return &unknowable{"args." + p.Name + " is not read back from a body that is " + spec.BodyType}
		}
	}
	return nil
}

// hides reports whether the condition looks at an argument that is [Hidden].
func (c *Condition) hides(args runtime.Args) bool {
	if c.uses.allArgs {
		for _, v := range args {
			if _, hidden := v.(Hidden); hidden {
				return true
			}
		}
		return false
	}
	for name := range c.uses.args {
		if _, hidden := args[name].(Hidden); hidden {
			return true
		}
	}
	return false
}

// problems turns the language's own reports into ours.
func (s *schema) problems(text string, issues *cel.Issues) []Problem {
	var out []Problem
	for _, e := range issues.Errors() {
		before := 0
		if at := e.Location; at != nil && at.Line() > 0 {
			before = offset(text, at.Line(), max(at.Column(), 0))
		}
		runes := []rune(text)
		at := min(before, len(runes))
		p := s.helped(plain(e.Message), s.names(variableAt(text, before)), string(runes[:at]), string(runes[at:]))
		p.Offset += before
		out = append(out, p)
	}
	if len(out) == 0 {
		out = append(out, Problem{Msg: plain(issues.Err().Error())})
	}
	return out
}

// offset counts the code points before a line, from 1, and a column, from 0.
func offset(text string, line, column int) int {
	for range line - 1 {
		before, rest, ok := strings.Cut(text, "\n")
		if !ok {
			break
		}
		column += len([]rune(before)) + 1
		text = rest
	}
	return column
}

// variableAt is the name right before an offset, where a dot stands, or right
// after it, where the bracket of has(…) does.
func variableAt(text string, offset int) string {
	runes := []rune(text)
	offset = min(offset, len(runes))
	if inside := word.FindStringSubmatch(string(runes[offset:])); inside != nil {
		return inside[1]
	}
	before := strings.TrimSpace(string(runes[:offset]))
	return before[strings.LastIndexFunc(before, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })+1:]
}

var word = regexp.MustCompile(`^\(\s*(\w+)`)

// plain takes out of a message what only the language's makers know: the names
// of our types, the list of all tokens that could follow, the form of operators.
func plain(msg string) string {
	msg, _, _ = strings.Cut(msg, "\n")
	msg, _, _ = strings.Cut(msg, " expecting {")
	msg = strings.NewReplacer("(in container '')", "", objectPrefix, "", "'<EOF>'", "its end").Replace(msg)
	return strings.TrimSpace(regexp.MustCompile(`'_?([^\w\s']+)_?'`).ReplaceAllString(msg, "$1"))
}

// helped adds what to do about the commonest mistakes. Fields are those of the
// variable that the report is of; before and behind are the text around its place.
func (s *schema) helped(msg string, fields []string, before, behind string) Problem {
	quoted := func() string {
		_, rest, _ := strings.Cut(msg, "'")
		name, _, _ := strings.Cut(rest, "'")
		return name
	}
	switch {
	case strings.HasPrefix(msg, "undeclared reference to"):
		name := quoted()
		return unknownName(name, strings.HasPrefix(strings.TrimPrefix(behind, name), "("))
	case strings.HasPrefix(msg, "undefined field"):
		name := quoted()
		return Problem{
			Offset: 1, // the report is of the dot
			Msg:    fmt.Sprintf("there is no field %q", name), Unknown: name, Known: fields,
		}
	}
	msg, syntax := strings.CutPrefix(msg, "Syntax error: ")
	if unexpected, ok := strings.CutPrefix(msg, "mismatched input "); ok {
		msg = "did not expect " + unexpected
	}
	if why := badPattern(behind); why != "" && strings.HasPrefix(msg, "invalid matches argument") {
		return Problem{Msg: "the pattern of matches cannot be used: " + why, Fix: "patterns are those of RE2: no look-ahead, no look-behind, no reference back"}
	}
	fix := advice(msg, before, behind)
	if syntax {
		msg = "not an expression: " + msg
	}
	return Problem{Msg: strings.Replace(msg, "for '@in' applied", "for in applied", 1), Fix: fix}
}

func typeName(t *cel.Type) string {
	return strings.ReplaceAll(cel.FormatCELType(t), objectPrefix, "")
}
