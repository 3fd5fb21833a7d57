package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// action is one action of the service file, before it is written.
type action struct {
	name, description string
	method, path      string
	match             []pair // query conditions
	slash             bool
	idempotent        bool
	risk              string
	grants            bool
	args              []arg
	pathParams        []pair
	query, headers    []pair
	writeQuery        bool // the mapping must be written
	body              []pair
	writeBody         bool
	whole             string // the argument that alone is the body
	bodyType          string
	from              *operation
	guard             bool // it stands for an operation that was left out
}

type pair struct{ name, value string }

// arg is one argument of an action.
type arg struct {
	name     string
	required bool
	secret   bool
	rest     bool
	null     bool // may be null
	shape
}

// planner turns operations into actions.
type planner struct {
	*document
	auth   *auth
	base   string // the server, without its path
	prefix string // of the server's path
	given  string // the base that a person gave, "" for none
	lost   map[string]int
}

// plan makes the action of an operation; the error is the reason to leave it out.
func (p *planner) plan(o *operation, name string) (*action, error) {
	s := &schemas{library: p.library}
	a := &action{name: name, method: o.method, from: o, description: o.summary, idempotent: idempotent(o.method)}
	if a.description == "" {
		a.description = o.method + " " + o.path
	}
	if o.deprecated {
		a.description = "Deprecated: " + a.description
	}
	if o.method == http.MethodTrace || o.method == "QUERY" {
		return nil, fmt.Errorf("the method %s cannot be an action", o.method)
	}
	if a.risk, a.grants = risk(o); o.servers != nil && !p.sameServer(o.servers) {
		return nil, errors.New("it lives at another server than the rest")
	}
	params, err := p.parameters(s, o)
	if err != nil {
		return nil, err
	}
	if params = slices.DeleteFunc(params, p.auth.carries); len(params) > mostArgs {
		return nil, fmt.Errorf("it has more than %d arguments", mostArgs)
	}
	if err := p.path(a, o, params); err != nil {
		return nil, err
	}
	p.queries(a, params)
	p.fields(a, params)
	body, err := p.payload(o, params)
	if err != nil {
		return nil, err
	}
	if body != nil {
		if err := p.body(a, s, body); err != nil {
			return nil, err
		}
	}
	if len(a.args) > mostArgs {
		return nil, fmt.Errorf("it has more than %d arguments", mostArgs)
	}
	a.finish()
	return a, nil
}

// mostArgs is how many arguments an action may have. The classifier reads no
// more from a query.
const mostArgs = 250

// path writes the path with its placeholders, and their arguments.
func (p *planner) path(a *action, o *operation, params []parameter) error {
	path, query, _ := strings.Cut(o.sent, "?")
	if o.unsure {
		return errors.New("a parameter of its path spans segments in more than one way")
	}
	if strings.Contains(o.path, "#") || path == "" || path[0] != '/' {
		return errors.New("its path cannot be sent")
	}
	if err := a.conditions(query); err != nil {
		return err
	}
	parts := strings.Split(strings.TrimSuffix(p.prefix, "/")+path, "/")[1:]
	for i, part := range parts {
		if !strings.ContainsAny(part, "{}") {
			continue
		}
		name, opens := strings.CutPrefix(part, "{")
		name, verb, closes := strings.Cut(name, "}")
		if !opens || !closes || strings.Contains(name, "{") || verb != "" && !customMethod().MatchString(verb) {
			return errors.New("a segment of its path mixes text and a parameter")
		}
		if name == "" {
			return errors.New("a placeholder of its path has no name")
		}
		at := slices.IndexFunc(params, func(q parameter) bool { return q.in == "path" && q.name == name })
		q := parameter{name: name, in: "path", shape: shape{typ: "string"}}
		if at >= 0 {
			q = params[at]
		}
		if form := o.apart["{"+name+"}"]; form != "" {
			q.shape = shape{typ: "string", description: "{" + name + "} of " + form}
		}
		if verb != "" { // it ends the segment, so the placeholder takes any text before it
			q.typ, q.segments = "string", false
		}
		parts[i] = a.hole(q, i == len(parts)-1) + verb
	}
	a.path = "/" + strings.Join(parts, "/")
	return nil
}

// place is what tells the action from others: two with the same cannot be kept
// apart, whatever their placeholders are called.
func (a *action) place() string {
	return a.method + " " + hole().ReplaceAllString(a.path, "{$1}") + " " + flow(a.match)
}

// customMethod ends a segment as Google's APIs have it, "{model}:generate".
var customMethod = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^:[A-Za-z]+$`) })

var hole = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[^{}:]*?(\.\.\.|:int)?\}`) })

// hole adds the argument of a placeholder and returns the placeholder. A number
// is {name:int}, so that another text there is some other operation; where that
// would hide what hands out access, any text is taken.
func (a *action) hole(q parameter, last bool) string {
	q.required, q.standard = true, nil
	if !slices.Contains([]string{"string", "integer", "number", "boolean"}, q.typ) {
		q.typ, q.enum = "string", nil
	}
	one := a.add(q.name, "", q.required, q.shape)
	end := ""
	switch {
	case q.segments && last:
		end = "..."
	case q.segments:
		a.slash = true
	case q.typ == "integer" && !a.grants:
		end = ":int"
	}
	if one.name != q.name {
		a.pathParams = append(a.pathParams, pair{one.name, "{" + one.name + "}"})
	}
	return "{" + one.name + end + "}"
}

// anyValue is a condition that a name stands in the query.
const anyValue = "*"

// conditions are those of a path with a query, like /responses?beta=true.
func (a *action) conditions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("its path cannot be sent")
	}
	for name, list := range values {
		if len(list) > 1 || strings.ContainsAny(name+list[0], "{}") || list[0] == "*" || strings.Contains(list[0], "|") {
			return errors.New("the query in its path is not fixed")
		}
		value := list[0]
		if value == "" {
			value = anyValue
		}
		a.match = append(a.match, pair{name, value})
	}
	slices.SortFunc(a.match, func(x, y pair) int { return strings.Compare(x.name, y.name) })
	return nil
}

// add declares an argument under a name that is free: the parameter's own, else
// with its place before it.
func (a *action) add(name, place string, required bool, s shape) *arg {
	free := func(name string) bool {
		return !slices.ContainsFunc(a.args, func(one arg) bool { return one.name == name })
	}
	chosen := argName(name)
	if !free(chosen) && place != "" {
		chosen = argName(place + "_" + name)
	}
	for base, n := chosen, 2; !free(chosen); n++ {
		chosen = fmt.Sprintf("%s_%d", base[:min(len(base), longestName-4)], n)
	}
	one := arg{name: chosen, required: required, shape: s}
	a.args = append(a.args, one.clean())
	return &a.args[len(a.args)-1]
}

// queries maps the parameters of the query. What a condition fixes is none, and what one wants
// with any value must be given.
func (p *planner) queries(a *action, params []parameter) {
	for _, c := range a.match {
		if c.value == anyValue && !slices.ContainsFunc(params, func(q parameter) bool { return q.in == "query" && q.name == c.name }) {
			params = append(params, parameter{name: c.name, in: "query", shape: shape{typ: "string"}})
		}
	}
	for _, q := range params {
		fixed := slices.IndexFunc(a.match, func(c pair) bool { return c.name == q.name })
		if q.in != "query" || fixed >= 0 && a.match[fixed].value != anyValue {
			continue
		}
		if fixed >= 0 { // programs send the bare name
			one := a.add(q.name, "query", true, shape{typ: "string", description: q.description})
			a.query = append(a.query, pair{q.name, "{" + one.name + "}"})
			continue
		}
		if p.spread(a, q) {
			continue
		}
		q.shape = inText(q)
		one := a.add(q.name, "query", q.required, q.shape)
		a.query = append(a.query, pair{q.name, "{" + one.name + "}"})
	}
}

// fields maps the parameters of the head. Those that say how the message is
// sent are not arguments (OpenAPI 3.1.1 section 4.8.12.1).
func (p *planner) fields(a *action, params []parameter) {
	for _, q := range params {
		switch {
		case q.in == "cookie":
			p.lost["parameters in cookies"]++
		case q.in != "header":
		case !fieldName().MatchString(q.name) || slices.Contains(ownFields(), http.CanonicalHeaderKey(q.name)) || strings.HasPrefix(strings.ToLower(q.name), "proxy-"):
		case slices.ContainsFunc(a.headers, func(f pair) bool { return http.CanonicalHeaderKey(f.name) == http.CanonicalHeaderKey(q.name) }):
		default:
			q.shape = inText(q)
			one := a.add(q.name, "header", q.required, q.shape)
			a.headers = append(a.headers, pair{q.name, "{" + one.name + "}"})
		}
	}
}

var fieldName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") })

// ownFields are written by whoever sends the message.
func ownFields() []string {
	return []string{
		"Accept", "Content-Type", "Content-Length", "Content-Encoding", "Authorization", "Host", "Connection", "Transfer-Encoding", "Te", "Trailer",
		"Upgrade", "Keep-Alive", "Expect", "Http2-Settings", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "User-Agent", "Cookie",
	}
}

// bodiless methods have the arguments that no mapping names in their query.
func bodiless(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "DELETE", "OPTIONS"}, method)
}

// finish says which mappings must be written, because the default would put the
// arguments elsewhere or under another name.
func (a *action) finish() {
	renamed := func(list []pair) bool {
		return slices.ContainsFunc(list, func(m pair) bool { return m.value != "{"+m.name+"}" })
	}
	a.writeQuery = len(a.query) > 0 && (!bodiless(a.method) || renamed(a.query))
	a.writeBody = len(a.body) > 0 && (bodiless(a.method) || renamed(a.body))
	for i := range a.args {
		a.args[i].secret = secretArg(&a.args[i]) && !a.inPath(a.args[i].name)
	}
}

// inPath reports whether an argument is a segment, which nothing else maps.
func (a *action) inPath(name string) bool {
	return !slices.ContainsFunc(slices.Concat(a.query, a.body, a.headers), func(m pair) bool { return m.value == "{"+name+"}" })
}
