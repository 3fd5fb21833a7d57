package classifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier/graphql"
)

// condition is one discriminator on a query parameter, a header field or a
// place in the body.
type condition struct {
	place   Place
	key     string     // decoded; canonical for header fields
	tokens  []string   // of the JSON pointer
	others  [][]string // of further pointers: the value in one of the places is enough
	value   string
	or      []string // further values, in a query or head: one is enough
	present bool     // any value will do, in a body but null
}

type rpcCondition struct {
	method string
	params []condition
}

const (
	exactly    = 2 // weight of a condition on one value
	justExists = 1 // weight of a condition on presence
)

func (c *compiled) compileConditions(d Discriminators) error {
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(d.Query)) {
		cond, err := headCondition(InQuery, key, d.Query[key])
		c.conditions, problems = append(c.conditions, cond), append(problems, err)
	}
	for _, key := range slices.Sorted(maps.Keys(d.Header)) {
		cond, err := headCondition(InHeader, http.CanonicalHeaderKey(key), d.Header[key])
		c.conditions, problems = append(c.conditions, cond), append(problems, err)
	}
	for _, key := range slices.Sorted(maps.Keys(d.Body)) {
		cond := condition{place: InBody, key: key, value: d.Body[key], present: d.Body[key] == "*"}
		problems = append(problems, cond.point(key))
		c.conditions = append(c.conditions, cond)
		c.readsBody = true
	}
	for _, cond := range c.conditions {
		c.weight += cond.weight()
	}
	problems = append(problems, c.compileGraphQL(d.GraphQL), c.compileRPC(d.JSONRPC))
	if d.GraphQL != nil && d.JSONRPC != nil {
		problems = append(problems, errors.New("a request is GraphQL or JSON-RPC, not both"))
	}
	return errors.Join(problems...)
}

// point reads the JSON pointers of a body condition, which "|" joins. Where there
// is one, each begins with a slash: a name that holds "|" cannot be told from two
// places and is refused, or a forgotten slash would be a condition that nothing meets.
func (c *condition) point(key string) error {
	places := strings.Split(key, "|")
	for i, place := range places {
		if len(places) > 1 && !strings.HasPrefix(place, "/") {
			return fmt.Errorf("%q: every place that \"|\" joins begins with \"/\"", key)
		}
		tokens, err := parsePointer(place)
		if err != nil {
			return err
		}
		if i == 0 {
			c.tokens = tokens
			continue
		}
		c.others = append(c.others, tokens)
	}
	return nil
}

func (c *compiled) compileGraphQL(g *GraphQL) error {
	if g == nil {
		return nil
	}
	if g.Type == "" && g.Operation == "" && len(g.Fields) == 0 {
		return errors.New("the graphql condition needs a type, an operation or fields")
	}
	if g.Type != "" && graphql.TypeOf(g.Type) == graphql.UnknownType {
		return fmt.Errorf("%q is not a GraphQL operation type: query, mutation or subscription", g.Type)
	}
	if err := CheckFields(g.Fields); err != nil {
		return err
	}
	c.graphql, c.protocol, c.readsBody = g, speaksGraphQL, true
	if len(g.Fields) > 0 {
		c.weight += justExists // less than a whole document, which may have such a field
	}
	for _, selector := range []string{g.Type, g.Operation} {
		if selector != "" {
			c.weight += exactly
		}
	}
	c.know()
	return nil
}

func (c *compiled) compileRPC(r *JSONRPC) error {
	if r == nil {
		return nil
	}
	if r.Method == "" {
		return errors.New("the jsonrpc condition needs a method")
	}
	c.jsonrpc, c.protocol, c.readsBody = &rpcCondition{method: r.Method}, speaksJSONRPC, true
	c.weight += exactly
	for _, key := range slices.Sorted(maps.Keys(r.Params)) {
		cond := condition{place: InBody, key: key, value: r.Params[key], present: r.Params[key] == "*"}
		if err := cond.point(key); err != nil {
			return err
		}
		c.jsonrpc.params = append(c.jsonrpc.params, cond)
		c.weight += cond.weight()
	}
	return nil
}

// bodyHolds judges the conditions on the body that belong to no protocol. What
// decides may not stand in the query: some servers read it there too.
func (c *compiled) bodyHolds(b *Body, query string) (bool, *Error) {
	for i := range c.conditions {
		if cond := &c.conditions[i]; cond.place == InBody {
			if err := cond.besideBody(query, c.protocol); err != nil {
				return false, err
			}
			if met, err := cond.holdsIn(b); err != nil || !met {
				return false, err
			}
		}
	}
	return true, nil
}

// besideBody refuses what decides in the body where it stands in the query. GraphQL
// knows its own names there.
func (c *condition) besideBody(query string, p protocol) *Error {
	if query == "" || p == speaksGraphQL {
		return nil
	}
	for i := -1; i < len(c.others); i++ {
		tokens := c.tokens
		if i >= 0 {
			tokens = c.others[i]
		}
		if len(tokens) == 0 {
			continue
		}
		if _, found, err := queryValue(query, tokens[0]); err != nil || found {
			return twoPlaces(tokens[0])
		}
		if (len(tokens) > 1 || c.present) && queryHasPart(query, tokens[0]) {
			return twoPlaces(tokens[0])
		}
	}
	return nil
}

// nestedField refuses a field of a form by which some frameworks write what stands
// inside of a document: "member[role]" or "member.role" for /member/role.
func (b *Body) nestedField(tokens []string) *Error {
	for key := range b.form {
		if SamePart(key, tokens[0]) {
			return badInput(reasonAmbiguousParameter, "the form field %s decides the action for some servers: send JSON", shown(key))
		}
	}
	return nil
}

// holdsIn looks into every place, so that what is ambiguous in one is refused
// whatever the others hold.
func (c *condition) holdsIn(b *Body) (bool, *Error) {
	met, err := c.holdsAt(b, c.tokens)
	for i := 0; err == nil && i < len(c.others); i++ {
		var here bool
		here, err = c.holdsAt(b, c.others[i])
		met = met || here
	}
	return met && err == nil, err
}

// holdsAt judges one place. What some reader would take for the value and
// another not is refused: a field given twice, 1 or "yes" where true decides, a
// word in another case.
func (c *condition) holdsAt(b *Body, tokens []string) (bool, *Error) {
	each := eachOf(tokens)
	if each {
		tokens = tokens[:len(tokens)-1]
	}
	value, found, err := b.lookup(tokens, strictness{})
	if err == nil && !found && (len(tokens) > 1 || c.present && len(tokens) > 0) {
		err = b.nestedField(tokens)
	}
	if err != nil || !found {
		return false, err
	}
	list, many := value.([]any)
	if !each && many && b.form != nil {
		return false, badInput(reasonDuplicateParameter, "the form field %s decides the action and is given more than once", shown("/"+strings.Join(tokens, "/")))
	}
	if !each || !many { // some readers take one value for a list of it
		return c.judge(b, value, tokens)
	}
	met := false
	for _, element := range list {
		ok, err := c.judge(b, element, tokens)
		if err != nil {
			return false, err
		}
		met = met || ok
	}
	return met, nil
}

// eachOf reports whether a place is that of each element of a list: "/labels/*".
func eachOf(tokens []string) bool { return len(tokens) > 1 && tokens[len(tokens)-1] == "*" }

// judge compares one value.
func (c *condition) judge(b *Body, value any, tokens []string) (bool, *Error) {
	if c.meets(value) {
		return true, nil
	}
	name := "/" + strings.Join(tokens, "/")
	text, isText := value.(string)
	switch {
	case c.value == "true" || c.value == "false":
		if plainBool(value) || b.form != nil && (text == "true" || text == "false") {
			return false, nil
		}
		return false, badInput(reasonAmbiguousParameter, "%s decides the action and is neither true nor false", shown(name))
	case isText && (strings.EqualFold(Trimmed(text), c.value) || SameNumber(text, c.value)):
		return false, badInput(reasonAmbiguousParameter, "%s decides the action: write it %s", shown(name), shown(c.value))
	case c.among(value): // JavaScript takes ["admin"] == "admin" for true
		return false, badInput(reasonAmbiguousParameter, "%s decides the action and is a list: write one value", shown(name))
	}
	return false, nil
}

// among reports whether a value is a list in which, at any depth, something meets the
// condition, or some server reads it as the number that does.
func (c *condition) among(value any) bool {
	list, _ := value.([]any)
	return slices.ContainsFunc(list, func(element any) bool {
		text, isText := element.(string)
		return c.meets(element) || isText && SameNumber(text, c.value) || c.among(element)
	})
}

// plainBool reports whether a JSON value is true, false, or null for neither.
func plainBool(value any) bool {
	_, is := value.(bool)
	return is || value == nil
}

// meets compares a JSON scalar with the condition's text. Numbers are compared
// as numbers: 1.0 must not slip past a condition on 1.
func (c *condition) meets(value any) bool {
	if c.present {
		return value != nil
	}
	switch v := value.(type) {
	case string:
		return v == c.value
	case bool:
		return v && c.value == "true" || !v && c.value == "false"
	case nil:
		return c.value == "null"
	case json.Number:
		return sameNumber(string(v), c.value)
	}
	return false
}

// sameScalar compares the values of two conditions as [condition.meets] would.
func sameScalar(a, b string, place Place) bool {
	return a == b || place == InBody && sameNumber(a, b)
}
