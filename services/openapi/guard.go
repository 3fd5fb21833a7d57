package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// beyond reports whether what is left out could do more than the catch-all says that takes
// its place: hand out lasting power, or what is high risk by another method than DELETE.
func beyond(method, level string, grants bool) bool {
	return grants || level == "high" && method != http.MethodDelete
}

// guard stands for an operation that is left out and is [beyond] the catch-all. It is nil
// for other operations, and for those of another server.
func (p *planner) guard(o *operation, name string) *action {
	level, grants := risk(o)
	if !beyond(o.method, level, grants) || o.servers != nil && !p.sameServer(o.servers) || o.method == "QUERY" || o.method == http.MethodTrace || !strings.HasPrefix(o.path, "/") {
		return nil
	}
	return p.bare(o, name, level, grants)
}

// bare is an action that is known by its method, its path and no more. A segment
// that cannot be said is any text.
func (p *planner) bare(o *operation, name, level string, grants bool) *action {
	path, _, _ := strings.Cut(o.path, "?")
	a := &action{name: name, method: o.method, from: o, description: o.summary, risk: level, grants: grants, guard: true}
	if a.description == "" {
		a.description = o.method + " " + o.path
	}
	parts := strings.Split(strings.TrimSuffix(p.prefix, "/")+path, "/")[1:]
	for i, part := range parts {
		if strings.ContainsAny(part, "{}") {
			parts[i] = fmt.Sprintf("{part%d}", i+1)
		}
	}
	a.path = "/" + strings.Join(parts, "/")
	a.args = append(a.args, arg{name: "fields", rest: true, shape: shape{typ: "object"}})
	return a
}

// places are the actions by where they are, and by where they would be if no
// placeholder were a number.
type places map[string]*action

func (p places) take(a *action) {
	p[a.place()] = a
	if beside := anyText(a.place()); p[beside] == nil {
		p[beside] = a
	}
}

// by is the action that has the place of another. A number beside any text is a
// place of its own, but not where one of the two hands out access.
func (p places) by(a *action) *action {
	if have := p[a.place()]; have != nil && have.place() == a.place() {
		return have
	}
	if have := p[anyText(a.place())]; have != nil && (have.grants || a.grants) {
		return have
	}
	return nil
}

// add gives an action its place in the file, or what it can do to the one that is there.
func (s *service) add(a *action, taken places) {
	if have := taken.by(a); have != nil {
		have.worsen(a)
		return
	}
	taken.take(a)
	s.actions = append(s.actions, a)
}

func anyText(path string) string { return strings.ReplaceAll(path, ":int}", "}") }

// worsen takes on what another operation of the same place can do, as nobody can
// tell which of the two a request is.
func (a *action) worsen(b *action) {
	levels := []string{"low", "medium", "high", "critical"}
	if slices.Index(levels, b.risk) > slices.Index(levels, a.risk) {
		a.risk = b.risk
	}
	if b.grants && !a.grants {
		a.grants, a.path = true, anyText(a.path)
	}
}
