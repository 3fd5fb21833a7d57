package classifier

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/kimbap-run/kimbap/classifier/graphql"
	"github.com/kimbap-run/kimbap/classifier/strictjson"
)

// anyOperation is what a request counts as when its operation cannot be known:
// a persisted query, a document that does not parse, parameters in two places.
func anyOperation() call { return call{kind: graphql.Mutation, unknown: true} }

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

func graphqlFromQuery(query string) (r graphqlRequest, given bool, err *Error) {
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
		*field.into, given = value, given || found
	}
	for _, name := range otherIdentifiers() {
		_, found, err := queryValue(query, name)
		if err != nil {
			return r, false, err
		}
		r.opaque, given = r.opaque || found, given || found
	}
	r.readExtensionsText(extensions)
	return r, given, nil
}

func graphqlFromForm(b *Body) (r graphqlRequest, err *Error) {
	extensions := ""
	for _, field := range [...]struct {
		name string
		into *string
	}{{"query", &r.document}, {"operationName", &r.operation}, {"extensions", &extensions}} {
		value, found, err := b.field([]string{field.name}, strictness{})
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
		value, _, err := member(message, field.name, strictness{})
		if err != nil {
			return r, err
		}
		text, isText := value.(string)
		*field.into = text
		r.opaque = r.opaque || value != nil && !isText
	}
	extensions, _, err := member(message, "extensions", strictness{})
	if err != nil {
		return r, err
	}
	for name := range message {
		r.opaque = r.opaque || namesOperation(name)
	}
	r.readExtensions(extensions)
	return r, nil
}

// otherIdentifiers are the names under which servers take a stored operation, and
// the one under which Rails has a batch: what stands there is executed instead.
func otherIdentifiers() [9]string {
	return [...]string{"id", "documentId", "doc_id", "queryId", "query_id", "operationId", "operation_id", "hash", "_json"}
}

func namesOperation(name string) bool {
	for _, other := range otherIdentifiers() {
		if SameParameter(name, other) {
			return true
		}
	}
	return false
}

func (r *graphqlRequest) readExtensionsText(text string) {
	if text == "" {
		return
	}
	extensions, err := strictjson.Parse([]byte(text))
	if err != nil {
		r.opaque = true
		return
	}
	r.readExtensions(extensions)
}

// readExtensions finds the hash of a persisted query, and whether a stored operation is named
// there. Servers differ in whether a name in
// another case is it too, so that what they execute then is unknown.
func (r *graphqlRequest) readExtensions(extensions any) {
	members, ok := extensions.(map[string]any)
	if !ok {
		r.opaque = r.opaque || extensions != nil
		return
	}
	for name := range members {
		r.opaque = r.opaque || namesOperation(name)
	}
	persisted, _, err := member(members, "persistedQuery", strictness{})
	if err == nil && persisted == nil {
		return
	}
	fields, _ := persisted.(map[string]any)
	value, _, twin := member(fields, "sha256Hash", strictness{})
	hash, ok := value.(string)
	r.hash, r.opaque = hash, r.opaque || err != nil || twin != nil || !ok
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
	d, ok := graphql.Parse(r.document)
	if !ok {
		return anyOperation()
	}
	return callOf(&d, d.GetOperation(r.operation))
}

// callOf is what one of the operations does. Of several that could be executed the worst
// type counts, and the fields of all.
func callOf(d *graphql.Document, operations []graphql.Operation) call {
	fields, ok := d.RootFields(operations)
	all, whole := d.AllFields(operations)
	if !ok || !whole || len(operations) == 0 {
		return anyOperation()
	}
	c := call{fields: fields, all: all}
	if len(operations) == 1 {
		c.name = operations[0].Name
	}
	for i := range operations {
		c.kind = max(c.kind, operations[i].Type)
	}
	return c
}
