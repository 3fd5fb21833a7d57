package services

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/runtime"
)

// answer reads what an action says of its response. The filter is jq and is
// compiled by whoever runs it.
func (p *parser) answer(op *operation) {
	if n := op.get("response"); n != nil {
		r := p.object(n, op.name+".response", "type", "filter", "text_filter")
		r.oneOf("type", "", paramTypes()...)
		op.action.HTTP.Filter = p.filter(r, "filter")
		if n := r.get("text_filter"); n != nil {
			p.bad(n, "use filter", "%s.response.text_filter is for commands, which may answer in plain text", op.name)
		}
	}
	if n := op.get("pagination"); n != nil {
		p.pagination(op, n)
	}
	if n := op.get("retry"); n != nil {
		p.retry(op, n)
		if !op.action.Idempotent {
			p.bad(n, "add idempotent: true when doing it twice is the same as once, else remove retry", "%s.retry needs an idempotent action", op.name)
		}
	}
	p.errors(op)
}

// filter reads a jq expression.
func (p *parser) filter(o *object, field string) string {
	text := o.text(field)
	if text != "" {
		p.s.Filters = append(p.s.Filters, Filter{text, p.problem(o.at(field), o.label(field))})
	}
	return text
}

// retry reads when a built request is sent again. Without a list, those statuses
// by which servers say "later".
func (p *parser) retry(op *operation, n *yaml.Node) {
	r := p.object(n, op.name+".retry", "attempts", "on")
	spec := &runtime.Retry{Attempts: r.integer("attempts", 3, 1, 10)}
	for _, status := range r.list("on") {
		code, ok := wholeNumber(status)
		if !ok || code < 400 || code > 599 {
			p.wrong(status, op.name+".retry.on", "a list of statuses from 400 to 599")
		}
		spec.On = append(spec.On, code)
	}
	if len(spec.On) == 0 {
		spec.On = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	}
	op.action.HTTP.Retry = spec
}

func (p *parser) pagination(op *operation, n *yaml.Node) {
	g := p.object(n, op.name+".pagination", "type", "next", "param")
	if g.needed("type", "add type: link") == "" {
		return
	}
	needed := map[string][]string{"link": {}, "cursor": {"next", "param"}, "page": {"param"}}
	t := g.oneOf("type", "", "link", "cursor", "page")
	if t == "" {
		return
	}
	for _, field := range []string{"next", "param"} {
		has, wants := g.get(field) != nil, slices.Contains(needed[t], field)
		if wants && !has {
			p.badField(n, op.name+".pagination."+field, map[string]string{"next": "add next: .meta.next, the place of the cursor in an answer, as for jq", "param": "add param: with the argument that takes it"}[field], "%s.pagination of type %s needs the field %s", op.name, t, field)
		} else if has && !wants {
			p.bad(g.at(field), "leave it out", "%s.pagination of type %s has no field %s", op.name, t, field)
		}
	}
	param := g.text("param")
	if param != "" && op.args[param] == nil {
		p.bad(g.at("param"), "declare it: args: [{name: "+param+"}]", "%s.pagination.param: %s is not an argument of the action", op.name, shown(param))
	}
	if t == "link" && !bodiless(op.action.HTTP.Method) {
		p.bad(n, "use type: cursor", "%s.pagination of type link is for a GET: a link carries no body", op.name)
	}
	op.action.HTTP.Pages = &runtime.Pagination{Type: t, Next: p.filter(g, "next"), Param: param}
}

func (p *parser) errors(op *operation) {
	op.action.HTTP.Errors = p.mappings(op, "statuses from 400 to 599", 400, 599)
}

// mappings reads what the numbers that an action ends with mean.
func (p *parser) mappings(op *operation, which string, low, high int) map[int]runtime.ErrorMapping {
	var out map[int]runtime.ErrorMapping
	for _, e := range op.pairs("errors") {
		number, err := strconv.Atoi(e.name)
		if err != nil || number < low || number > high {
			p.bad(e.key, fmt.Sprintf("write a number from %d to %d", low, high), "%s.errors is for %s, not %s", op.name, which, shown(e.name))
			continue
		}
		m := p.object(e.value, op.name+".errors."+e.name, "code", "message")
		mapping := runtime.ErrorMapping{Code: m.needed("code", "add code: not_found"), Message: m.needed("message", "say what it means")}
		if mapping.Code != "" && !errorCode().MatchString(mapping.Code) {
			p.bad(m.at("code"), "write it like not_found", "%s is not an error code", shown(mapping.Code))
		}
		p.known(op, m.at("message"), mapping.Message)
		if out == nil {
			out = map[int]runtime.ErrorMapping{}
		}
		out[number] = mapping
	}
	return out
}

var errorCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]*$`) })
