package graphql

// Parse reads an executable document. Where ok is false it cannot be read, and the
// document is of no use.
//
// It checks what decides where a definition ends, where a field ends and what its name
// is, and no more: values may be of any kind, directives and types unknown.
func Parse(text string) (d Document, ok bool) {
	lex := lexer{src: text}
	for {
		tok := lex.next()
		if tok.kind == tokString { // a description
			tok = lex.next()
			if tok.kind != tokName {
				return Document{}, false
			}
		}
		switch {
		case tok.kind == tokEnd:
			return d, distinct(d.operations)
		case tok.is('{'):
			op := Operation{Type: Query}
			if !lex.set(&op.set.root, &op.set.all, 0) {
				return Document{}, false
			}
			d.operations = append(d.operations, op)
		case tok.kind == tokName && tok.text == "fragment":
			if !lex.fragment(&d) {
				return Document{}, false
			}
		case tok.kind == tokName && TypeOf(tok.text) != UnknownType:
			op := Operation{Type: TypeOf(tok.text)}
			if !lex.definition(&op.Name, &op.set) {
				return Document{}, false
			}
			d.operations = append(d.operations, op)
		default:
			return Document{}, false
		}
	}
}

// distinct reports whether the operations can stand in one document: at least
// one, names unique, an anonymous one alone.
func distinct(operations []Operation) bool {
	seen := make(map[string]bool, len(operations))
	for _, op := range operations {
		if seen[op.Name] || op.Name == "" && len(operations) > 1 {
			return false
		}
		seen[op.Name] = true
	}
	return len(operations) > 0
}

// fragment reads a definition of a fragment from behind the keyword. Of two with
// one name it cannot be told which one is meant.
func (l *lexer) fragment(d *Document) bool {
	var name string
	var set selectionSet
	if !l.definition(&name, &set) {
		return false
	}
	if _, twice := d.fragments[name]; twice {
		return false
	}
	if d.fragments == nil {
		d.fragments = map[string]selectionSet{}
	}
	d.fragments[name] = set
	return true
}

// definition reads from behind the keyword to the end of the selection set. The
// name is the one that stands right there, if there is one.
func (l *lexer) definition(name *string, set *selectionSet) bool {
	tok := l.next()
	if tok.kind == tokName {
		*name = tok.text
		tok = l.next()
	}
	for {
		switch {
		case tok.is('{'):
			return l.set(&set.root, &set.all, 0)
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

// set reads a selection set from behind its bracket (section 2.4), what stands in it into
// both, and the sets below it into all alone.
func (l *lexer) set(into, all *selections, depth int) bool {
	if depth > mostDepth {
		return false
	}
	tok := l.next()
	for ok := true; !tok.is('}'); {
		switch {
		case tok.kind == tokName:
			tok, ok = l.field(tok.text, into, all, depth)
		case tok.kind == tokPunctuator && tok.text == "...":
			tok, ok = l.spread(into, all, depth)
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
func (l *lexer) field(name string, into, all *selections, depth int) (token, bool) {
	tok := l.next()
	if tok.is(':') {
		if tok = l.next(); tok.kind != tokName {
			return tok, false
		}
		name, tok = tok.text, l.next()
	}
	if all.fields = append(all.fields, name); into != all {
		into.fields = append(into.fields, name)
	}
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
	ok = l.set(all, all, depth+1)
	return l.next(), ok
}

// spread reads from behind the three dots: the name of a fragment, or a fragment
// that stands right there, with or without a type.
func (l *lexer) spread(into, all *selections, depth int) (token, bool) {
	tok := l.next()
	if tok.kind == tokName && tok.text != "on" {
		if all.spreads = append(all.spreads, tok.text); into != all {
			into.spreads = append(into.spreads, tok.text)
		}
		return l.directives(l.next())
	}
	if tok.kind == tokName {
		if tok = l.next(); tok.kind != tokName {
			return tok, false
		}
		tok = l.next()
	}
	tok, ok := l.directives(tok)
	if !ok || !tok.is('{') || !l.set(into, all, depth+1) {
		return tok, false
	}
	return l.next(), true
}

// directives passes directives that begin with tok, and returns what is behind.
func (l *lexer) directives(tok token) (token, bool) {
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
func (l *lexer) skipTo(closing byte) bool {
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
