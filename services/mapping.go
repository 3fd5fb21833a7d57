package services

import (
	"net/http"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// request reads the request mapping, adds the defaults, and turns it around
// into the arguments that the classifier reads back.
func (p *parser) request(op *operation) {
	r := &object{source: p.source, node: op.node, name: op.name + ".request"}
	if n := op.get("request"); n != nil {
		r = p.object(n, op.name+".request", "path_params", "query", "headers", "body", "body_type")
	}
	p.pathParams(op, r)
	p.query(op, r)
	p.headers(op, r)
	p.body(op, r)
	p.defaults(op, r)
	p.inParts(op, r)
	p.constants(op)
	p.nullables(op)
	p.push(op)
	if kind := op.action.HTTP.BodyType; kind == "multipart" || kind == "raw" {
		p.unread = append(p.unread, unread{op, r.at("body_type")})
	}
	op.action.Params = make([]runtime.Param, 0, len(op.order))
	for _, name := range op.order {
		a := op.args[name]
		op.action.Params = append(op.action.Params, a.Param)
	}
}

// refs is the argument of every git push.
const refs = "refs"

// push gives an action that takes git pushes the argument refs: a list of
// {name, old, new, kind}, read from the head of the body and sent by nobody.
func (p *parser) push(op *operation) {
	spec := op.action.HTTP
	if !strings.HasSuffix(spec.Path, "/git-receive-pack") || !slices.Contains(op.methods, http.MethodPost) {
		return
	}
	if a := op.args[refs]; a != nil {
		p.bad(a.node, "rename it", "%s: the argument refs of a git push is read from the push itself", op.name)
		return
	}
	spec.Push, op.route.Push = true, true
	op.args[refs] = &argument{Param: runtime.Param{
		Name: refs, Type: runtime.TypeArray, In: runtime.InBody,
		Description: "what is pushed, read from the push itself: name, old, new, kind (create, update or delete)",
	}, node: op.at("path"), used: true}
	op.order = append(op.order, refs)
}

// place notes where an argument stands. The first place wins, and a path
// argument is there in every request.
func (op *operation) place(template string, in runtime.Place) {
	for _, hole := range holes(template) {
		if a := op.args[hole]; a != nil {
			a.used = true
			a.Body = a.Body || in == runtime.InBody
			if a.In == "" {
				a.In = in
			}
		}
	}
}

// readBack lets the classifier read the arguments of a template from a place.
func (op *operation) readBack(template string, in classifier.Place, key string) {
	pattern := inverse(template)
	for i, hole := range holes(template) {
		if a := op.args[hole]; a != nil {
			op.route.Args = append(op.route.Args, classifier.Arg{
				Name: hole, In: in, Key: key, Type: string(a.Type), Pattern: pattern, Group: i, Null: a.Nullable,
			})
		}
	}
}

func (p *parser) pathParams(op *operation, r *object) {
	spec := map[string]string{}
	for _, m := range r.pairs("path_params") {
		if op.action.HTTP.Segment > 0 && m.name == p.s.Auth.Segment {
			p.bad(m.key, "leave it out", "%s.path_params: {%s} is where the credential goes", r.name, m.name)
			continue
		}
		if !slices.ContainsFunc(op.holes, func(h pathHole) bool { return h.name == m.name }) {
			p.bad(m.key, "the path is "+op.action.HTTP.Path, "%s.path_params: the path has no {%s}", r.name, m.name)
			continue
		}
		spec[m.name] = p.template(op, m.value, r.name+".path_params."+m.name)
	}
	for _, h := range op.holes {
		if op.action.HTTP.Segment > 0 && h.name == p.s.Auth.Segment {
			spec[h.name] = p.s.Auth.Prefix + runtime.PathCredential
			if a := op.args[h.name]; a != nil {
				p.bad(a.node, "remove it", "%s: {%s} is where the credential goes, and no argument", op.name, h.name)
			}
			continue
		}
		template, given := spec[h.name]
		if !given {
			template = "{" + h.name + "}"
			p.imply(op, h)
		}
		spec[h.name] = template
		op.place(template, runtime.InPath)
		op.readBack(template, classifier.InPath, h.name)
		for _, hole := range holes(template) {
			if a := op.args[hole]; a != nil && a.Default == nil {
				a.Required = true
			}
		}
	}
	if len(spec) > 0 {
		op.action.HTTP.PathParams = spec
	}
}

// imply declares the argument of a placeholder that args: does not mention.
func (p *parser) imply(op *operation, h pathHole) {
	if op.args[h.name] == nil && request.IsName(h.name) {
		op.args[h.name] = &argument{Param: runtime.Param{Name: h.name, Type: h.typ, Required: true}, node: op.at("path")}
		op.order = append(op.order, h.name)
	}
}

func (p *parser) query(op *operation, r *object) {
	for _, m := range r.pairs("query") {
		if auth := p.s.Auth; auth.Type == runtime.AuthQuery && classifier.SameParameter(m.name, auth.Query) {
			p.bad(m.key, "leave it out", "%s.query: %s is where the credential goes", r.name, shown(m.name))
		}
		template := p.template(op, m.value, r.name+".query."+m.name)
		if len(holes(template)) > 1 {
			p.bad(m.value, "give each argument a parameter of its own", "%s.query.%s: a query parameter holds one argument", r.name, m.name)
			continue
		}
		op.action.HTTP.Query = append(op.action.HTTP.Query, field(m.name, template))
		op.place(template, runtime.InQuery)
		op.readBack(template, classifier.InQuery, m.name)
	}
}

func field(name, template string) runtime.Field {
	return runtime.Field{Name: name, Value: runtime.Template{Value: template}}
}

func (p *parser) headers(op *operation, r *object) {
	seen := map[string]bool{}
	for _, m := range r.pairs("headers") {
		name, label := http.CanonicalHeaderKey(m.name), r.name+".headers."+m.name
		p.checkHeader(m.key, r.name+".headers", name)
		switch {
		case p.ownsHeader(name):
			p.bad(m.key, "say it under auth:", "%s.headers: %s is where the credential goes", r.name, name)
		case seen[name]:
			p.bad(m.key, "remove one of the two", "%s.headers: %s is given twice", r.name, name)
		}
		seen[name] = true
		template := p.template(op, m.value, label)
		p.checkHeaderText(m.value, label, template)
		if strings.Trim(template, " \t") != template {
			p.bad(m.value, "leave the blank out", "%s begins or ends with a blank, which nobody who reads the field would see", label)
		}
		op.action.HTTP.Headers = append(op.action.HTTP.Headers, field(name, template))
		op.place(template, runtime.InHeader)
		op.readBack(template, classifier.InHeader, name)
	}
}

// ownsHeader reports whether a field carries a credential.
func (p *parser) ownsHeader(name string) bool {
	return name == "Authorization" || p.s.Auth.Type == runtime.AuthHeader && name == p.s.Auth.Header
}

// nullables refuses null where nothing could carry it, or where it would read back
// as a text: it is a member of a JSON body by itself.
func (p *parser) nullables(op *operation) {
	for _, name := range op.order {
		a := op.args[name]
		if !a.Nullable {
			continue
		}
		placed, fits := false, op.action.HTTP.BodyType == "json"
		for i := range op.route.Args {
			if one := &op.route.Args[i]; one.Name == name {
				placed, fits = true, fits && one.In == classifier.InBody && one.Key != "" && one.Pattern == nil
			}
		}
		if !placed || !fits {
			p.bad(a.node, "leave nullable out", "argument %s of %s cannot be null: only a member of a JSON body that is this argument alone can", shown(name), op.name)
		}
	}
}

// bodiless methods put arguments that no mapping names into the query.
func bodiless(method string) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions}, method)
}

// defaults gives a place to the arguments that nothing names: the query of a
// request without a body, else the body, each under its own name. Where the
// author wrote that mapping, an argument it leaves out is a mistake. Only the
// members of a rest argument that no template names join what is written.
func (p *parser) defaults(op *operation, r *object) {
	spec, where := op.action.HTTP, "body"
	if bodiless(spec.Method) {
		where = "query"
	}
	written := r.get(where) != nil
	members := map[string]any{}
	for _, name := range op.order {
		a := op.args[name]
		switch {
		case a.used:
		case a.rest && (where == "query" || !written || r.get("body").Kind == yaml.MappingNode):
			a.In = runtime.Place(where) // its members are spread there; nothing is read back
			a.Body = a.In == runtime.InBody
		case written:
			p.bad(a.node, "add it to request."+where+", or remove it", "argument %s of %s goes nowhere: request.%s does not name it", shown(name), op.name, where)
		case where == "query":
			template := "{" + name + "}"
			if p.s.Auth.Type == runtime.AuthQuery && classifier.SameParameter(name, p.s.Auth.Query) {
				p.bad(a.node, "rename it", "%s: query parameter %s is where the credential goes", op.name, shown(name))
			}
			spec.Query = append(spec.Query, field(name, template))
			op.place(template, runtime.InQuery)
			op.readBack(template, classifier.InQuery, name)
		case p.s.Auth.Type == runtime.AuthBody && classifier.SameParameter(name, p.s.Auth.Field):
			p.bad(a.node, "rename it", "%s: member %s is where the credential goes", op.name, shown(name))
		default:
			members[name] = "{" + name + "}"
		}
	}
	if len(members) > 0 {
		spec.Body = &runtime.Template{Value: members}
		p.readBody(op, members, "")
	}
	if spec.Body == nil && !p.spreads(op) && p.s.Auth.Type != runtime.AuthBody { // else the credential is its body
		spec.BodyType = ""
	}
}

// spreads reports whether the rest argument's members make up the body.
func (p *parser) spreads(op *operation) bool {
	a := op.args[op.action.Rest]
	return a != nil && a.In == runtime.InBody
}
