package services

import (
	"net/http"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// The body of a request: what fills it, and how that is read back.

func (p *parser) body(op *operation, r *object) {
	n, spec := r.get("body"), op.action.HTTP
	if n != nil || r.get("body_type") != nil || !bodiless(spec.Method) {
		spec.BodyType = r.oneOf("body_type", "json", "json", "form", "multipart", "raw")
	}
	p.contentType(op, r)
	if n == nil {
		if r.get("body_type") != nil && spec.BodyType == "raw" {
			p.bad(r.at("body_type"), `add body: "{input}"`, "%s.body_type raw needs a body", r.name)
		}
		return
	}
	if spec.Method == http.MethodGet || spec.Method == http.MethodHead {
		p.bad(n, "use query", "%s.body: a %s has no body (RFC 9110 section 9.3.1)", r.name, spec.Method)
		return
	}
	if spec.BodyType == "raw" && n.Kind != yaml.ScalarNode {
		p.bad(n, `write body: "{input}"`, "%s.body of type raw is one text", r.name)
		return
	}
	if spec.BodyType != "raw" && n.Kind == yaml.ScalarNode && whole(n.Value) == "" {
		p.bad(n, `write "{input}" for an argument that is the whole body, or {title: "{title}"} for members`, "%s.body must be one argument or a mapping", r.name)
		return
	}
	if tree, ok := p.tree(op, n, r.name+".body", false); ok {
		p.credentialField(n, r)
		spec.Body = &runtime.Template{Value: tree}
		p.readBody(op, tree, "")
	}
}

// contentType refuses an argument for the type of a body in parts, which has its boundary.
func (p *parser) contentType(op *operation, r *object) {
	if op.action.HTTP.BodyType != "multipart" {
		return
	}
	for _, m := range r.pairs("headers") {
		if http.CanonicalHeaderKey(m.name) == "Content-Type" && len(holes(m.value.Value)) > 0 {
			p.bad(m.value, "leave it out: kimbap writes the type with its boundary", "%s.headers.%s: no argument is the type of a multipart body", r.name, m.name)
		}
	}
}

// inParts refuses a DELETE in parts: some servers read its body as they do its query, and
// what that is must be readable. A call of it would be refused, and a program's too.
func (p *parser) inParts(op *operation, r *object) {
	if spec := op.action.HTTP; spec.BodyType == "multipart" && spec.Method == http.MethodDelete {
		p.bad(r.at("body_type"), "use body_type: json or form", "%s cannot be called: the body of a DELETE is read as its query is, and one in parts is not", op.name)
	}
}

// credentialField refuses a member that the credential of type body overwrites.
func (p *parser) credentialField(n *yaml.Node, r *object) {
	if p.s.Auth.Type != runtime.AuthBody || n.Kind != yaml.MappingNode {
		return
	}
	for _, m := range p.pairsOf(n, r.name+".body") {
		if classifier.SameParameter(m.name, p.s.Auth.Field) {
			p.bad(m.key, "leave it out", "%s.body: %s is where the credential goes", r.name, shown(m.name))
		}
	}
}

// tree reads a body with its holes, or what is within one.
func (p *parser) tree(op *operation, n *yaml.Node, name string, within bool) (any, bool) {
	switch n.Kind {
	case yaml.MappingNode:
		if kind := op.action.HTTP.BodyType; within && (kind == "form" || kind == "multipart" && !isFileNode(n)) {
			p.bad(n, "write each as a field of its own, as the API names it, like \"a[b]\"; an argument of type object is sent as JSON text", "%s: a field of a form has no members", name)
			return nil, false
		}
		out := map[string]any{}
		for _, m := range p.pairsOf(n, name) {
			if len(holes(m.name)) > 0 {
				p.bad(m.key, "write the name itself; members of any name are an argument with rest: true", "%s: the name of a member cannot come from an argument", name)
			}
			v, ok := p.tree(op, m.value, name+"."+m.name, true)
			if !ok {
				return nil, false
			}
			out[m.name] = v
		}
		return out, true
	case yaml.SequenceNode:
		if op.action.HTTP.BodyType != "json" {
			p.bad(n, "use body_type: json, or an argument of type array", "%s: a form has no lists", name)
			return nil, false
		}
		out := make([]any, 0, len(n.Content))
		for i, child := range n.Content {
			v, ok := p.tree(op, child, name+"."+strconv.Itoa(i), true)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	case yaml.ScalarNode:
		v, ok := p.scalar(n, name)
		if _, isText := v.(string); ok && isText {
			return p.template(op, n, name), true
		}
		return v, ok
	}
	return nil, false
}

// isFileNode reports whether a mapping is a file of a multipart body.
func isFileNode(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "filename" {
			return true
		}
	}
	return false
}

// readBody lets the classifier read the arguments of a body back. Multipart and
// raw bodies are not read.
func (p *parser) readBody(op *operation, tree any, pointer string) {
	switch v := tree.(type) {
	case string:
		op.place(v, runtime.InBody)
		if t := op.action.HTTP.BodyType; t == "json" || t == "form" {
			key := pointer
			if t == "form" {
				key = unescapePointer(strings.TrimPrefix(pointer, "/"))
			}
			op.readBack(v, classifier.InBody, key)
		}
	case []any:
		for i, child := range v {
			p.readBody(op, child, pointer+"/"+strconv.Itoa(i))
		}
	case map[string]any:
		for _, name := range sortedKeys(v) {
			p.readBody(op, v[name], pointer+"/"+escapePointer(name))
		}
	}
}

// escapePointer and unescapePointer are RFC 6901 section 3 and 4.
func escapePointer(s string) string {
	if !strings.ContainsAny(s, "~/") { // a replacer is dear, and nearly every name is plain
		return s
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

func unescapePointer(s string) string {
	if strings.IndexByte(s, '~') < 0 {
		return s
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
}
