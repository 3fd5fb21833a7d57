package services

import (
	"net/http"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// constant is a value that a match condition demands of a built request.
type constant struct {
	in    runtime.Place
	name  string
	value any
	node  *yaml.Node
}

// match reads the discriminators.
func (p *parser) match(op *operation) {
	n := op.get("match")
	if n == nil {
		return
	}
	label := op.name + ".match"
	m := p.object(n, label, "query", "header", "body", "graphql", "jsonrpc")
	d := &op.route.Match
	d.Query = p.conditions(op, m, "query", runtime.InQuery)
	d.Header = p.conditions(op, m, "header", runtime.InHeader)
	d.Body = p.conditions(op, m, "body", runtime.InBody)
	if g := m.get("graphql"); g != nil {
		d.GraphQL = p.graphql(p.object(g, label+".graphql", "type", "operation", "fields"))
	}
	if j := m.get("jsonrpc"); j != nil {
		o := p.object(j, label+".jsonrpc", "method", "params")
		d.JSONRPC = &classifier.JSONRPC{Method: o.needed("method", "add method: tools/call")}
		d.JSONRPC.Params = p.conditions(nil, o, "params", "")
	}
	if d.GraphQL != nil && d.JSONRPC != nil {
		p.bad(n, "keep one", "%s: a request is GraphQL or JSON-RPC, not both", label)
	}
	op.discerning = len(d.Body) > 0 || d.GraphQL != nil || d.JSONRPC != nil
}

// graphql reads what a GraphQL operation is told by. One pattern of fields may
// stand by itself, without a list.
func (p *parser) graphql(o *object) *classifier.GraphQL {
	g := &classifier.GraphQL{Type: o.oneOf("type", "", "query", "mutation", "subscription"), Operation: o.text("operation")}
	n := o.get("fields")
	switch {
	case n == nil && g.Type == "" && g.Operation == "":
		p.bad(o.node, "add type: query", "%s needs a type, an operation or fields", o.name)
	case n == nil:
	case n.Kind == yaml.ScalarNode:
		g.Fields = []string{n.Value}
	default:
		g.Fields = o.texts("fields")
	}
	if n != nil && len(g.Fields) == 0 {
		p.bad(n, "write names of root fields, like [delete*]", "%s.fields is empty", o.name)
	}
	if err := classifier.CheckFields(g.Fields); err != nil {
		p.bad(n, "write names of root fields, like [delete*, \"*Delete\"]", "%s.fields: %s", o.name, err)
		g.Fields = nil
	}
	return g
}

// conditions reads one mapping of discriminators. What a condition demands in
// the first level of a place is kept as a constant for built requests.
func (p *parser) conditions(op *operation, m *object, name string, in runtime.Place) map[string]string {
	var out map[string]string
	for _, c := range m.pairs(name) {
		key := c.name
		if in == runtime.InHeader {
			key = http.CanonicalHeaderKey(key)
			p.checkHeader(c.key, m.label(name), key)
			if p.ownsHeader(key) {
				p.bad(c.key, "tell the actions apart by something else", "%s: %s is where the credential goes", m.label(name), key)
			}
		}
		if p.s.Auth.Type == runtime.AuthQuery && in == runtime.InQuery && classifier.SameParameter(key, p.s.Auth.Query) {
			p.bad(c.key, "tell the actions apart by something else", "%s: %s is where the credential goes", m.label(name), shown(key))
		}
		if c.value.Kind != yaml.ScalarNode {
			p.wrong(c.value, m.label(name)+"."+c.name, "one plain value")
			continue
		}
		if len(holes(c.value.Value)) > 0 || pathOnly(c.value.Value) != "" {
			p.bad(c.value, "write the value itself, or \"*\" for any", "%s.%s is a fixed value and cannot name an argument", m.label(name), c.name)
			continue
		}
		if in != runtime.InQuery && in != runtime.InHeader && strings.Contains(c.value.Value, "|") {
			p.bad(c.value, "make an action for each value", "%s.%s: \"|\" joins values in a query or header only", m.label(name), c.name)
			continue
		}
		value, ok := p.scalar(c.value, m.label(name)+"."+c.name)
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = c.value.Value
		if value == nil {
			out[key] = "null"
		}
		if b, isBool := value.(bool); isBool {
			out[key] = boolText(b)
		}
		if op != nil {
			name := key
			if in == runtime.InBody { // of several places the first is sent
				name, _, _ = strings.Cut(key, "|")
			}
			op.constants = append(op.constants, constant{in, name, value, c.value})
		}
	}
	return out
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// constants adds to a built request what the match conditions demand and no
// mapping sends, so that the request is the action it was asked for.
func (p *parser) constants(op *operation) {
	spec := op.action.HTTP
	for _, c := range op.constants {
		text := c.node.Value
		if c.in != runtime.InBody { // of several values the first is sent
			text, _, _ = strings.Cut(text, "|")
		}
		switch {
		case c.in == runtime.InQuery && text != "*":
			if !slices.ContainsFunc(spec.Query, func(f runtime.Field) bool { return f.Name == c.name }) {
				spec.Query = append(spec.Query, field(c.name, text))
			}
		case c.in == runtime.InHeader && text != "*":
			if !slices.ContainsFunc(spec.Headers, func(f runtime.Field) bool { return f.Name == c.name }) {
				spec.Headers = append(spec.Headers, field(c.name, text))
			}
		case c.in == runtime.InBody && text != "*":
			p.bodyConstant(op, c)
		}
	}
	if op.discerning && (spec.BodyType == "raw" || spec.BodyType == "multipart") {
		p.bad(op.at("match"), "use body_type: json or form", "%s.match looks into the body, which of type %s is not read", op.name, spec.BodyType)
	}
}

func (p *parser) bodyConstant(op *operation, c constant) {
	pointer, each := strings.CutSuffix(c.name, "/*")
	if each {
		c.value = []any{c.value}
	}
	name, ok := topLevel(pointer)
	spec := op.action.HTTP
	if !ok || spec.Method == http.MethodGet || spec.Method == http.MethodHead {
		return
	}
	if spec.Body == nil {
		spec.Body = &runtime.Template{Value: map[string]any{}}
		if spec.BodyType == "" {
			spec.BodyType = "json"
		}
	}
	if members, isMap := spec.Body.Value.(map[string]any); isMap {
		if _, mapped := members[name]; !mapped {
			members[name] = c.value
		}
	}
}

// topLevel returns the member that a JSON pointer of one step names.
func topLevel(pointer string) (string, bool) {
	if pointer == "" {
		return "", false
	}
	if pointer[0] != '/' {
		return pointer, true
	}
	for i := 1; i < len(pointer); i++ {
		if pointer[i] == '/' {
			return "", false
		}
	}
	return unescapePointer(pointer[1:]), true
}
