package services

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

func actionFields() []string {
	return []string{
		"description", "method", "path", "host", "idempotent", "allow_slash", "websocket", "audit", "risk", "args",
		"request", "match", "response", "pagination", "retry", "errors", "command", "inline_script",
	}
}

// operation is one action while it is read.
type operation struct {
	*object
	action     *runtime.Action
	route      classifier.Route
	methods    []string
	holes      []pathHole
	args       map[string]*argument
	order      []string // of args
	constants  []constant
	discerning bool   // it needs its body to be told from other actions
	only       origin // the one place it is at; zero for all of the service's
}

func (p *parser) actions(o *object) {
	pairs := o.pairs("actions")
	if o.get("actions") == nil || o.get("actions").Kind == yaml.MappingNode && len(pairs) == 0 {
		p.badField(o.at("actions"), o.label("actions"), "add one, like get-user: {method: GET, path: /user, description: …}", "service needs the field actions, with at least one action")
	}
	p.s.Actions = make([]*runtime.Action, 0, len(pairs))
	p.s.Routes, p.s.ready = make([]classifier.Route, 0, len(pairs)), make([]classifier.Prepared, 0, len(pairs))
	for _, a := range pairs {
		if !isName(a.name) {
			p.bad(a.key, "use lower-case letters, digits and hyphens, 64 at most, with a letter first", "%s is not a name for an action", shown(a.name))
			continue
		}
		p.action(a)
	}
	p.keyless(o)
	placed := func(a *runtime.Action) bool { return a.HTTP != nil && a.HTTP.Segment > 0 }
	if auth := p.s.Auth; auth.Segment != "" && len(p.problems) == 0 && !slices.ContainsFunc(p.s.Actions, placed) {
		p.bad(o.at("auth"), "write it where the credential goes, like /{"+auth.Segment+"}/get", "no path has {%s}, so the credential goes nowhere", auth.Segment)
	}
}

// keyless warns of actions that the stored key does not reach: it goes into the body, and a
// GET has none (RFC 9110 section 9.3.1). A program's is recognised all the same, and needs
// none while no key is stored.
func (p *parser) keyless(o *object) {
	if p.s.Auth.Type != runtime.AuthBody {
		return
	}
	var names []string
	for i := range p.s.Routes {
		route := &p.s.Routes[i]
		_, name, _ := strings.Cut(route.Action, ".")
		carries := func(method string) bool { return method != http.MethodGet && method != http.MethodHead }
		if !slices.ContainsFunc(route.Methods, carries) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		p.warn(o.at("auth"), "move what needs no key to a service of its own, with auth: {type: none}", "once a key is stored, these are refused, since the key goes into the body and a GET has none: %s", strings.Join(names, ", "))
	}
}

func (p *parser) action(a pair) {
	ref := p.s.Name + "." + a.name
	op := &operation{object: p.object(a.value, a.name, actionFields()...), args: map[string]*argument{}}
	if a.value.Kind != yaml.MappingNode {
		return
	}
	if p.program != nil {
		p.programAction(a, op)
		return
	}
	before := len(p.problems)
	for _, field := range []string{"command", "inline_script"} {
		if n := op.get(field); n != nil {
			p.bad(n, "leave it out", "%s.%s belongs to another adapter than http", a.name, field)
		}
	}
	op.action = &runtime.Action{
		Ref: runtime.Ref(ref), Service: p.s.Name, Name: a.name, Backend: "rest", Auth: p.s.Auth, Source: p.sourceOf(a.key),
		Description: op.description(a.name),
		Idempotent:  op.boolean("idempotent", false),
		AuditPlain:  op.oneOf("audit", "keyed", "keyed", "plain") == "plain",
		HTTP:        &runtime.HTTPSpec{BaseURL: p.s.BaseURL, Authorities: p.s.Authorities, AllowHTTP: p.s.AllowHTTP},
	}
	op.route = classifier.Route{
		Action: ref, Service: p.s.Name, Strict: p.s.Strict, AllowSlash: op.boolean("allow_slash", false), Source: op.action.Source,
	}
	p.method(op)
	p.path(op)
	p.host(op)
	p.risk(op)
	p.arguments(op)
	p.match(op)
	p.request(op)
	p.answer(op)
	if len(p.problems) == before {
		p.finish(op)
	}
}

// description is what the file says of the action, or else its name in words.
func (op *operation) description(name string) string {
	if text := op.text("description"); text != "" {
		return text
	}
	return strings.ReplaceAll(name, "-", " ")
}

// finish makes the routes, has each checked by itself, and seals the digest.
func (p *parser) finish(op *operation) {
	routes := p.routes(op)
	ready := len(p.s.ready)
	for _, r := range routes {
		one, err := classifier.Prepare(r)
		if err != nil {
			p.s.ready = p.s.ready[:ready]
			p.routeProblems(op, "match", "correct it, as docs/services.md has match", err)
			return
		}
		p.s.ready = append(p.s.ready, one)
	}
	op.action.Digest = p.definition.digest(op.action, routes)
	p.s.Actions = append(p.s.Actions, op.action)
	p.s.Routes = append(p.s.Routes, routes...)
}

// routeProblems notes what the classifier has against a route, at a field of its action.
func (p *parser) routeProblems(op *operation, field, fix string, err error) {
	for _, one := range split(err) {
		msg := one.Error()
		var e *classifier.RouteError
		if errors.As(one, &e) {
			msg = e.Msg
		}
		p.badField(op.at(field), op.label(field), fix, "%s: %s", op.name, msg)
	}
}

// routes is one route per scheme: a classifier's route pairs every scheme with
// every authority, and a host is ours under the scheme it is written with.
func (p *parser) routes(op *operation) []classifier.Route {
	if p.schemes == nil {
		for _, scheme := range []string{"https", "http"} {
			one := reach{schemes: []string{scheme}}
			for _, o := range p.s.origins {
				if o.scheme == scheme {
					one.authorities = append(one.authorities, o.authority)
				}
			}
			if one.authorities != nil {
				p.schemes = append(p.schemes, one)
			}
		}
	}
	places := p.schemes
	if op.only != (origin{}) {
		places = []reach{{schemes: []string{op.only.scheme}, authorities: []string{op.only.authority}}}
	}
	out := make([]classifier.Route, len(places))
	for i, one := range places {
		out[i] = op.route
		out[i].Schemes, out[i].Authorities = one.schemes, one.authorities
	}
	return out
}

// host keeps an action to one of the hosts of its service. The path of base_url
// stands before its own there too.
func (p *parser) host(op *operation) {
	n := op.get("host")
	if n == nil {
		return
	}
	text := p.textOf(n, op.label("host"))
	i := slices.IndexFunc(p.s.origins, func(o origin) bool {
		authority, err := classifier.CanonicalAuthority(text, defaultPort(o.scheme))
		return err == nil && authority == o.authority
	})
	if i < 0 {
		p.bad(n, "write one of them, without variables, or add it to hosts", "%s.host %s is not one of the service's hosts", op.name, shown(text))
		return
	}
	op.only = p.s.origins[i]
	spec := op.action.HTTP
	if base, err := url.Parse(spec.BaseURL); err == nil {
		spec.BaseURL = op.only.scheme + "://" + withoutDefaultPort(op.only) + strings.TrimSuffix(base.EscapedPath(), "/")
	}
	if len(p.s.Unset) == 0 {
		spec.Authorities = []string{op.only.authority}
	}
}

// reach is where the routes of one scheme go. Nobody changes it.
type reach struct{ schemes, authorities []string }

func (p *parser) method(op *operation) {
	n := op.get("method")
	if n == nil {
		p.badField(op.at("method"), op.label("method"), "add method: GET, or a list like [GET, HEAD]", "%s needs the field method", op.name)
		return
	}
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	if len(list) == 0 {
		p.bad(n, "write at least one", "%s.method is an empty list", op.name)
	}
	for _, n := range list {
		m := p.textOf(n, op.label("method"))
		switch {
		case m == "":
		case m == http.MethodConnect || m == http.MethodTrace:
			p.bad(n, "leave it out: kimbap refuses such requests", "method %s cannot be an action", m)
		case !isMethod(m) || meansAny(m):
			p.bad(n, methodFix(m), "%s is not a method (RFC 9110 section 9.1)", shown(m))
		case misspelled(m) != "":
			p.bad(n, "did you mean "+misspelled(m)+"?", "%s is not a method that anybody uses", shown(m))
		case slices.Contains(op.methods, m):
			p.bad(n, "remove it", "method %s is given twice", m)
		default:
			op.methods = append(op.methods, m)
		}
	}
	if len(op.methods) > 0 {
		op.action.HTTP.Method = op.methods[0]
	}
	if len(op.methods) > 1 {
		op.action.HTTP.Methods = op.methods
	}
	op.route.Methods = op.methods
	reads := slices.Contains(op.methods, http.MethodGet)
	op.action.WebSocket = op.boolean("websocket", reads)
	if op.action.WebSocket && !reads && len(op.methods) > 0 {
		p.bad(op.at("websocket"), "leave it out", "only a GET can be upgraded to websocket (RFC 6455 section 4.1)")
	}
}

// pathHole is one {placeholder} of a path.
type pathHole struct {
	name  string
	typ   runtime.ParamType
	rest  bool // {name...}
	piece string
}

// path reads the path. Its grammar is the classifier's, which judges it when
// the route is made; here only the placeholders' names are wanted.
func (p *parser) path(op *operation) {
	path := op.needed("path", "add path: /users/{id}")
	op.action.HTTP.Path = path
	prefix := ""
	if u := strings.SplitN(p.s.BaseURL, "/", 4); len(u) == 4 && u[3] != "" {
		prefix = "/" + strings.TrimSuffix(u[3], "/")
	}
	op.route.Path = prefix + path
	switch scheme, _, isURL := strings.Cut(path, "://"); {
	case op.get("path") == nil:
	case isURL && !strings.Contains(scheme, "/"):
		p.bad(op.at("path"), "write the path alone; the host is that of base_url, or of hosts with host:", "%s.path must start with a slash", op.name)
	case path == "" || path[0] != '/':
		p.bad(op.at("path"), "write /"+path, "%s.path must start with a slash", op.name)
	default:
		p.routeProblems(op, "path", pathFix(path), classifier.CheckPath(path))
	}
	number := strings.Count(prefix, "/")
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		number++
		if auth := p.s.Auth; auth.Type == runtime.AuthPath && part == "{"+auth.Segment+"}" {
			op.action.HTTP.Segment = number
		}
		if len(part) > 2 && (part[0] == ':' || part[0] == '<' && strings.HasSuffix(part, ">")) {
			p.warn(op.at("path"), "write {"+strings.Trim(part, ":<>")+"} for an argument", "%s.path: the segment %s is sent as it stands", op.name, shown(part))
		}
		name, _, _ := strings.Cut(part, "}:") // a custom method, "{model}:generateContent"
		inner, opens := strings.CutPrefix(strings.TrimSuffix(name, "}"), "{")
		closes := name != part || strings.HasSuffix(part, "}")
		if !opens || !closes {
			continue
		}
		hole := pathHole{name: inner, typ: runtime.TypeString, piece: part}
		if name, rest := strings.CutSuffix(inner, "..."); rest {
			hole.name, hole.rest = name, true
		} else if name, isInt := strings.CutSuffix(inner, ":int"); isInt {
			hole.name, hole.typ = name, runtime.TypeInteger
		}
		if hole.name != "" && !request.IsName(hole.name) && classifier.CheckPath(path) == nil {
			p.bad(op.at("path"), "begin it with a letter, 64 letters, digits, _, - and . at most", "%s.path: {%s} is not a name for an argument", op.name, hole.name)
		}
		op.holes = append(op.holes, hole)
	}
}

// pathFix is how a path is written that has something that none can have.
func pathFix(path string) string {
	switch {
	case strings.ContainsRune(path, '?'):
		return "end the path before the ?; what stands behind it belongs to request.query, or to match.query where it tells actions apart"
	case holeTwice(path):
		return "give each placeholder a name of its own, like {id} and {note_id}"
	case strings.ContainsAny(path, "{}*"):
		return "a placeholder is a whole segment: {id}, {id:int} or {id}:verb; {name...} and ** are the last one"
	}
	return "write it as it is sent: a blank is %20, and no segment is empty, . or .. or holds ; or #"
}

// holeTwice reports whether a path has two placeholders of one name.
func holeTwice(path string) bool {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(path, "/") {
		inner, opens := strings.CutPrefix(part, "{")
		name, _, closes := strings.Cut(inner, "}")
		name, _, _ = strings.Cut(strings.TrimSuffix(name, "..."), ":")
		if opens && closes && seen[name] {
			return true
		}
		seen[name] = seen[name] || opens && closes
	}
	return false
}

// levels are the risks in rising order.
func levels() []string { return []string{"low", "medium", "high", "critical"} }

func (p *parser) risk(op *operation) {
	level := methodsRisk(op.methods)
	if n := op.get("risk"); n != nil {
		if n.Kind == yaml.ScalarNode {
			p.bad(n, "write risk: {level: "+n.Value+"}", "%s.risk must be {level: …}", op.name)
			return
		}
		r := p.object(n, op.name+".risk", "level", "grants_access")
		op.action.GrantsAccess = r.boolean("grants_access", false)
		if op.action.GrantsAccess {
			level = "critical"
		}
		level = r.oneOf("level", level, levels()...)
		if op.action.GrantsAccess && level != "critical" {
			p.bad(r.at("level"), "write level: critical", "%s hands out lasting access (grants_access), so its risk is critical", op.name)
		}
		if op.action.GrantsAccess && strings.Contains(op.action.HTTP.Path, "**") {
			p.bad(op.at("path"), "write the path of the one operation", "%s hands out lasting access (grants_access), so it may not be a catch-all", op.name)
		}
	}
	op.action.Risk = runtime.Risk(level)
	op.route.Rank = rankOf(op.action)
}

// rankOf is how bad an action is to the classifier.
func rankOf(a *runtime.Action) int {
	rank := slices.Index(levels(), string(a.Risk))
	if a.GrantsAccess {
		rank++ // of two critical actions it is the worse
	}
	return rank
}

// methodsRisk is the default: that of the most harmful method.
func methodsRisk(methods []string) string {
	worst := 0
	for _, m := range methods {
		switch m {
		case http.MethodGet, http.MethodHead:
		case http.MethodDelete:
			worst = 2
		default:
			worst = max(worst, 1)
		}
	}
	return levels()[worst]
}
