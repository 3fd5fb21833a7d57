package classifier

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// opType is the type of a GraphQL operation, the worst one last.
type opType uint8

const (
	opUnknown opType = iota
	opQuery
	opSubscription
	opMutation
)

func typeOf(word string) opType {
	switch word {
	case "query":
		return opQuery
	case "subscription":
		return opSubscription
	case "mutation":
		return opMutation
	}
	return opUnknown
}

// anyOperation is what a request counts as when its operation cannot be known:
// a persisted query, a document that does not parse, parameters in two places.
func anyOperation() call { return call{kind: opMutation, unknown: true} }

// graphqlRequest is one GraphQL request over HTTP.
type graphqlRequest struct {
	document  string
	operation string
	hash      string // of the persisted query
	opaque    bool   // something names an operation that we cannot see
}

// graphqlCalls reads the operations out of the query string or the body.
func graphqlCalls(query string, b *Body) ([]call, *Error) {
	fromURL, inURL, err := graphqlFromQuery(query)
	if err != nil {
		return nil, err
	}
	inBody := b != nil && b.given
	switch {
	case inURL && inBody:
		return []call{anyOperation()}, nil // servers differ in which one they execute
	case inURL:
		return []call{fromURL.call()}, nil
	case !inBody:
		return []call{anyOperation()}, nil
	case b.form != nil:
		r, err := graphqlFromForm(b)
		return []call{r.call()}, err
	}
	batch, ok := b.json.([]any)
	if !ok {
		batch = []any{b.json}
	}
	if len(batch) == 0 {
		return []call{anyOperation()}, nil
	}
	calls := make([]call, len(batch))
	for i, element := range batch {
		r, err := graphqlFromJSON(element)
		if err != nil {
			return nil, err
		}
		calls[i] = r.call()
	}
	return calls, nil
}

func graphqlFromQuery(query string) (r graphqlRequest, any bool, err *Error) {
	if query == "" {
		return r, false, nil
	}
	extensions := ""
	for _, field := range [...]struct {
		name string
		into *string
	}{{"query", &r.document}, {"operationName", &r.operation}, {"extensions", &extensions}} {
		value, found, err := queryValue(query, field.name)
		if err != nil {
			return r, false, err
		}
		*field.into, any = value, any || found
	}
	for _, name := range otherIdentifiers() {
		_, found, err := queryValue(query, name)
		if err != nil {
			return r, false, err
		}
		r.opaque, any = r.opaque || found, any || found
	}
	r.readExtensionsText(extensions)
	return r, any, nil
}

func graphqlFromForm(b *Body) (r graphqlRequest, err *Error) {
	extensions := ""
	for _, field := range [...]struct {
		name string
		into *string
	}{{"query", &r.document}, {"operationName", &r.operation}, {"extensions", &extensions}} {
		value, found, err := b.field([]string{field.name}, decidesAction)
		if err != nil {
			return r, err
		}
		text, single := value.(string)
		if found && !single {
			return r, twice(field.name)
		}
		*field.into = text
	}
	for name := range b.form {
		r.opaque = r.opaque || namesOperation(name)
	}
	r.readExtensionsText(extensions)
	return r, nil
}

func graphqlFromJSON(element any) (r graphqlRequest, err *Error) {
	message, ok := element.(map[string]any)
	if !ok {
		return graphqlRequest{opaque: true}, nil
	}
	for _, field := range [...]struct {
		name string
		into *string
	}{{"query", &r.document}, {"operationName", &r.operation}} {
		value, _, err := member(message, field.name, decidesAction)
		if err != nil {
			return r, err
		}
		text, isText := value.(string)
		*field.into = text
		r.opaque = r.opaque || value != nil && !isText
	}
	extensions, _, err := member(message, "extensions", decidesAction)
	if err != nil {
		return r, err
	}
	for name := range message {
		r.opaque = r.opaque || namesOperation(name)
	}
	r.readExtensions(extensions)
	return r, nil
}

// otherIdentifiers are the names under which servers take a stored operation.
func otherIdentifiers() [6]string {
	return [...]string{"id", "documentId", "doc_id", "queryId", "query_id", "hash"}
}

func namesOperation(name string) bool {
	for _, other := range otherIdentifiers() {
		if strings.EqualFold(name, other) {
			return true
		}
	}
	return false
}

func (r *graphqlRequest) readExtensionsText(text string) {
	if text == "" {
		return
	}
	extensions, err := parseJSON([]byte(text))
	if err != nil {
		r.opaque = true
		return
	}
	r.readExtensions(extensions)
}

func (r *graphqlRequest) readExtensions(extensions any) {
	members, ok := extensions.(map[string]any)
	if !ok {
		r.opaque = r.opaque || extensions != nil
		return
	}
	for name, persisted := range members {
		if !strings.EqualFold(name, "persistedQuery") || persisted == nil {
			continue
		}
		fields, _ := persisted.(map[string]any)
		hash, ok := fields["sha256Hash"].(string)
		r.hash, r.opaque = hash, r.opaque || !ok
	}
}

// call says what the request executes.
func (r *graphqlRequest) call() call {
	if r.opaque || r.document == "" {
		return anyOperation()
	}
	if r.hash != "" {
		sum := sha256.Sum256([]byte(r.document))
		if !strings.EqualFold(r.hash, hex.EncodeToString(sum[:])) {
			return anyOperation()
		}
	}
	operations, ok := parseGraphQL(r.document)
	if !ok {
		return anyOperation()
	}
	return execute(operations, r.operation)
}

// operation is one executable operation of a document.
type operation struct {
	kind opType
	name string
}

// execute is GetOperation of the GraphQL specification (section 6.1), but for a
// missing name among several operations, where the worst type counts.
func execute(operations []operation, name string) call {
	if name == "" && len(operations) == 1 {
		return call{kind: operations[0].kind, name: operations[0].name}
	}
	worst := opUnknown
	for _, op := range operations {
		if name != "" && op.name == name {
			return call{kind: op.kind, name: name}
		}
		worst = max(worst, op.kind)
	}
	if name != "" {
		return anyOperation()
	}
	return call{kind: worst}
}

// parseGraphQL lists the operations of an executable document. It checks what
// decides where one definition ends and the next begins, and no more.
func parseGraphQL(document string) ([]operation, bool) {
	lex := graphqlLexer{src: document}
	var operations []operation
	for {
		tok := lex.next()
		if tok.kind == tokString { // a description
			tok = lex.next()
			if tok.kind != tokName {
				return nil, false
			}
		}
		switch {
		case tok.kind == tokEnd:
			return operations, distinct(operations)
		case tok.is('{'):
			operations = append(operations, operation{kind: opQuery})
			if !lex.skipTo('}') {
				return nil, false
			}
		case tok.kind == tokName && tok.text == "fragment":
			if _, ok := lex.definition(); !ok {
				return nil, false
			}
		case tok.kind == tokName && typeOf(tok.text) != opUnknown:
			name, ok := lex.definition()
			if !ok {
				return nil, false
			}
			operations = append(operations, operation{typeOf(tok.text), name})
		default:
			return nil, false
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

// definition reads from behind the keyword to the end of the selection set and
// returns the first name, if one stands right there.
func (l *graphqlLexer) definition() (name string, ok bool) {
	tok := l.next()
	if tok.kind == tokName {
		name = tok.text
		tok = l.next()
	}
	for {
		switch {
		case tok.is('{'):
			return name, l.skipTo('}')
		case tok.is('('):
			if !l.skipTo(')') {
				return "", false
			}
		case tok.is('@'), tok.kind == tokName:
		default:
			return "", false
		}
		tok = l.next()
	}
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
