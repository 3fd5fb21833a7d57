package classifier

import "slices"

// operation is one executable operation of a document.
type operation struct {
	kind opType
	name string
	root selection
}

// selection is what stands in a selection set itself, that of its inline
// fragments with it: the sets below are not looked at.
type selection struct {
	fields  []string // by their own names, whatever alias and directives they have
	spreads []string // names of fragments
}

// document is an executable document (GraphQL specification, section 2.2).
type document struct {
	operations []operation
	fragments  map[string]selection
}

// execute is GetOperation of the GraphQL specification (section 6.1), but for a
// missing name among several operations, where the worst type counts, and the
// fields of all.
func (d *document) execute(name string) call {
	if name == "" && len(d.operations) == 1 {
		return d.call(d.operations)
	}
	for i := range d.operations {
		if name != "" && d.operations[i].name == name {
			return d.call(d.operations[i : i+1])
		}
	}
	if name != "" {
		return anyOperation()
	}
	c := d.call(d.operations)
	c.name = ""
	return c
}

// call is what one of the operations does, or any of them.
func (d *document) call(operations []operation) call {
	c := call{name: operations[0].name}
	w := gathering{fragments: d.fragments}
	for i := range operations {
		c.kind = max(c.kind, operations[i].kind)
		if !w.gather(operations[i].root) {
			return anyOperation()
		}
	}
	c.fields = w.fields
	return c
}

// mostRootFields is how many fields an operation may begin with and still be
// read: more is not what a person writes, and each is held against each pattern.
const mostRootFields = 1000

// gathering collects root fields through fragments, each fragment once.
type gathering struct {
	fragments map[string]selection
	seen      map[string]bool
	fields    []string
}

// gather reports whether all fragments are there. @skip and @include are not
// judged: a field that may be left out counts as one that is there.
func (w *gathering) gather(root selection) bool {
	if w.fields == nil && len(root.spreads) == 0 {
		w.fields = root.fields // of most documents nothing has to be copied
		return len(w.fields) <= mostRootFields
	}
	w.fields = append(w.fields[:len(w.fields):len(w.fields)], root.fields...)
	open := slices.Clone(root.spreads)
	for i := 0; i < len(open); i++ {
		name := open[i]
		if w.seen[name] {
			continue
		}
		fragment, ok := w.fragments[name]
		if !ok {
			return false
		}
		if w.seen == nil {
			w.seen = map[string]bool{}
		}
		w.seen[name] = true
		w.fields = append(w.fields, fragment.fields...)
		open = append(open, fragment.spreads...)
	}
	return len(w.fields) <= mostRootFields
}

// parseGraphQL reads the operations of an executable document with their root
// fields. It checks what decides where a definition ends, where a root field ends
// and what its name is, and no more.
func parseGraphQL(text string) (document, bool) {
	lex := graphqlLexer{src: text}
	var d document
	for {
		tok := lex.next()
		if tok.kind == tokString { // a description
			tok = lex.next()
			if tok.kind != tokName {
				return document{}, false
			}
		}
		switch {
		case tok.kind == tokEnd:
			return d, distinct(d.operations)
		case tok.is('{'):
			op := operation{kind: opQuery}
			if !lex.set(&op.root, 0) {
				return document{}, false
			}
			d.operations = append(d.operations, op)
		case tok.kind == tokName && tok.text == "fragment":
			if !lex.fragment(&d) {
				return document{}, false
			}
		case tok.kind == tokName && typeOf(tok.text) != opUnknown:
			op := operation{kind: typeOf(tok.text)}
			if !lex.definition(&op.name, &op.root) {
				return document{}, false
			}
			d.operations = append(d.operations, op)
		default:
			return document{}, false
		}
	}
}

// distinct reports whether the operations can stand in one document: at least
// one, names unique, an anonymous one alone.
func distinct(operations []operation) bool {
	seen := make(map[string]bool, len(operations))
	for _, op := range operations {
		if seen[op.name] || op.name == "" && len(operations) > 1 {
			return false
		}
		seen[op.name] = true
	}
	return len(operations) > 0
}

// fragment reads a definition of a fragment from behind the keyword. Of two with
// one name it cannot be told which one is meant.
func (l *graphqlLexer) fragment(d *document) bool {
	var name string
	var set selection
	if !l.definition(&name, &set) {
		return false
	}
	if _, twice := d.fragments[name]; twice {
		return false
	}
	if d.fragments == nil {
		d.fragments = map[string]selection{}
	}
	d.fragments[name] = set
	return true
}

// definition reads from behind the keyword to the end of the selection set. The
// name is the one that stands right there, if there is one.
func (l *graphqlLexer) definition(name *string, set *selection) bool {
	tok := l.next()
	if tok.kind == tokName {
		*name = tok.text
		tok = l.next()
	}
	for {
		switch {
		case tok.is('{'):
			return l.set(set, 0)
		case tok.is('('):
			if !l.skipTo(')') {
				return false
			}
		case tok.is('@'), tok.kind == tokName:
		default:
			return false
		}
		tok = l.next()
	}
}

// mostDepth bounds brackets in one another.
const mostDepth = 200

// set reads a selection set from behind its bracket (section 2.4).
func (l *graphqlLexer) set(into *selection, depth int) bool {
	if depth > mostDepth {
		return false
	}
	tok := l.next()
	for ok := true; !tok.is('}'); {
		switch {
		case tok.kind == tokName:
			tok, ok = l.field(tok.text, into)
		case tok.kind == tokPunctuator && tok.text == "...":
			tok, ok = l.spread(into, depth)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}

// field reads a field from behind its first name, which is its alias when a colon
// follows. It returns the token behind the field.
func (l *graphqlLexer) field(name string, into *selection) (token, bool) {
	tok := l.next()
	if tok.is(':') {
		if tok = l.next(); tok.kind != tokName {
			return tok, false
		}
		name, tok = tok.text, l.next()
	}
	into.fields = append(into.fields, name)
	if tok.is('(') {
		if !l.skipTo(')') {
			return tok, false
		}
		tok = l.next()
	}
	tok, ok := l.directives(tok)
	if !ok || !tok.is('{') {
		return tok, ok
	}
	ok = l.skipTo('}')
	return l.next(), ok
}

// spread reads from behind the three dots: the name of a fragment, or a fragment
// that stands right there, with or without a type.
func (l *graphqlLexer) spread(into *selection, depth int) (token, bool) {
	tok := l.next()
	if tok.kind == tokName && tok.text != "on" {
		into.spreads = append(into.spreads, tok.text)
		return l.directives(l.next())
	}
	if tok.kind == tokName {
		if tok = l.next(); tok.kind != tokName {
			return tok, false
		}
		tok = l.next()
	}
	tok, ok := l.directives(tok)
	if !ok || !tok.is('{') || !l.set(into, depth+1) {
		return tok, false
	}
	return l.next(), true
}

// directives passes directives that begin with tok, and returns what is behind.
func (l *graphqlLexer) directives(tok token) (token, bool) {
	for tok.is('@') {
		if tok = l.next(); tok.kind != tokName {
			return tok, false
		}
		if tok = l.next(); tok.is('(') {
			if !l.skipTo(')') {
				return tok, false
			}
			tok = l.next()
		}
	}
	return tok, tok.kind != tokInvalid && tok.kind != tokEnd
}

// skipTo reads to the bracket that closes the one just read.
func (l *graphqlLexer) skipTo(closing byte) bool {
	open := append(make([]byte, 0, 32), closing)
	for len(open) > 0 {
		tok := l.next()
		switch {
		case tok.kind == tokEnd, tok.kind == tokInvalid, len(open) > mostDepth:
			return false
		case tok.is('{'):
			open = append(open, '}')
		case tok.is('('):
			open = append(open, ')')
		case tok.is('['):
			open = append(open, ']')
		case tok.is('}'), tok.is(')'), tok.is(']'):
			if tok.text[0] != open[len(open)-1] {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return true
}
