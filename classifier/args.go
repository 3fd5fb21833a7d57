package classifier

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// argReader reads the arguments of one route back from a request.
type argReader struct {
	path    []pathArg
	query   map[string]queryArg
	scalars []string // query names that may stand once, those of conditions too
	lists   []string // the other query names
	header  []Arg
	body    []bodyArg
	inBody  map[string]bool // top-level members and fields that are arguments
	count   int

	queryKeys, bodyKeys placed // what is astray in the other place
	wholes              placed // of bodyKeys, what is also astray in pieces
}

// pathArg knows the segment its placeholder stands in: only the last one of a
// pattern is of variable length.
type pathArg struct {
	Arg
	index int
	rest  bool
	verb  int // bytes of the custom method behind the value
}

// queryArg knows its bit in [argPass].seen.
type queryArg struct {
	Arg
	index int
}

const mostQueryArgs = 256

type bodyArg struct {
	Arg
	tokens []string
}

func (r *argReader) compile(args []Arg, pieces []piece) error {
	var problems []error
	r.count = len(args)
	for i := range args {
		arg := args[i]
		problems = append(problems, checkArg(arg))
		switch arg.In {
		case InPath:
			problems = append(problems, r.addPath(arg, pieces))
		case InQuery:
			problems = append(problems, r.addQuery(arg))
		case InHeader:
			arg.Key = http.CanonicalHeaderKey(arg.Key)
			r.header = append(r.header, arg)
		case InBody:
			tokens, err := parsePointer(arg.Key)
			problems = append(problems, err)
			r.body = append(r.body, bodyArg{arg, tokens})
			if len(tokens) == 1 {
				if r.inBody == nil {
					r.inBody = map[string]bool{}
				}
				r.inBody[tokens[0]] = true
			}
		}
	}
	r.noteAstray()
	return errors.Join(problems...)
}

func (r *argReader) addQuery(arg Arg) error {
	if _, ok := r.query[arg.Key]; ok {
		return fmt.Errorf("two arguments are read from query parameter %q", arg.Key)
	}
	if len(r.query) == mostQueryArgs {
		return fmt.Errorf("more than %d arguments are read from the query", mostQueryArgs)
	}
	if r.query == nil {
		r.query = map[string]queryArg{}
	}
	r.query[arg.Key] = queryArg{arg, len(r.query)}
	if arg.Type == "array" {
		r.lists = append(r.lists, arg.Key)
	} else {
		r.scalars = append(r.scalars, arg.Key)
	}
	return nil
}

func (r *argReader) addPath(arg Arg, pieces []piece) error {
	for i, p := range pieces {
		if p.text == arg.Key && p.kind != literal && p.kind != any0 {
			r.path = append(r.path, pathArg{arg, i, p.kind == rest, len(p.verb)})
			return nil
		}
	}
	return fmt.Errorf("argument %q is read from {%s}, which the path does not have", arg.Name, arg.Key)
}

func (r *argReader) noteConditions(conditions []condition) {
	for _, c := range conditions {
		if c.place == InQuery {
			r.scalars = append(r.scalars, c.key)
		}
	}
}

// noObjects reports whether a body has something else where some argument is a member of an
// object.
func (r *argReader) noObjects(b *Body) bool {
	return slices.ContainsFunc(r.body, func(arg bodyArg) bool { return b.noObject(arg.tokens) })
}

func checkArg(arg Arg) error {
	switch {
	case arg.Name == "":
		return errors.New("an argument has no name")
	case arg.Key == "" && arg.In != InBody:
		return fmt.Errorf("argument %q has no key to be read from", arg.Name)
	case arg.Pattern != nil && (arg.Group < 0 || arg.Pattern.NumSubexp() <= arg.Group):
		return fmt.Errorf("the pattern of argument %q has no group", arg.Name)
	}
	switch arg.In {
	case InPath, InQuery, InHeader, InBody:
	default:
		return fmt.Errorf("argument %q stands in %q: path, query, header or body", arg.Name, arg.In)
	}
	switch arg.Type {
	case "", "string", "integer", "number", "boolean", "array", "object":
		return nil
	}
	return fmt.Errorf("argument %q has the unknown type %q", arg.Name, arg.Type)
}

// argPass is one pass of an argReader over a request.
type argPass struct {
	*argReader
	in    Input
	seen  [mostQueryArgs / 64]uint64 // scalars of the query that were given
	args  map[string]any
	query map[string]any

	astray []string // names of arguments that stand in another place than theirs
}

// read takes every argument from the request, once.
func (p *argPass) read(t *path) *Error {
	for i := range p.path {
		arg := &p.path[i]
		text := restOf(t, arg.index, arg.rest)
		text = text[:len(text)-arg.verb]
		if t.cutAt(arg.index, arg.rest) {
			p.astray = append(p.astray, arg.Name)
		}
		if err := p.setText(&arg.Arg, text); err != nil {
			return err
		}
	}
	for i := range p.header {
		if err := p.readHeader(&p.header[i]); err != nil {
			return err
		}
	}
	if t.params {
		p.strayInPath(t)
	}
	if err := p.readQuery(t.query); err != nil {
		return err
	}
	if err := p.readBody(); err != nil {
		return err
	}
	p.astray = p.strays()
	return nil
}

func restOf(t *path, index int, rest bool) string {
	if !rest || index == t.count-1 {
		return unescape(t.at(index).text)
	}
	var out strings.Builder
	for i := index; i < t.count; i++ {
		if i > index {
			out.WriteByte('/')
		}
		out.WriteString(unescape(t.at(i).text))
	}
	return out.String()
}

func (p *argPass) readHeader(arg *Arg) *Error {
	values := p.in.Header[arg.Key]
	switch {
	case slices.Contains(p.in.Unfilled, arg.Key):
		return nil
	case fieldTwin(p.in.Header, arg.Key):
		return otherField(arg.Key)
	case len(values) == 0:
		return nil
	case arg.Type == "array":
		elements, err := fieldList(arg.Key, values)
		if err != nil || len(elements) == 0 { // who lists nothing gives nothing
			return err
		}
		return p.set(arg, elements)
	case len(values) > 1:
		return badInput(reasonDuplicateParameter, "header field %s is given more than once", arg.Key)
	}
	return p.setText(arg, values[0])
}

func (p *argPass) readQuery(query string) *Error {
	for query != "" {
		var raw, rawKey, rawValue string
		raw, rawKey, rawValue, query = nextPair(query)
		if raw == "" {
			continue
		}
		key, err := unescapeQuery(rawKey)
		if err != nil {
			return err
		}
		value, err := unescapeQuery(rawValue)
		if err != nil {
			return err
		}
		if err := p.readPair(raw, key, value); err != nil {
			return err
		}
	}
	return nil
}

func (p *argPass) readPair(raw, key, value string) *Error {
	if name := pairOverrides(raw, key, value, p.in.Method); name != "" {
		return overridden("the query parameter " + name)
	}
	arg, mapped := p.argReader.query[key]
	if !mapped {
		if err := p.checkUnmapped(raw, key); err != nil {
			return err
		}
		p.strayInQuery(raw, key)
		addQuery(&p.query, key, value)
		return nil
	}
	if strings.IndexByte(raw, ';') >= 0 {
		return semicolon(key)
	}
	if !p.inBody[key] && p.in.Body.has(key) {
		return twoPlaces(key)
	}
	if arg.Type == "array" {
		return p.appendElement(&arg.Arg, value)
	}
	if p.seen[arg.index/64]&(1<<(arg.index%64)) != 0 {
		return twice(key)
	}
	p.seen[arg.index/64] |= 1 << (arg.index % 64)
	if plain := looseBool(value); plain != "" && arg.Type == "boolean" {
		value, p.astray = plain, append(p.astray, arg.Name)
	}
	return p.setText(&arg.Arg, value)
}

func (p *argPass) appendElement(arg *Arg, value string) *Error {
	text, err := arg.inner(value)
	if err != nil {
		return err
	}
	elements, _ := p.args[arg.Name].([]any)
	p.put(arg.Name, append(elements, text))
	return nil
}

// checkUnmapped refuses a parameter that some server would take for one that
// the route reads.
func (p *argPass) checkUnmapped(raw, key string) *Error {
	for _, name := range p.scalars {
		if key != name && hides(raw, key, name) {
			return otherSpelling(name)
		}
	}
	if p.inBody[key] && p.in.Body.has(key) {
		return twoPlaces(key)
	}
	return nil
}

// twoPlaces is a query argument that the body repeats, or the other way round,
// without the service having mapped it to both.
func twoPlaces(name string) *Error {
	return badInput(reasonAmbiguousParameter, "parameter %s stands in the query and in the body, and servers differ in which one they read", shown(name))
}

func addQuery(query *map[string]any, key, value string) {
	if *query == nil {
		*query = map[string]any{}
	}
	switch old := (*query)[key].(type) {
	case nil:
		(*query)[key] = value
	case []any:
		(*query)[key] = append(old, value)
	default:
		(*query)[key] = []any{old, value}
	}
}

func (p *argPass) readBody() *Error {
	b := p.in.Body
	if b == nil {
		return nil
	}
	if err := b.refuseOverride(p.in.Method); err != nil {
		return err
	}
	p.strayInBody(b)
	for i := range p.body {
		arg := &p.body[i]
		value, found, err := b.lookup(arg.tokens, strictness{known: p.inBody, elements: arg.Type == "array" || arg.Type == "object"})
		if err != nil {
			return err
		}
		if !found || value == nil && !arg.Null {
			continue
		}
		if b.form != nil && len(arg.tokens) > 0 {
			err = p.setField(&arg.Arg, value)
		} else {
			err = p.setJSON(&arg.Arg, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *argPass) setField(arg *Arg, value any) *Error {
	text, single := value.(string)
	if arg.Type == "array" {
		if single {
			value = []any{text}
		}
		return p.set(arg, value)
	}
	if !single {
		return twice(arg.Name)
	}
	return p.setText(arg, text)
}

func (p *argPass) setText(arg *Arg, text string) *Error {
	value, err := arg.fromText(text)
	if err != nil {
		return err
	}
	return p.set(arg, value)
}

func (p *argPass) setJSON(arg *Arg, value any) *Error {
	value, err := arg.fromJSON(value)
	if err != nil {
		return err
	}
	return p.set(arg, value)
}

// set stores an argument. A service may map one argument to two places; they
// must agree then.
func (p *argPass) set(arg *Arg, value any) *Error {
	if old, ok := p.args[arg.Name]; ok {
		if !reflect.DeepEqual(old, value) {
			return badInput(reasonAmbiguousParameter, "argument %q stands in two places of the request with two values", arg.Name)
		}
		return nil
	}
	p.put(arg.Name, value)
	return nil
}

func (p *argPass) put(name string, value any) {
	if p.args == nil {
		p.args = make(map[string]any, p.count)
	}
	p.args[name] = value
}
